#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Rules 50 and 51: a FLUSH is answered while others never stop writing; overlapping writes in flight on several connections
# leave all mirrors with the same bytes, one writer's or another's in every block.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"
requires python3
requires_build nbd-raidd nbd-raidctl
cat >"$tmp/storm.py" <<'PY'
import sys, threading
from rawnbd import *
where = sys.argv[1]
stop = threading.Event()
failed = []
def writer(i):
    try:
        c = Client(where).go("a")
        n = 0
        while not stop.is_set():
            for k in range(16):
                c.start(WRITE, (n * 16 + k) % 7 * 1024, data=bytes([16 * i + k]) * 8192)
            for k in range(16):
                assert c.message()[2] == 0
            n += 1
        c.disconnect()
    except BaseException as e:
        failed.append(e)
threads = [threading.Thread(target=writer, args=(i,)) for i in range(4)]
for t in threads:
    t.start()
c = Client(where).go("a")
slowest = 0
for _ in range(50):
    start = time.monotonic()
    c.ok(FLUSH)
    slowest = max(slowest, time.monotonic() - start)
stop.set()
for t in threads:
    t.join()
assert not failed, failed
assert slowest < 5, f"a FLUSH took {slowest} s"
data = c.ok(READ, 0, 6 * 1024 + 8192)
for at in range(0, len(data), 1024):
    assert len(set(data[at:at + 1024])) == 1, f"a mix of two writes at {at}"
c.disconnect()
PY
for level in 1,3 10,4; do
	mapfile -t m < <(members "${level#*,}" 8M)
	raidctl create --level="${level%,*}" --assume-clean "${m[@]}" >"$tmp/create.log" 2>&1 || fail "$(cat "$tmp/create.log")"
	start_raidd d --array "a:$(comma "${m[@]}")" --listen "unix:$tmp/d.sock"
	PYTHONPATH="$top/client-tests" PYTHONDONTWRITEBYTECODE=1 python3 "$tmp/storm.py" "$tmp/d.sock"
	stop_raidd d
	# Data begins at 1 MiB; m0 and m1 are mirrors in both.
	cmp -i 1048576 "${m[0]}" "${m[1]}" || fail "level $level: the mirrors differ"
done
