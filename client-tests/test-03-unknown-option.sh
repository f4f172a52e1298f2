#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Rule 3: an unknown option with no, some and 64 KiB of data is UNSUP each time, its data is eaten, a GO right after works.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"

rawnbd_test <<'PY'
c = Client().greet()
for opt in (4, 77, 0x7fffffff, OPT_LIST_META, OPT_SET_META, OPT_EXTENDED_HEADERS):
    for n in (0, 100, 64 << 10):
        c.refused(opt, ERR_UNSUP, b"d" * n)
c.info("x")
c.alive()
PY
