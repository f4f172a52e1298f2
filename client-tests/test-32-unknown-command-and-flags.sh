#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Rule 32: unknown commands, unknown flags and known flags on the wrong command are EINVAL, the payload of a WRITE is
# eaten; DF without structured replies too.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"

rawnbd_test <<'PY'
for structured in (False, True):
    c = Client().go("x", structured)
    for command in (8, 9, 255, 65535, BLOCK_STATUS):
        c.fails(EINVAL, command, 0, 512)
    for command, flags in ((READ, REQ_ONE), (READ, NO_HOLE), (READ, FAST_ZERO), (TRIM, NO_HOLE), (TRIM, DF),
                           (FLUSH, NO_HOLE), (WRITE_ZEROES, DF), (WRITE_ZEROES, REQ_ONE), (CACHE, DF), (READ, 1 << 15)):
        c.fails(EINVAL, command, 0, 0 if command == FLUSH else 512, flags)
    for flags in (NO_HOLE, DF, FAST_ZERO, REQ_ONE, 1 << 9):
        c.fails(EINVAL, WRITE, 0, flags=flags, data=bytes(700))
    if structured:
        c.ok(READ, 0, 512, DF)
    else:
        c.fails(EINVAL, READ, 0, 512, DF)
    c.alive()
PY
