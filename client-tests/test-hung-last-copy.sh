#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A hung member that nothing can stand in for: a stop ends all the same, after its deadline or at once by a second signal,
# and says by its status that it was not clean.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"
# Memory that a hung operation may still write to is left to the end of the process.
export ASAN_OPTIONS=detect_leaks=0
requires python3
requires_build nbd-raidd
fuse_member slow 8M
gone()
{
	! running "$1"
}
cat >"$tmp/ask.py" <<'PY'
import sys
from rawnbd import *
c = Client(sys.argv[1]).go("s")
c.start(READ, 0, 4096)
c.start(WRITE, 8192, data=bytes(4096))
c.start(FLUSH)
PY
cat >"$tmp/d.conf" <<CONF
array s {
	build = 0
	members = { "$tmp/slow/m" }
}
limits {
	drain-ms = 500
	write-deadline-ms = 500
}
CONF
for signals in 1 2; do
	start_raidd d -c "$tmp/d.conf" --listen "unix:$tmp/d.sock"
	member_hang slow
	PYTHONPATH="$top/client-tests" PYTHONDONTWRITEBYTECODE=1 python3 "$tmp/ask.py" "$tmp/d.sock"
	pid=$(cat "$tmp/d.pid")
	[ $signals = 1 ] || kill "$pid"
	kill "$pid"
	wait_for 8 gone "$pid"
	status=0
	stop_raidd d 2>/dev/null || status=$?
	[ $status -ne 0 ] || fail "an unclean stop says that it was clean"
	member_go slow
done
