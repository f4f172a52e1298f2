#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Rule 15: a second STRUCTURED_REPLY is acknowledged like the first.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"

rawnbd_test <<'PY'
c = Client().greet()
c.structured_reply()
c.structured_reply()
c.info("x")
c.alive()
PY
