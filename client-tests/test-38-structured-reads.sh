#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Rules 38 and 39: with structured replies every READ is answered by chunks, early errors too; content chunks lie inside
# the request, do not overlap, cover it; DONE comes once, last.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"

rawnbd_test <<'PY'
c = Client().go("x", structured=True)
data = pattern(9, 5 << 20)
c.ok(WRITE, 12345, data=data)
for at, n in ((0, 1), (12345, len(data)), (1, 3 << 20), (4095, 2), ((1 << 20) - 1, (1 << 20) + 2)):
    expected = (bytes(12345) + data)[at:at + n]
    assert c.ok(READ, at, n) == expected, (at, n)
cookie = c.start(READ, c.size, 512)
kind, got, flags, payload = c.message()
assert (kind, got, flags) == (ERROR, cookie, DONE) and struct.unpack(">I", payload[:4])[0] == EINVAL
assert struct.unpack(">H", payload[4:6])[0] == len(payload) - 6 > 0, "an error text is wanted"
c.alive()
PY
