#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Rule 19: without TLS configured STARTTLS is UNSUP or POLICY and TLS_REQD is never sent.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"

rawnbd_test <<'PY'
c = Client().greet()
c.option(OPT_STARTTLS)
assert c.reply(OPT_STARTTLS)[0] in (ERR_UNSUP, ERR_POLICY)
c.option(OPT_STARTTLS, b"data")
assert c.reply(OPT_STARTTLS)[0] in (ERR_UNSUP, ERR_POLICY, ERR_INVALID)
c.info("x")
c.alive()
PY
