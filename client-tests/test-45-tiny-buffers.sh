#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Rule 45: messages never interleave, even when the client's socket takes a few bytes at a time and many replies of many
# sizes are under way.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"

rawnbd_test <<'PY'
import random
rng = random.Random(2)
c = Client(rcvbuf=4096).go("x", structured=True)
data = pattern(4, 8 << 20)
c.ok(WRITE, 0, data=data)
want = {}
for i in range(200):
    n = rng.choice((1, 100, 4096, 70000, 1 << 18))
    at = rng.randrange(len(data) - n)
    want[c.start(READ, at, n)] = (at, n, bytearray(n))
left = set(want)
while left:
    kind, cookie, flags, payload = c.message()
    at, n, buf = want[cookie]
    assert cookie in left, "answer after DONE"
    if kind == DATA:
        off = struct.unpack(">Q", payload[:8])[0] - at
        buf[off:off + len(payload) - 8] = payload[8:]
    else:
        assert kind == NONE, kind
    if flags & DONE:
        left.remove(cookie)
        assert buf == data[at:at + n]
PY
