#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 120
# add, remove, fail, re-add of a running array: what is refused and why, that a repeated command is no error, that a removed
# device is free, and that one that is added is locked.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"
# shellcheck source=rebuild.sh
. "$top/client-tests/rebuild.sh"
requires mkfs.ext4 -V
requires blkid --version

make_array 1 2 24M --assume-clean
mapfile -t s < <(members 3 24M s)
mapfile -t o < <(members 2 24M o)
raidctl create --level=1 --sparse --assume-clean "${o[@]}" >/dev/null
mkfs.ext4 -q "${s[1]}"
truncate -s 8M "$tmp/small.img"
mapfile -t z < <(members 2 16M z)
raidctl create --level=0 --sparse "${z[@]}" >/dev/null
start_raidd d --array "a:$(comma "${m[@]}")" --array "b:$(comma "${o[@]}")" --array "z:$(comma "${z[@]}")" \
	--listen "unix:$tmp/d.sock"

# Words.
expect 2 'name the array' ctl add
expect 2 'member' ctl add a
expect 2 'one member' ctl replace a "${m[0]}" "${m[1]}"
expect 2 'add or remove' ctl bitmap a
expect 1 "^refused: no array is named 'none'" ctl add none "${s[0]}"

# What may not be added.
expect 1 '^refused: .*none.img' ctl add a "$tmp/none.img"
expect 1 '^refused: .*ext4.*--force' ctl add a "${s[1]}"
expect 1 "^refused: .*member of array 'b'" ctl add a "${o[0]}"
expect 1 "^refused: .*member of array 'b'" ctl add --force a "${o[0]}"
expect 1 '^refused: ' ctl add a "$tmp/small.img"
expect 1 '^refused: .*neither a block device nor a file' ctl add a /dev/null
expect 1 '^refused: ' ctl add z "${s[0]}"
expect 1 '^refused: ' ctl re-add a "${s[0]}"
[ "$(blkid -p -o value -s TYPE "${s[1]}")" = ext4 ] || fail "a refusal wrote to the device"
is '.members | length' 2 || fail "$(ask .members)"

# Added, and twice.
(cd "$tmp" && expect 0 '^added: s0.img$' ctl add a s0.img)
expect 0 "is a member of array 'a' already$" ctl add a "${s[0]}"
[ "$(state_of "${s[0]}")" = spare ] || fail "$(ask .members)"
expect 1 "^refused: ${s[0]} is locked" raidctl zero-superblock "${s[0]}"
expect 0 "^added: ${s[1]}$" ctl add --force --write-mostly a "${s[1]}"

# Removed, and twice.
expect 1 '^refused: .*fail it first' ctl remove a "${m[0]}"
expect 0 "^removed: ${s[0]}$" ctl remove a "${s[0]}"
expect 0 "is no member of array 'a'$" ctl remove a "${s[0]}"
expect 0 '1 superblock erased' raidctl zero-superblock "${s[0]}"
expect 0 "^failed: ${m[1]}$" ctl fail a "${m[1]}"
expect 0 "^failed: ${m[1]}$" ctl fail a "${m[1]}"
ctl wait a >/dev/null
[ "$(state_of "${s[1]}")" = in-sync ] || fail "$(ask .members)"
expect 1 '^refused: .*last copy' eval "ctl fail a '${m[0]}' && ctl fail a '${s[1]}'"

# One that failed is taken out and looked at anew.
expect 0 "^added: ${m[0]}$" ctl add a "${m[0]}"
ctl wait a >/dev/null
is .degraded 0 || fail "$(ask .members)"
expect 0 "^removed: ${m[1]}$" ctl remove a failed
is '[.members[].state] | join(" ")' "in-sync in-sync" || fail "$(ask .members)"
expect 0 "^nothing is under way$" ctl idle a
expect 1 '^refused: ' ctl check z
ctl self-check >/dev/null

# The superblock of another array needs force.
ctl stop b >/dev/null
expect 1 '^refused: .*another array.*--force' ctl add a "${o[0]}"
expect 0 "^added: ${o[0]}$" ctl add --force a "${o[0]}"
[ "$(raidctl examine "${o[0]}" | grep -c 'Array UUID')" -eq 1 ] || fail "it carries more than one superblock"
