#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 300
# The daemon is stopped, or killed, in the middle of a rebuild: after the restart it goes on (after an orderly stop where
# it was), ends, and the data are right also without the members they came from.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"
# shellcheck source=rebuild.sh
. "$top/client-tests/rebuild.sh"
requires nbdcopy --version
random_file data 50000000 9

half_way()
{
	is '.sync.action == "rebuild" and .sync.done * 10 > .sync.total * 3' true
}

for level in 1,2 5,3 6,4 10,4; do
	for end in TERM KILL; do
		IFS=, read -r kind n <<<"$level"
		make_array "$kind" "$n" 80M --assume-clean
		truncate -s 80M "$tmp/s.img"
		serve
		fill data
		ctl sync-speed --max=20M a >/dev/null
		ctl fail a "${m[0]}" >/dev/null
		ctl add a "$tmp/s.img" >/dev/null
		wait_for 60 half_way
		reached=$(ask .sync.done)
		stop_raidd d $end
		m[0]=$tmp/s.img
		serve
		wait_for 30 is '.sync.action == "rebuild" or .degraded == 0' true
		if [ $end = TERM ]; then
			# A step or two may be done again.
			is ".degraded == 0 or .sync.done + 16000000 > $reached" true ||
				fail "raid$kind: it begins again: $(ask .sync), was at $reached"
		fi
		ctl wait a >/dev/null
		is .degraded 0 || fail "raid$kind $end: $(ask .)"
		clean_check
		ctl fail a "${m[1]}" >/dev/null
		same data
		stop_raidd d
		rm -f "$tmp"/*.img "$tmp/d.log"
	done
done
