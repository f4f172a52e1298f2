#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Rule 53: FAST_ZERO either is done or answers ENOTSUP with nothing changed; without the flag ENOTSUP never comes.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"

rawnbd_test <<'PY'
c = Client().go("x")
data = pattern(1, 1 << 20)
for at, n in ((0, 1 << 20), (1, 1000), (4096, 4096)):
    for flags in (FAST_ZERO, FAST_ZERO | NO_HOLE):
        c.ok(WRITE, 0, data=data)
        error, _ = c.do(WRITE_ZEROES, at, n, flags)
        assert error in (0, ENOTSUP), error
        got = c.ok(READ, 0, len(data))
        assert got == (data if error else data[:at] + bytes(n) + data[at + n:])
    c.ok(WRITE_ZEROES, at, n)
    assert c.ok(READ, at, n) == bytes(n)
PY
