#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 400
# What the kernel began we end: arrays of mdadm that md leaves in the middle of a rebuild onto a spare, of a replacement,
# of the first resync, or with a member that was away. We go on from there, re-add the member by md's bitmap, have the
# bytes that md wrote; back in the kernel its check finds no mismatch.
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
requires jq --version
requires_build nbd-raidd nbd-raidctl

share=$tmp/share
mkdir -p "$share"
random_file share/first $((64 << 20)) 3
mib=9
takeover_members

made()
{
	local row name level layout n work bitmap m sys=/sys/block/md0/md
	for row in "${arrays[@]}"; do
		read -r name level layout n work bitmap <<<"$row"
		at=$name
		if [ "$work" = resync ]; then
			for m in "$name"/m?; do
				openssl rand $((9 << 20)) >"$m"
			done
		fi
		attach "$name"
		# shellcheck disable=SC2046
		md_try --create /dev/md0 --run $(takeover_args "$level" "$layout" "$n" "$work" "$bitmap") --assume-clean \
			--raid-devices="$n" "${devices[@]}"
		if [ "$work" = resync ]; then
			# Such an array waits for the first write, so that it can be told where to stop.
			md_try --stop /dev/md0
			echo 1 >/sys/module/md_mod/parameters/start_ro
			md_try --assemble --update=resync /dev/md0 "${devices[@]}"
			echo 0 >/sys/module/md_mod/parameters/start_ro
		fi
		echo 8192 >$sys/sync_max
		head -c "$(blockdev --getsize64 /dev/md0)" first >"$name/model"
		dd if="$name/model" of=/dev/md0 bs=1M iflag=fullblock oflag=direct status=none
		case $work in
		rebuild) md_try /dev/md0 --fail "${devices[0]}" ;;
		replace) md_try /dev/md0 --replace "${devices[1]}" ;;
		readd) md_try /dev/md0 --fail "${devices[0]}" --remove "${devices[0]}" ;;
		esac
		[ "$work" = readd ] || md_halfway
		pieces /dev/md0 "$name/model" 4 30 512
		detach
	done
}
uml_run 200 made

for row in "${arrays[@]}"; do
	read -r name level layout n work bitmap <<<"$row"
	dir=$share/$name
	begin "$name"
	uri=$(uri "$name" a)
	nbdcopy "$uri" "$tmp/back"
	cmp "$tmp/back" "$dir/model" || fail "$name: we do not read what the kernel wrote"
	pieces "$uri" "$dir/model" 5 20
	[ "$work" != readd ] || tell "$name" re-add a "$dir/m0"
	tell "$name" wait a
	ask "$name" '.degraded == 0 and (.needs_resync | not)' >"$tmp/ask.log" ||
		fail "$name: work is left: $(raidctl status --control="$tmp/$name.ctl")"
	nbdcopy "$uri" "$tmp/back"
	cmp "$tmp/back" "$dir/model" || fail "$name: other bytes after our work"
	rm "$tmp/back"
	stop_raidd "$name"
done

checked()
{
	local row
	for row in "${arrays[@]}"; do
		at=${row%% *}
		attach "$at"
		md_try --assemble /dev/md0 "${devices[@]}"
		[ "$(cat /sys/block/md0/md/degraded)" -eq 0 ]
		md_is "$at/model"
		md_check
		detach
	done
}
uml_run 200 checked
echo "${#arrays[@]} arrays"
