#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Rule 26: WRITE and WRITE_ZEROES past the end are ENOSPC, READ, TRIM, CACHE and BLOCK_STATUS EINVAL, also where
# offset + length wraps 2^64; nothing is changed and the session goes on.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"

rawnbd_test <<'PY'
for structured in (False, True):
    c = Client().go("x", structured)
    c.ok(WRITE, c.size - 512, data=pattern(1, 512))
    for offset, n in ((c.size, 512), (c.size - 512, 1024), (c.size - 511, 512), (1 << 63, 512),
                      ((1 << 64) - 512, 512), ((1 << 64) - 512, 1024), ((1 << 64) - 1, 1), (c.size + 1, 1)):
        c.fails(ENOSPC, WRITE, offset, data=bytes(n))
        c.fails(ENOSPC, WRITE_ZEROES, offset, n)
        for command in (READ, TRIM, CACHE, BLOCK_STATUS):
            c.fails(EINVAL, command, offset, n)
    assert c.ok(READ, c.size - 512, 512) == pattern(1, 512)
    c.fails(EINVAL, READ, c.size - 1, 2)
    assert c.ok(READ, c.size - 1, 1) == pattern(1, 512)[-1:]
PY
