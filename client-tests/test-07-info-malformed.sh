#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Rule 7: INFO and GO whose name length, info count or length do not fit are INVALID; an unknown export is UNKNOWN;
# the session goes on and another export then works.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"

rawnbd_test <<'PY'
c = Client().greet()
for opt in (OPT_INFO, OPT_GO):
    for data in (b"", b"\0\0\0", c.go_data("x", name_length=2), c.go_data("x", name_length=0xffffffff),
                 c.go_data("x", name_length=0x7fffffff), c.go_data("x", count=1), c.go_data("x", count=65535),
                 c.go_data("x", (0,), count=0), c.go_data("x") + b"\0", c.go_data("x")[:-1]):
        c.refused(opt, ERR_INVALID, data)
    c.refused(opt, ERR_UNKNOWN, c.go_data("nosuch"))
c.info("x")
c.alive()
PY
