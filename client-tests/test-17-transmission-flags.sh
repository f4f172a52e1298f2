#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Rule 17: HAS_FLAGS always; DF only when structured replies were agreed; FAST_ZERO only with WRITE_ZEROES; flush, FUA,
# trim, zeroes, cache and multi-conn are offered.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"

rawnbd_test <<'PY'
plain = Client().go("x")
rich = Client().go("x", structured=True)
assert rich.flags == plain.flags | F_DF and not plain.flags & F_DF
wanted = F_HAS_FLAGS | F_FLUSH | F_FUA | F_TRIM | F_ZEROES | F_FAST_ZERO | F_CACHE | F_MULTI
assert plain.flags & wanted == wanted, hex(plain.flags)
assert not plain.flags & F_READ_ONLY
c = Client().greet()
c.info("x", (), OPT_INFO)
assert not c.flags & F_DF
c.structured_reply()
c.info("x", (), OPT_INFO)
assert c.flags & F_DF
PY
