#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Rule 55: DISC with 16 requests in flight: all are carried out and answered, then the connection closes; bytes after
# DISC are ignored.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"

rawnbd_test <<'PY'
c = Client().go("x")
sent = b""
for i in range(16):
    sent += c.request(WRITE, i * 4096, 4096, 0, i) + pattern(i, 4096)
c.send(sent + c.request(DISC) + c.request(WRITE, 0, 4096, 0, 99) + bytes(4096))
answers = {c.message()[1:3] for _ in range(16)}
assert answers == {(i, 0) for i in range(16)}, answers
c.closed()
c = Client().go("x")
for i in range(16):
    assert c.ok(READ, i * 4096, 4096) == pattern(i, 4096)
PY
