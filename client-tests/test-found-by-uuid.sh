#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# An array without members in the configuration is found by its uuid among the block devices: all of its
# members and nothing else.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"
requires_root
requires losetup
requires nbdinfo --version
requires_build nbd-raidd nbd-raidctl

devices=()
for i in 0 1 2; do
	truncate -s 16M "$tmp/m$i.img"
	d=$(losetup --find --show "$tmp/m$i.img" 2>"$tmp/losetup.err") || skip "losetup: $(cat "$tmp/losetup.err")"
	cleanup_fn losetup -d "$d"
	devices+=("$d")
done
raidctl create --level=1 --assume-clean "${devices[0]}" "${devices[1]}" >"$tmp/create.out"
raidctl create --level=linear --force "${devices[2]}" >/dev/null
uuid=$(sed -n 's/^ARRAY <ignore> UUID=//p' "$tmp/create.out")

printf 'array found { uuid = %s }\n' "$uuid" >"$tmp/conf"
expect 0 '^array found: raid1, 2 of 2 slots in sync' raidd --check -c "$tmp/conf"
[ "$(grep -c '^  member ' "$tmp/expect.out")" -eq 2 ]
for d in "${devices[@]:0:2}"; do
	grep -q "^  member $d: in-sync" "$tmp/expect.out" || fail "$d was not found"
done
start_raidd d -c "$tmp/conf" --listen "unix:$tmp/d.sock"
[ "$(nbdinfo --size "$(uri d found)")" -gt 0 ]
stop_raidd d

printf 'array lost { uuid = 00000000:00000000:00000000:00000001 }\n' >"$tmp/conf"
expect 1 "^refused: array 'lost': no block device carries" raidd --check -c "$tmp/conf"
