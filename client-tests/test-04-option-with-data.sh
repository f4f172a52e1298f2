#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Rule 4: LIST and STRUCTURED_REPLY with data are INVALID, the data is eaten and the next option parses.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"

rawnbd_test <<'PY'
c = Client().greet()
for opt in (OPT_LIST, OPT_STRUCTURED_REPLY):
    for n in (1, 1000):
        c.refused(opt, ERR_INVALID, b"d" * n)
c.option(OPT_LIST)
assert [k for k, _ in c.replies(OPT_LIST)] == [REP_SERVER, REP_ACK]
c.info("x")
c.alive()
PY
