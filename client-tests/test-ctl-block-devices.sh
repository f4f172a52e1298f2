#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Members that are block devices, with logical blocks of 512 and 4096 bytes: created, examined, assembled, erased;
# two of us cannot hold one, and a file is not taken behind the back of its loop device.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"
requires_root
requires mdadm
requires losetup
requires flock
requires_build nbd-raidctl

# attach FILE BLOCK: print the loop device
attach()
{
	losetup --find --show --sector-size "$2" "$1" 2>"$tmp/losetup.err"
}

mapfile -t m < <(members 3 16M)
a=$(attach "${m[0]}" 512) || skip "losetup: $(cat "$tmp/losetup.err")"
cleanup_fn losetup -d "$a"
b=$(attach "${m[1]}" 4096) || skip "losetup: $(cat "$tmp/losetup.err")"
cleanup_fn losetup -d "$b"

for metadata in 1.0 1.1 1.2; do
	expect 0 '^ARRAY <ignore>' raidctl create --level=1 --metadata=$metadata --name=blk -ff "$a" "$b"
	for d in "$a" "$b"; do
		expect 0 'Checksum : [0-9a-f]+ - correct' mdadm --examine "$d"
		expect 0 'Array State : AA' raidctl examine "$d"
	done
	expect 0 '2 of 2 members in sync, .* can be served$' raidctl assemble "$a" "$b"
	expect 0 '1 superblock erased' raidctl zero-superblock "$a" "$b"
	expect 1 'No md superblock' mdadm --examine "$b"
done

raidctl create --level=1 "$a" "$b" >/dev/null
expect 1 "^refused: ${m[0]} is served by $a; .*losetup -d" raidctl zero-superblock "${m[0]}"
expect 1 "^refused: $b is locked by another program" flock "$b" "$BUILD/nbd-raidctl" zero-superblock "$b"
# readers share, a writer does not come in
expect 0 'can be served' flock --shared "$b" "$BUILD/nbd-raidctl" assemble "$a" "$b"
expect 1 '^refused: .*locked' flock --shared "$b" "$BUILD/nbd-raidctl" zero-superblock "$b"
