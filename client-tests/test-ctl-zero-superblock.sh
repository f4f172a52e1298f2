#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# zero-superblock does what mdadm's does, for all superblocks of a member, and only when nobody uses it.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"
requires mdadm
requires flock
requires_build nbd-raidctl

mapfile -t m < <(members 2 16M)
for metadata in 1.0 1.1 1.2; do
	raidctl create -l1 -e $metadata --bitmap=none --sparse "${m[@]}" >/dev/null
	cp "${m[0]}" "$tmp/theirs"
	mdadm --zero-superblock "$tmp/theirs"
	expect 0 '1 superblock erased' raidctl zero-superblock "${m[@]}"
	cmp "$tmp/theirs" "${m[0]}" || fail "$metadata: not what mdadm leaves"
	expect 1 'no md superblock' raidctl examine "${m[0]}"
done

# Two versions on one member (a stale one was left by some other tool): both go.
raidctl create -l1 -e 1.0 --sparse "${m[@]}" >/dev/null
dd if="${m[0]}" of="$tmp/old" bs=4096 skip=$(((16 << 20) / 4096 - 2)) count=1 status=none
raidctl create -l1 -e 1.2 --sparse -ff "${m[@]}" >/dev/null
dd if="$tmp/old" of="${m[0]}" bs=4096 seek=$(((16 << 20) / 4096 - 2)) conv=notrunc status=none
expect 0 'also has' raidctl examine "${m[0]}"
expect 0 '2 superblocks erased' raidctl zero-superblock "${m[0]}"
expect 0 'no md superblock' raidctl zero-superblock "${m[0]}"

# One that is held keeps all of them.
before=$(sha256sum "${m[1]}")
expect 1 '^refused: .*locked' flock "${m[0]}" "$BUILD/nbd-raidctl" zero-superblock "${m[1]}" "${m[0]}"
[ "$(sha256sum "${m[1]}")" = "$before" ] || fail "erased one before all were checked"
