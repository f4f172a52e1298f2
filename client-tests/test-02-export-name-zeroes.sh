#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Rule 2: 124 zero bytes follow the answer to EXPORT_NAME exactly when NO_ZEROES was not agreed, never after GO.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"

rawnbd_test <<'PY'
for flags, pad in ((FIXED_NEWSTYLE, 124), (FIXED_NEWSTYLE | NO_ZEROES, 0)):
    c = Client().greet(flags)
    c.option(OPT_EXPORT_NAME, b"x")
    c.recv(10)
    assert c.recv(pad) == bytes(pad)
    c.alive()
    c = Client().greet(flags)
    c.info("x")
    c.alive()
PY
