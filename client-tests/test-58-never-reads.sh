#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Rules 58 and 10: a client that asks for 64 x 32 MiB and never reads: the server's memory stays bounded, other sessions
# are served.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"

rawnbd_test <<'PY'
pid = os.getppid()
greedy = [Client().go("x") for _ in range(4)]
for c in greedy:
    for _ in range(64):
        c.start(READ, 0, 32 << 20)
other = Client().go("x")
for _ in range(200):
    other.ok(WRITE, 1 << 20, data=bytes(4096))
    other.ok(READ, 1 << 20, 65536)
big = Client().go("x", structured=True)
big.ok(READ, 0, 16 << 20)
rss = int([l for l in open(f"/proc/{pid}/status") if l.startswith("VmHWM")][0].split()[1])
assert rss < MEMORY_FACTOR * (700 << 10), f"{rss} KiB"
PY
