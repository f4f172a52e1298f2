#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Rule 5: ABORT is acknowledged, with or without data, then the connection closes; a client that leaves without
# reading harms nobody.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"

rawnbd_test <<'PY'
for data in (b"", b"whatever"):
    c = Client().greet()
    c.option(OPT_ABORT, data)
    assert c.reply(OPT_ABORT)[0] == REP_ACK
    c.closed()
for _ in range(50):
    c = Client()
    c.s.close()
    c = Client().greet()
    c.option(OPT_ABORT)
    c.s.close()
    c = Client().greet()
    c.option(OPT_LIST)
    c.s.close()
Client().go("x").alive()
PY
