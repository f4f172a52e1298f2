#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Rules 7 of the engine and 52 here: a client gone in the middle of a payload leaves at most an unacknowledged write
# of what it had sent; a newer write to the same place by another client is never overtaken by it.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"

rawnbd_test <<'PY'
for cut in (1, 4095, 4096, 300000, (1 << 20) - 1):
    c, other = Client().go("x"), Client().go("x")
    other.ok(WRITE, 0, data=pattern(1, 1 << 20))
    c.start(WRITE, 0, 1 << 20, data=pattern(2, 1 << 20)[:cut])
    c.s.close()
    other.ok(WRITE, 0, data=pattern(3, 1 << 20))
    for _ in range(3):
        assert other.ok(READ, 0, 1 << 20) == pattern(3, 1 << 20)
PY
