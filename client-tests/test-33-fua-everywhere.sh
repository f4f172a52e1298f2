#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Rule 33: FUA is accepted on every command once it is advertised.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"

rawnbd_test <<'PY'
for structured in (False, True):
    c = Client().go("x", structured)
    c.ok(WRITE, 0, data=bytes(512), flags=FUA)
    for command in (READ, TRIM, CACHE, WRITE_ZEROES):
        c.ok(command, 0, 512, FUA)
    c.ok(FLUSH, flags=FUA)
PY
