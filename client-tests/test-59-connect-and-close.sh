#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Rule 59: thousands of connections that come and go leak no descriptor and no memory.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"

rawnbd_test <<'PY'
pid = os.getppid()
def open_files():
    return len(os.listdir(f"/proc/{pid}/fd"))
Client().go("x").disconnect()
before = open_files()
for i in range(2000):
    c = Client()
    if i % 4 == 1:
        c.greet()
    elif i % 4 == 2:
        c.go("x")
    elif i % 4 == 3:
        c.go("x").start(READ, 0, 4096)
    c.s.close()
eventually(lambda: open_files() <= before)
Client().go("x").alive()
PY
