#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Rule 36: a bad request magic drops the session, nothing of what follows is carried out.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"

rawnbd_test <<'PY'
c = Client().go("x")
c.ok(WRITE, 0, data=pattern(1, 512))
c.send(c.request(WRITE, 0, 512, 0, 1, magic=0x25609512) + bytes(512) + c.request(WRITE, 0, 512, 0, 2) + bytes(512))
c.closed()
c = Client().go("x")
assert c.ok(READ, 0, 512) == pattern(1, 512)
PY
