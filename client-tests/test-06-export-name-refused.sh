#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Rule 6: EXPORT_NAME of an unknown export closes the connection without a byte.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"

rawnbd_test <<'PY'
for name in (b"unknown", b"X", b"x/", b"a" * 4096):
    c = Client().greet()
    c.option(OPT_EXPORT_NAME, name)
    c.closed()
PY
