#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Rule 31: length 0 of each command is answered, success or EINVAL, changes nothing and does not disconnect.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"

rawnbd_test <<'PY'
for structured in (False, True):
    c = Client().go("x", structured)
    before = c.ok(READ, 0, 4096)
    for command in (READ, WRITE, TRIM, CACHE, WRITE_ZEROES, FLUSH):
        for offset in (0, 1, c.size):
            cookie = c.start(command, 0 if command == FLUSH else offset, 0)
            error, _, _ = c.finish(cookie, command, offset, 0)
            assert error in (0, EINVAL), (command, offset, error)
    assert c.ok(READ, 0, 4096) == before
PY
