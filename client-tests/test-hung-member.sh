#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A mirror that hangs: past the deadline reads and writes are answered from the other, the member is failed and leaves
# when its last operation is back; a stop while it hangs ends in time, with status 0, and what was written is on the other.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"
# Memory that a hung operation may still write to is left to the end of the process.
export ASAN_OPTIONS=detect_leaks=0
requires python3
requires jq --version
requires mdadm --version
requires_build nbd-raidd nbd-raidctl
export PYTHONPATH=$top/client-tests PYTHONDONTWRITEBYTECODE=1
cat >"$tmp/hung.py" <<'PY'
import sys
from rawnbd import *
where, what = sys.argv[1:]
c = Client(where).go("a")
if what == "write":
    c.ok(WRITE, 0, data=pattern(1, 1 << 20))
    c.ok(FLUSH)
    c.ok(WRITE, 4096, data=pattern(2, 4096), flags=FUA)
for at in range(0, 1 << 20, 1 << 16):
    want = pattern(2, 4096) if at == 4096 else pattern(1, 1 << 20)[at:at + 4096]
    assert c.ok(READ, at, 4096) == want
assert c.ok(READ, 4096, 4096) == pattern(2, 4096)
c.disconnect()
PY
member_state()
{
	[ "$(raidctl status --control="$tmp/d.ctl" --json a | jq -r '.. | .members? | select(type == "array") | .[0].state')" = "$1" ]
}

# Of a clean array the superblock hangs first; of a dirty one the data, and its memory with it.
for stop in after while dirty; do
	safe_ms=$([ $stop = dirty ] && echo 60000 || echo 200)
	fuse_member "hangs-$stop" 16M
	truncate -s 16M "$tmp/good-$stop.img"
	raidctl create --level=1 --assume-clean "$tmp/hangs-$stop/m" "$tmp/good-$stop.img" >"$tmp/create.log" 2>&1 ||
		fail "$(cat "$tmp/create.log")"
	cat >"$tmp/d.conf" <<-CONF
		array a {
			members = { "$tmp/hangs-$stop/m", "$tmp/good-$stop.img" }
		}
		limits {
			read-deadline-ms = 100
			write-deadline-ms = 300
			drain-ms = 2000
			safe-mode-ms = $safe_ms
		}
	CONF
	start_raidd d -c "$tmp/d.conf" --listen "unix:$tmp/d.sock"
	python3 "$tmp/hung.py" "$tmp/d.sock" write
	member_hang "hangs-$stop"
	python3 "$tmp/hung.py" "$tmp/d.sock" write
	member_state leaving || fail "not leaving: $(raidctl status --control="$tmp/d.ctl" a)"
	if [ $stop = after ]; then
		member_go hangs-after
		wait_for 10 member_state faulty
		python3 "$tmp/hung.py" "$tmp/d.sock" read
		stop_raidd d
	else
		begin=$SECONDS
		stop_raidd d
		[ $((SECONDS - begin)) -lt 15 ] || fail "the stop took $((SECONDS - begin)) s"
		member_go "hangs-$stop"
	fi
	rm -f "$tmp/d.log"
	mdadm --examine "$tmp/good-$stop.img" >"$tmp/examine" || fail "examine"
	grep -q 'State : clean' "$tmp/examine" || fail "not clean: $(cat "$tmp/examine")"
	grep -Eq 'Array State : \.A' "$tmp/examine" || fail "the hung member is not dropped: $(cat "$tmp/examine")"
	start_raidd r --readonly --array "a:$tmp/hangs-$stop/m,$tmp/good-$stop.img" --listen "unix:$tmp/r.sock"
	python3 "$tmp/hung.py" "$tmp/r.sock" read
	stop_raidd r
	rm -f "$tmp/r.log"
done
