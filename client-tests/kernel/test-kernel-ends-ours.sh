#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 400
# What we began the kernel ends: arrays that we leave in the middle of a rebuild onto a spare, of a replacement, of the
# first resync, or with a member that was away. The kernel goes on from there, re-adds the member by our bitmap,
# reads the bytes we wrote, and its check finds no mismatch.
# shellcheck source=../functions.sh
. "$(dirname "$0")/../functions.sh"
# shellcheck source=uml.sh
. "$(dirname "$0")/uml.sh"
# shellcheck source=arrays.sh
. "$(dirname "$0")/arrays.sh"
# shellcheck source=takeover.sh
. "$(dirname "$0")/takeover.sh"
requires_uml
requires_nbdsh
requires nbdcopy --version
requires nbdinfo --version
requires jq --version
requires_build nbd-raidd nbd-raidctl

share=$tmp/share
mkdir -p "$share"
random_file share/first $((64 << 20)) 1
mib=6
takeover_members

partly='.sync | .action != "idle" and .done > 0 and .done < .total'

for row in "${arrays[@]}"; do
	read -r name level layout n work bitmap <<<"$row"
	dir=$share/$name
	# A resync has differences to find.
	if [ "$work" = resync ]; then
		for m in "$dir"/m?; do
			openssl rand $((mib << 20)) >"$m"
		done
	fi
	# shellcheck disable=SC2046
	raidctl create $(takeover_args "$level" "$layout" "$n" "$work" "$bitmap") "$dir"/m? >"$tmp/create.log" 2>&1 ||
		fail "create $name: $(cat "$tmp/create.log")"
	begin "$name" "sync-min = 1000" "sync-max = 500K"
	uri=$(uri "$name" a)
	head -c "$(nbdinfo --size "$uri")" "$share/first" >"$dir/model"
	nbdcopy --flush "$dir/model" "$uri"
	case $work in
	rebuild) tell "$name" fail a "$dir/m0" ;;
	replace) tell "$name" replace a "$dir/m1" ;;
	readd) tell "$name" fail a "$dir/m0" ;;
	esac
	pieces "$uri" "$dir/model" 2 40
	[ "$work" = readd ] || wait_for 30 ask "$name" "$partly"
	stop_raidd "$name"
	mdadm --examine "$dir"/m? >"$tmp/examine.log" 2>&1 || :
	case $work in
	rebuild | replace) grep -q 'Recovery Offset : [1-9]' "$tmp/examine.log" || fail "$name: no recovery offset" ;;
	resync) [[ $level = [45] ]] || grep -qi 'Resync Offset\|State : active' "$tmp/examine.log" ||
		fail "$name: no resync offset" ;;
	esac
done

guest()
{
	local row name level layout n work bitmap
	for row in "${arrays[@]}"; do
		# shellcheck disable=SC2034
		read -r name level layout n work bitmap <<<"$row"
		at=$name
		attach "$name"
		if [ "$work" = readd ]; then
			# shellcheck disable=SC2046
			md_try --assemble --run /dev/md0 $(without 0 "${devices[@]}")
			md_try /dev/md0 --re-add "${devices[0]}"
		else
			md_try --assemble --run /dev/md0 "${devices[@]}"
			mdadm --readwrite /dev/md0 2>/dev/null || :
		fi
		md_is "$name/model"
		md_whole
		md_check
		md_is "$name/model"
		detach
	done
}
uml_run 300 guest

# And back: nothing waits any more.
for row in "${arrays[@]}"; do
	name=${row%% *}
	serve_run "$share/$name" --readonly --run "nbdcopy \"\$uri\" '$tmp/back'" >"$tmp/serve.log" 2>&1 ||
		fail "$name: not served after the kernel: $(cat "$tmp/serve.log")"
	cmp "$tmp/back" "$share/$name/model" || fail "$name: the kernel left other bytes"
	rm "$tmp/back"
done
echo "${#arrays[@]} arrays"
