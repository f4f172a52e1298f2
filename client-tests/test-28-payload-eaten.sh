#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Rule 28: every refused WRITE has its payload eaten, up to 128 MiB; requests up to 64 MiB are served; beyond 128 MiB the
# session is dropped; no buffer is sized by the client's word.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"

rawnbd_test <<'PY'
c = Client().go("x")
c.fails(EINVAL, WRITE, 0, flags=1 << 14, data=b"u" * 100000)
c.fails(ENOSPC, WRITE, c.size, data=b"u" * 3000001)
c.alive()
big = pattern(7, 1 << 20) * 33
c.ok(WRITE, 4096, data=big)
assert c.ok(READ, 4096, len(big)) == big
c.fails(EINVAL, WRITE, 0, data=bytes((64 << 20) + 1))
c.fails(EINVAL, WRITE, 0, data=bytes(100 << 20))
c.alive()
c.start(WRITE, 0, (128 << 20) + 1)
c.closed()
c = Client().go("x")
c.start(WRITE, 0, 0xffffffff)
c.closed()
Client().go("x").alive()
PY
