#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 240
# A byte of one member is changed behind the array's back: check counts it, says where, and changes nothing; repair
# mends it; RAID 6 and a mirror of three name the member. A second repair finds nothing.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"
# shellcheck source=rebuild.sh
. "$top/client-tests/rebuild.sh"
requires jq --version
requires python3
requires nbdcopy --version
random_file data 12000000 3

for level in 1,2,no 1,3,yes 5,3,no 6,4,yes 10,4,no; do
	IFS=, read -r kind n named <<<"$level"
	make_array "$kind" "$n" 24M --assume-clean
	serve
	fill data
	stop_raidd d
	victim=$((n - 1))
	[ "$n" -gt 2 ] || victim=1
	at=$(($(raidctl examine --json "${m[victim]}" | jq '.members[0].data_offset_bytes') + 1000000))
	python3 - "${m[victim]}" "$at" <<-'P'
		import sys
		f = open(sys.argv[1], "r+b")
		f.seek(int(sys.argv[2]))
		b = f.read(1)
		f.seek(-1, 1)
		f.write(bytes([b[0] ^ 0x10]))
	P
	sum=$(md5sum <"${m[victim]}")
	serve
	ctl wait a >/dev/null
	ctl check --wait a >/dev/null
	is '.sync.mismatch_sectors > 0' true || fail "raid$kind: not found: $(ask .sync)"
	is '.sync.mismatches | length > 0' true || fail "raid$kind: no place"
	[ "$kind" = 10 ] || is '.sync.mismatches[0] | .offset <= 1000000 and .offset + .bytes > 1000000' true ||
		fail "raid$kind: wrong place: $(ask .sync.mismatches)"
	[ $named = no ] || is '.sync.mismatches[0].member' "${m[victim]}" || fail "raid$kind: $(ask .sync.mismatches)"
	expect 0 'Mismatches at' ctl status --detail a
	expect 0 '^the repair has begun$' ctl repair --wait a
	is '.sync.mismatch_sectors > 0' true || fail "raid$kind: the repair has not found it"
	clean_check
	# Of two copies nobody knows which is right; parity is computed from data.
	[ $named = no ] || same data
	stop_raidd d
	[ $named = no ] || [ "$sum" != "$(md5sum <"${m[victim]}")" ] || fail "raid$kind: it is as it was"
	rm -f "$tmp"/*.img "$tmp/d.log"
done
