#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# claim writes the ARRAY <ignore> line that keeps the kernel's hands off, once, and leaves the rest of the file alone.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"
requires_build nbd-raidctl
mapfile -t m < <(members 2 16M)
raidctl create --level=1 "${m[@]}" >"$tmp/create.log" 2>&1 || fail "$(cat "$tmp/create.log")"
line=$(grep '^ARRAY <ignore> UUID=' "$tmp/create.log") || fail "create does not print the line"
printf 'DEVICE partitions\nARRAY /dev/md0 UUID=1:2:3:4\n' >"$tmp/mdadm.conf"
cp "$tmp/mdadm.conf" "$tmp/before"
for _ in 1 2; do
	raidctl claim --config="$tmp/mdadm.conf" "${m[@]}" >"$tmp/claim.log" 2>&1 || fail "$(cat "$tmp/claim.log")"
done
[ "$(grep -cF "$line" "$tmp/mdadm.conf")" -eq 1 ] || fail "$(cat "$tmp/mdadm.conf")"
head -n 2 "$tmp/mdadm.conf" | cmp - "$tmp/before"
