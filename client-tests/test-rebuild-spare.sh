#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 300
# A member fails while clients write; a device that is added is rebuilt; then the array holds the right data also
# without another of the old members, and a check finds no difference.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"
# shellcheck source=rebuild.sh
. "$top/client-tests/rebuild.sh"
requires nbdcopy --version
requires_nbdsh
random_file data 20000000 1

for level in 1,2,1 5,3,1 6,5,2 10,4,1; do
	IFS=, read -r kind n losses <<<"$level"
	make_array "$kind" "$n" 48M
	mapfile -t s < <(members "$losses" 48M s)
	serve
	ctl wait a >/dev/null # a new array is resynced, or its last member built
	fill data
	load_begins 24000000 16000000
	for ((i = 0; i < losses; i++)); do
		expect 0 "^failed: ${m[i]}$" ctl fail a "${m[i]}"
	done
	expect 1 DEGRADED ctl status --test a
	same data
	expect 0 "^added: ${s[0]}$" ctl add a "${s[@]}"
	ctl wait a >/dev/null
	expect 0 "^  $n of $n members in sync$" ctl status --test a
	load_ends
	expect 0 "^removed: ${m[0]}$" ctl remove a failed
	same data
	clean_check
	for ((i = 0; i < losses; i++)); do
		ctl fail a "${m[n - 1 - i]}" >/dev/null
	done
	same data
	stop_raidd d
	# The members that it has now are an array, the old one is not.
	m=("${s[@]}" "${m[@]:losses}")
	serve
	same data
	is .degraded "$losses" || fail "level $kind: $(ask .)"
	stop_raidd d
	rm -f "$tmp"/d.log "$tmp"/*.img
done
