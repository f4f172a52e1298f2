#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# create shows what it does, allocates its files unless --sparse, and refuses members that are in use, too small, or carry
# a file system, a partition table or an array, before it has written anything.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"
requires mkfs.ext4 -V
requires sfdisk --version
requires mdadm --version
requires_build nbd-raidctl
mapfile -t m < <(members 4 16M)
mkfs.ext4 -q "${m[0]}"
echo ';' | sfdisk -q "${m[1]}"
sums=$(sha256sum "${m[@]}")
expect 1 '^refused: .*m0.img.*ext4' raidctl create --level=1 "${m[2]}" "${m[0]}"
expect 1 '^refused: .*m1.img.*(partition|dos)' raidctl create --level=1 "${m[1]}" "${m[3]}"
[ "$(sha256sum "${m[@]}")" = "$sums" ] || fail "a refusal wrote"
expect 0 'ARRAY <ignore> UUID=' raidctl create --level=1 --force "${m[0]}" "${m[1]}"
mdadm --examine "${m[0]}" >"$tmp/examine"
grep -q 'Checksum : .*correct' "$tmp/examine" || fail "superblock"
expect 1 '^refused: ' raidctl create --level=0 "${m[0]}" "${m[1]}"
expect 1 '^refused: ' raidctl create --level=0 --force "${m[0]}" "${m[1]}"
expect 0 . raidctl create --level=0 --force --force "${m[0]}" "${m[1]}"
[ "$(stat -c '%b * %B' "${m[0]}" | xargs -I{} sh -c 'echo $(({}))')" -ge $((16 << 20)) ] || fail "not allocated"
expect 0 . raidctl create --level=1 --sparse "${m[2]}" "${m[3]}"
[ "$(stat -c '%b * %B' "${m[2]}" | xargs -I{} sh -c 'echo $(({}))')" -lt $((8 << 20)) ] || fail "allocated"
truncate -s 8K "$tmp/tiny.img"
expect 1 '^refused: .*tiny.img' raidctl create --level=1 "$tmp/tiny.img" missing
truncate -s 16M "$tmp/e0.img" "$tmp/e1.img"
expect 2 . raidctl create --level=10 --layout=n9 "$tmp/e0.img" "$tmp/e1.img"
expect 2 . raidctl create --level=99 "$tmp/e0.img" "$tmp/e1.img"
expect 0 . raidctl create --level=1 --name=half "$tmp/e0.img" missing
mdadm --examine "$tmp/e0.img" >"$tmp/examine"
grep -q 'Array State : A\.' "$tmp/examine" || fail "$(cat "$tmp/examine")"
expect 0 . raidctl zero-superblock "$tmp/e0.img"
expect 1 . mdadm --examine "$tmp/e0.img"
