#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Rule 43: the cookie is an opaque 64-bit number: echoed as it is, equal ones in flight are tolerated, each request is
# answered exactly once and on its own connection.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"

rawnbd_test <<'PY'
c, other = Client().go("x"), Client().go("x")
cookies = [0, 1, (1 << 64) - 1, 0x0123456789abcdef, 7, 7, 7]
for k in cookies:
    c.start(READ, 0, 512, cookie=k)
got = sorted(c.message({k: 512 for k in cookies})[1] for _ in cookies)
assert got == sorted(cookies)
assert c.quiet() and other.quiet()
PY
