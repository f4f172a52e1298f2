#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 240
# A member is replaced while clients work; it serves until then, and is out afterwards; what the new one holds is right.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"
# shellcheck source=rebuild.sh
. "$top/client-tests/rebuild.sh"
requires nbdcopy --version
requires_nbdsh
random_file data 20000000 5

for level in 1,2 5,3 6,4 10,4; do
	IFS=, read -r kind n <<<"$level"
	make_array "$kind" "$n" 48M --assume-clean
	mapfile -t s < <(members 2 48M s)
	serve
	fill data
	expect 1 '^refused: .*spare' ctl replace a "${m[0]}"
	ctl add a "${s[@]}" >/dev/null
	load_begins 24000000 8000000
	expect 0 "^being replaced .*: ${m[0]}$" ctl replace --with="${s[1]}" a "${m[0]}"
	# Said twice is said once, or it is done by now.
	ctl replace --with="${s[1]}" a "${m[0]}" >/dev/null 2>&1 || [ "$(state_of "${m[0]}")" = faulty ] ||
		fail "raid$kind: said twice"
	is .degraded 0 || fail "raid$kind: degraded meanwhile"
	ctl wait a >/dev/null
	load_ends
	[ "$(state_of "${s[1]}")" = in-sync ] || fail "raid$kind: $(ask .members)"
	[ "$(state_of "${s[0]}")" = spare ] || fail "raid$kind: $(ask .members)"
	expect 0 "^removed: ${m[0]}$" ctl remove a "${m[0]}"
	clean_check
	same data
	ctl remove a "${s[0]}" >/dev/null
	ctl fail a "${m[1]}" >/dev/null
	same data
	stop_raidd d
	rm -f "$tmp"/*.img "$tmp/d.log"
done
