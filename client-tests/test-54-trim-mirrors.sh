#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Rules 53 and 54: whatever TRIM and WRITE_ZEROES do, the copies of an array stay the same bytes, zeroed ranges read zero, what
# is around them is untouched; NO_HOLE keeps the space, without it holes give it back.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"
requires python3
requires_build nbd-raidd nbd-raidctl
cat >"$tmp/trim.py" <<'PY'
import random, sys
from rawnbd import *
c = Client(sys.argv[1]).go("a")
rng = random.Random(1)
size = 4 << 20
model = bytearray(pattern(1, size))
c.ok(WRITE, 0, data=bytes(model))
for i in range(200):
    at = rng.randrange(size)
    n = min(rng.choice((1, 511, 513, 4096, 70000, 300000)), size - at)
    kind = i % 4
    if kind == 0:
        c.ok(WRITE_ZEROES, at, n, rng.choice((0, NO_HOLE, FUA)))
        model[at:at + n] = bytes(n)
    elif kind == 1:
        c.ok(TRIM, at, n)
        got = c.ok(READ, at, n)
        assert all(a == b or b == 0 for a, b in zip(model[at:at + n], got)), "TRIM invents bytes"
        model[at:at + n] = got
    elif kind == 2:
        data = rng.randbytes(n)
        c.ok(WRITE, at, data=data)
        model[at:at + n] = data
    else:
        assert c.ok(READ, at, n) == model[at:at + n]
for at in range(0, size, 1 << 20):
    assert c.ok(READ, at, 1 << 20) == model[at:at + (1 << 20)]
c.ok(WRITE_ZEROES, 0, size, NO_HOLE)
c.disconnect()
PY
for level in 1,2 10,4; do
	mapfile -t m < <(members "${level#*,}" 8M)
	raidctl create --level="${level%,*}" --assume-clean "${m[@]}" >"$tmp/create.log" 2>&1 || fail "$(cat "$tmp/create.log")"
	for direct in on off; do
		[ $direct = off ] || dd if="${m[0]}" of=/dev/null bs=4k count=1 iflag=direct status=none 2>/dev/null || continue
		DIRECT=$direct start_raidd d --array "a:$(comma "${m[@]}")" --listen "unix:$tmp/d.sock"
		PYTHONPATH="$top/client-tests" PYTHONDONTWRITEBYTECODE=1 python3 "$tmp/trim.py" "$tmp/d.sock"
		stop_raidd d
		cmp -i 1048576 "${m[0]}" "${m[1]}" || fail "level $level: the mirrors differ"
	done
done
