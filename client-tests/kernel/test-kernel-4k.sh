#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 300
# Block devices of 4096-byte blocks, alone and mixed with 512-byte ones, direct I/O: unaligned client requests are served
# by read-modify-write, the copies stay equal, md reads the same bytes and its check finds no mismatch.
# shellcheck source=../functions.sh
. "$(dirname "$0")/../functions.sh"
# shellcheck source=uml.sh
. "$(dirname "$0")/uml.sh"
requires_uml
requires qemu-io --version
requires losetup --version
requires nbdcopy --version
requires_build nbd-raidd nbd-raidctl

guest()
{
	local row level layout blocks n b d devices commands i offset
	for row in "1 - 4096,4096" "1 - 512,4096" "10 n2 4096,512,4096" "10 f2 4096,4096,4096" "0 - 4096,4096" "linear - 4096,4096"; do
		read -r level layout blocks <<<"$row"
		echo "== level $level, layout $layout, blocks of $blocks"
		n=0
		devices=()
		for b in ${blocks//,/ }; do
			truncate -s 12M "/run/m$n"
			losetup -b "$b" "/dev/loop$n" "/run/m$n"
			devices+=("/dev/loop$n")
			n=$((n + 1))
		done
		[ "$layout" != - ] || layout=
		"$BUILD/nbd-raidctl" create "--level=$level" ${layout:+"--layout=$layout"} --assume-clean --force \
			"${devices[@]}" >/run/log 2>&1 || { cat /run/log; return 1; }
		commands=()
		for i in 0 1 2 3 4 5 6 7; do
			offset=$((i * 1000003 + 17 * i))
			commands+=(-c "write -P $((i + 1)) $offset $((1 + i * 12345))" -c "read -P $((i + 1)) $offset $((1 + i * 12345))"
				-c "write -z $((offset + 50000)) 4097")
		done
		local text; text=$(printf ' %q' "${commands[@]}")
		"$BUILD/nbd-raidd" --direct=on --control=none --log-level=warning \
			--array "a:$(IFS=,; echo "${devices[*]}")" \
			--run "qemu-io -f raw \"\$uri\" $text && nbdcopy \"\$uri\" /run/content" \
			>/run/log 2>&1 || { cat /run/log; return 1; }
		! grep -i 'failed' /run/log
		mdadm --assemble /dev/md0 "${devices[@]}" >/run/log 2>&1 || { cat /run/log; return 1; }
		cmp /run/content /dev/md0
		md_check
		mdadm --stop /dev/md0 >/dev/null 2>&1
		for d in "${devices[@]}"; do
			losetup -d "$d"
		done
		rm -f /run/m?
	done
}
# shellcheck source=arrays.sh
. "$(dirname "$0")/arrays.sh"
uml_run 280 guest
