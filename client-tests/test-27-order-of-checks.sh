#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Rules 27 and 29: on a read-only export WRITE, TRIM and WRITE_ZEROES are EPERM, even past the end; FLUSH succeeds;
# a refused WRITE's payload is eaten.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"

truncate -s 1M "$tmp/x.img"
rawnbd_test --readonly --build "x:raid0:$tmp/x.img" <<'PY'
c = Client().go("x")
assert c.flags & F_READ_ONLY
for offset in (0, c.size - 1, c.size, (1 << 64) - 1):
    c.fails(EPERM, WRITE, offset, data=bytes(1000))
    c.fails(EPERM, TRIM, offset, 1000)
    c.fails(EPERM, WRITE_ZEROES, offset, 1000)
c.ok(FLUSH)
c.ok(READ, 0, 1000)
PY
