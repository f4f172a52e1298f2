#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 200
# Golden arrays, made by another md and left dirty, half resynced, half rebuilt, half replaced, torn: after our own work
# they have the bytes that are expected of them, and the kernel's check of what we left finds no mismatch.
# $GOLDEN_DIR names a larger collection.
# shellcheck source=../functions.sh
. "$(dirname "$0")/../functions.sh"
# shellcheck source=uml.sh
. "$(dirname "$0")/uml.sh"
# shellcheck source=arrays.sh
. "$(dirname "$0")/arrays.sh"
requires_uml
requires zstd --version
requires jq --version
requires nbdcopy --version
requires_nbdsh
requires_build nbd-raidd nbd-raidctl

share=$tmp/share
mkdir -p "$share"
golden=${GOLDEN_DIR:-$top/raid/tests/golden}

# Written read-write by this version, with redundancy and something for us to do; nothing of it is lost.
takes_part='.expect.assemble and .metadata != "0.90" and (.level_number >= 1) and .expect.readable and
	(.expect.activity as $a | ["resync", "recovery", "replace"] | index($a)) and
	(.consistency_policy as $p | ["journal", "ppl"] | index($p) | not)'

arrays=()
for dir in "$golden"/*/; do
	name=$(basename "$dir")
	[[ $name =~ ${ARRAYS:-.} ]] && jq -e "$takes_part" "$dir/array.json" >"$tmp/jq.log" || continue
	arrays+=("$name")
	mkdir "$share/$name"
	n=0
	for m in "$dir"/m*.img.zst; do
		zstd -d -q "$m" -o "$share/$name/m$n"
		n=$((n + 1))
	done
	start_raidd "$name" --array "a:$(comma "$share/$name"/m?)" --listen "unix:$tmp/$name.sock"
	nbdcopy "$(uri "$name" a)" "$share/$name/model"
	sum=$(sha256sum <"$share/$name/model" | cut -d' ' -f1)
	[ "$sum" = "$(jq -r .content.sha256 "$dir/array.json")" ] || fail "$name: other bytes before our work"
	pieces "$(uri "$name" a)" "$share/$name/model" 9 5
	wait_for 30 ask "$name" '.degraded == 0 and (.needs_resync | not) and (.members | any(.state == "replacement") | not)'
	nbdcopy "$(uri "$name" a)" "$tmp/back"
	cmp "$tmp/back" "$share/$name/model" || fail "$name: other bytes after our work"
	rm "$tmp/back"
	stop_raidd "$name"
done
[ ${#arrays[@]} -gt 0 ] || fail "no golden array takes part"

guest()
{
	local name
	for name in "${arrays[@]}"; do
		at=$name
		attach "$name"
		md_try --assemble /dev/md0 "${devices[@]}"
		[ "$(cat /sys/block/md0/md/degraded)" -eq 0 ]
		md_is "$name/model"
		md_check
		md_is "$name/model"
		detach
	done
}
uml_run 150 guest
echo "${arrays[*]}"
