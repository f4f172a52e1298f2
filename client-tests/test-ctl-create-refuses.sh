#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# create overwrites nothing it was not told to: what a member carries is named, one --force loses a file
# system or a damaged superblock, only two lose a live array, and a refusal leaves every byte as it was.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"
requires mkfs.ext4
requires sfdisk
requires mdadm
requires_build nbd-raidctl

mapfile -t m < <(members 4 16M)

state()
{
	sha256sum "${m[@]}"
	ls -A "$tmp"
}

# refused PATTERN ARG…: create with these arguments, nothing changes
refused()
{
	local pattern=$1 before
	shift
	before=$(state)
	expect 1 "^refused: .*$pattern" raidctl create --sparse "$@"
	rm -f "$tmp/expect.out"
	[ "$(state)" = "$before" ] || fail "something changed although '$*' was refused"
}

mkfs.ext4 -q -F "${m[1]}"
refused "${m[1]} carries ext4.*--force" -l1 "${m[0]}" "${m[1]}"
echo ',,L' | sfdisk -q "${m[2]}"
refused 'dos partition table' -l1 "${m[0]}" "${m[2]}"
refused 'and 1 more' -l1 "${m[0]}" "${m[1]}" "${m[2]}"
refused 'No such file.*--file-size' -l1 "${m[0]}" "$tmp/none"
refused 'same device' -l1 "${m[0]}" "$tmp/../${tmp##*/}/m0.img"
refused 'missing' -l0 "${m[0]}" missing
refused '.' -l1 missing missing
refused 'one member' -l1 "${m[0]}"
refused '.' -l6 "${m[0]}" "${m[3]}"
refused '.' -l1 -z 1G "${m[0]}" "${m[3]}"
# a file that was made for a create that is refused goes again
refused "${m[1]} carries" -l1 --file-size=16M "$tmp/new" "${m[1]}"

raidctl create -l1 --sparse --name=live "${m[0]}" "${m[3]}" >"$tmp/out"
rm "$tmp/out"
refused 'md array [0-9a-f:]+ ".*live".*--force twice' -l1 "${m[3]}" "${m[0]}"
refused 'twice' -l1 --force "${m[0]}" "${m[3]}"
expect 0 . raidctl create -l1 --sparse --force "${m[1]}" "${m[2]}"
expect 0 'overwrites' raidctl create -l1 --sparse --force --force "${m[0]}" "${m[3]}"

# A damaged superblock is one force, and no other version's stays behind.
raidctl create -l1 -e1.0 --sparse -ff "${m[0]}" "${m[3]}" >/dev/null
printf '\377' | dd of="${m[0]}" bs=1 seek=$(((16 << 20) - 8192 + 200)) conv=notrunc status=none
printf '\377' | dd of="${m[3]}" bs=1 seek=$(((16 << 20) - 8192 + 200)) conv=notrunc status=none
rm -f "$tmp/expect.out"
refused 'damaged md superblock of version 1.0' -l1 "${m[0]}" "${m[3]}"
expect 0 . raidctl create -l1 -e1.2 --sparse --force "${m[0]}" "${m[3]}"
mdadm --zero-superblock "${m[0]}"
expect 1 'No md superblock' mdadm --examine "${m[0]}"

# Files get their blocks unless --sparse; existing data stays.
truncate -s 0 "${m[0]}" && truncate -s 16M "${m[0]}"
raidctl create -l1 --assume-clean "${m[0]}" missing >/dev/null
[ "$(stat -c %b "${m[0]}")" -ge $(((16 << 20) / 512)) ] || fail "not allocated"

# Wrong usage is 2.
expect 2 'level' raidctl create "${m[0]}"
expect 2 'chunk' raidctl create -l0 -c 1Q "${m[0]}"
expect 2 'layout' raidctl create -l10 -p z9 "${m[0]}" "${m[1]}"
expect 2 'raid-devices' raidctl create -l1 -n3 "${m[0]}" "${m[1]}"
