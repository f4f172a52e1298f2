#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 300
# What a FLUSH on one connection promised of the writes on four is there after a power cut, on every copy: the
# members keep writes in the process until they are flushed (volatile=1), so that kill -9 loses what a power cut may.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"
requires python3 -c 'import nbd'
requires_build nbd-raidd nbd-raidctl

# cut ROUND LEVEL MEMBERS HALVES…: a half is a set of members that has all data, as a list of numbers.
cut()
{
	local round=$1 level=$2 n=$3 half i m
	shift 3
	mapfile -t m < <(members "$n" 8M)
	# shellcheck disable=SC2086
	raidctl create --level=${level/,/ --layout=} --assume-clean "${m[@]}" >"$tmp/create.log" 2>&1 ||
		fail "create: $(cat "$tmp/create.log")"
	start_raidd d --array "a:$(comma "${m[@]}")" --volatile --listen "unix:$tmp/d.sock"
	python3 "$top/client-tests/power-cut.py" write "$(uri d a)" "$(cat "$tmp/d.pid")" "$tmp/state" "$round" ||
		fail "the writer fails"
	stop_raidd d KILL
	# Each half alone first, read-only: nothing may be mended by then.
	for half; do
		local paths=()
		for i in $half; do
			paths+=("${m[i]}")
		done
		raidd --array "a:$(comma "${paths[@]}")" --readonly --run \
			"python3 '$top/client-tests/power-cut.py' verify \"\$uri\" '$tmp/state'" ||
			fail "round $round, $level: members $half"
	done
	raidd --array "a:$(comma "${m[@]}")" --run \
		"python3 '$top/client-tests/power-cut.py' verify \"\$uri\" '$tmp/state'" ||
		fail "round $round, $level: all members"
}

for round in 1 2 3; do
	cut $round 1 2 0 1
	cut $round 10,n2 4 "0 2" "1 3" "0 3"
	cut $round 10,f2 3 "0 1" "1 2"
done
