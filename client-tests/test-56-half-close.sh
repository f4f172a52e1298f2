#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Rule 56: after the client shut its write side the replies in flight are delivered, then the connection closes; a full
# close in the middle of a large reply harms nobody.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"

rawnbd_test <<'PY'
c = Client().go("x")
for i in range(8):
    c.start(READ, i << 20, 1 << 20, cookie=i)
c.s.shutdown(socket.SHUT_WR)
got = {c.message({i: 1 << 20 for i in range(8)})[1] for _ in range(8)}
assert got == set(range(8))
c.closed()
for i in range(30):
    c = Client().go("x", structured=i % 2 == 0)
    for _ in range(4):
        c.start(READ, 0, 8 << 20)
    c.recv(100 + 1000 * i)
    c.s.close()
Client().go("x").alive()
PY
