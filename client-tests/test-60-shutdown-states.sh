#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Rule 60 (CVE-2024-7409): TERM with sessions in every state: before the greeting's answer, haggling, idle, requests in
# flight, blocked on a send: the daemon exits in time with status 0 and the array is clean; a haggling client is told
# or cut; a second signal makes it hurry.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"
requires python3
requires mdadm --version
requires_build nbd-raidd nbd-raidctl
mapfile -t m < <(members 2 72M)
raidctl create --level=1 --sparse --assume-clean "${m[@]}" >"$tmp/create.log" 2>&1 || fail "$(cat "$tmp/create.log")"
cat >"$tmp/states.py" <<'PY'
import sys
from rawnbd import *
where, pid = sys.argv[1], int(sys.argv[2])
silent = Client(where)
haggling = Client(where).greet()
idle = Client(where).go("a")
busy = Client(where).go("a")
for i in range(64):
    busy.start(WRITE, i << 20, 1 << 20, data=bytes(1 << 20))
blocked = Client(where).go("a")
for i in range(16):
    blocked.start(READ, 0, 32 << 20)
payload = Client(where).go("a")
payload.start(WRITE, 0, 1 << 20, data=bytes(1000))
os.kill(pid, 15)
for _ in range(int(sys.argv[3])):
    os.kill(pid, 15)
start = time.monotonic()
def gone():
    try:
        return open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0] == "Z"
    except FileNotFoundError:
        return True
eventually(gone, 40)
took = time.monotonic() - start
assert took < 20, f"{took} s"
print(f"gone after {took:.1f} s")
PY
for more in 0 1; do
	start_raidd d --array "a:$(comma "${m[@]}")" --listen "unix:$tmp/d.sock"
	PYTHONPATH="$top/client-tests" PYTHONDONTWRITEBYTECODE=1 python3 "$tmp/states.py" "$tmp/d.sock" \
		"$(cat "$tmp/d.pid")" $more
	stop_raidd d
	for f in "${m[@]}"; do
		mdadm --examine "$f" | grep -q 'State : clean' || fail "$f is not clean"
	done
	[ ! -e "$tmp/d.sock" ] || fail "the socket stays"
	rm -f "$tmp/d.log"
done
