#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The committed golden arrays, made by a real Linux md, served by the daemon: the same bytes, or refused in words.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"
requires nbdcopy --version
requires zstd --version
requires jq --version
requires_build nbd-raidd
dir=${GOLDEN_DIR:-$top/raid/tests/golden}
checked=0
for json in "$dir"/*/array.json; do
	name=$(basename "$(dirname "$json")")
	level=$(jq -r .level_number "$json")
	case $level in
	-1 | 0 | 1 | 10) ;;
	*) continue ;;
	esac
	rm -f "$tmp"/m*.img
	paths=()
	for z in "$dir/$name"/m*.img.zst; do
		f=$tmp/$(basename "${z%.zst}")
		zstd -d -q "$z" -o "$f"
		paths+=("$f")
	done
	want=$(jq -r 'if (.tags | index("reshape")) or (.expect.assemble | not) then "refused"
		elif .expect.readable then .content.sha256 else "partly" end' "$json")
	sums=$(sha256sum "${paths[@]}")
	status=0
	# shellcheck disable=SC2016
	raidd --readonly --array "a:$(comma "${paths[@]}")" --run 'nbdcopy "$uri" - | sha256sum' \
		>"$tmp/out" 2>"$tmp/err.log" || status=$?
	case $want in
	refused)
		[ $status -eq 1 ] && grep -q '^refused: ' "$tmp/err.log" || fail "$name: wanted a refusal, got $status"
		;;
	partly)
		[ $status -eq 0 ] || fail "$name: not served"
		;;
	*)
		[ "$(cut -d' ' -f1 "$tmp/out")" = "$want" ] || fail "$name: other bytes"
		;;
	esac
	[ "$(sha256sum "${paths[@]}")" = "$sums" ] || fail "$name: a read-only start wrote to a member"
	checked=$((checked + 1))
done
[ $checked -gt 0 ] || fail "no arrays"
echo "$checked arrays"
