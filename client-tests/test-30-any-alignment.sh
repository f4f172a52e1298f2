#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Rule 30: any byte alignment is served, by read-modify-write where the members need it, and no neighbour changes.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"

rawnbd_test <<'PY'
import random
rng = random.Random(5)
c = Client().go("x")
model = bytearray(1 << 20)
for i in range(300):
    n = rng.choice((1, 2, 511, 512, 513, 4095, 4097, 70001))
    at = rng.randrange(len(model) - n)
    if rng.random() < 0.8:
        data = pattern(i, n)
        c.ok(WRITE, at, data=data, flags=rng.choice((0, 0, FUA)))
        model[at:at + n] = data
    else:
        c.ok(WRITE_ZEROES, at, n, flags=rng.choice((0, NO_HOLE)))
        model[at:at + n] = bytes(n)
    if i % 20 == 0:
        at = rng.randrange(len(model) - 5000)
        assert c.ok(READ, at, 4999) == model[at:at + 4999]
assert c.ok(READ, 0, len(model)) == model
PY
