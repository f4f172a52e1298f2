#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A bitmap comes and goes while the array runs and is written; mdadm reads it; said twice is said once.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"
# shellcheck source=rebuild.sh
. "$top/client-tests/rebuild.sh"
requires_nbdsh
requires mdadm --version
for level in 1,2 5,3 10,3; do
	IFS=, read -r kind n <<<"$level"
	make_array "$kind" "$n" 64M --assume-clean --bitmap=none
	serve
	expect 1 '^refused: ' ctl bitmap add --chunk=3K a
	is .bitmap null || fail "raid$kind: $(ask .bitmap)"
	load_begins 0 16000000
	expect 0 '^done$' ctl bitmap add --chunk=512K a
	expect 0 'bitmap' ctl bitmap add a
	is .bitmap.chunk_bytes 524288 || fail "raid$kind: $(ask .bitmap)"
	expect 0 'Bitmap : [0-9]+ chunks of 512 KiB' ctl status --detail a
	load_ends
	# mdadm takes a file for a bitmap file: it gets the area alone.
	at=$(raidctl examine "${m[0]}" | sed -n 's/^ *Internal Bitmap : \(-\?[0-9]*\) sectors from superblock$/\1/p')
	[ "$at" ] || fail "raid$kind: superblocks do not name it: $(raidctl examine "${m[0]}")"
	dd if="${m[0]}" of="$tmp/bitmap" bs=512 skip=$((8 + at)) count=256 status=none
	expect 0 'Chunksize : 512 KB' mdadm -X "$tmp/bitmap"
	expect 0 '^done$' ctl bitmap remove a
	expect 0 'no bitmap' ctl bitmap remove a
	is .bitmap null || fail "raid$kind: $(ask .bitmap)"
	ctl self-check >/dev/null
	stop_raidd d
	! raidctl examine "${m[0]}" | grep -q 'Internal Bitmap' || fail "raid$kind: superblocks still name it"
	rm -f "$tmp"/*.img "$tmp/d.log"
done
