#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# claim adds one line to mdadm.conf, once, keeps everything else, and does not fight with a line that gives
# the array to the kernel.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"
requires_build nbd-raidctl

mapfile -t m < <(members 2 16M)
uuid=00112233:44556677:8899aabb:ccddeeff
raidctl create -l1 --sparse -u $uuid "${m[@]}" >/dev/null
conf=$tmp/mdadm.conf
printf 'DEVICE partitions # all\nMAILADDR root' >"$conf"
chmod 640 "$conf"
ln -s mdadm.conf "$tmp/link"

expect 0 "^$uuid: claimed\$" raidctl claim --config="$tmp/link" "${m[@]}"
diff -u - "$conf" <<END || fail "not the file that was wanted"
DEVICE partitions # all
MAILADDR root
# served by nbd-raidd: the kernel must leave it alone
ARRAY <ignore> UUID=$uuid
END
[ "$(stat -c %a "$conf")" = 640 ] || fail "mode"
[ -L "$tmp/link" ] || fail "the link was replaced"
before=$(stat -c '%i %Y' "$conf")
expect 0 'claimed before' raidctl claim --config="$conf" $uuid
[ "$(stat -c '%i %Y' "$conf")" = "$before" ] || fail "written without need"

# The words may be cut and the line may go on: it is the kernel's array.
printf 'arr /dev/md0 metadata=1.2\n# comment\n' >"$conf"
printf 'ARRAY /dev/md1\n\tname=x "UUID=%s"\n' "$uuid" >>"$conf"
cp "$conf" "$tmp/before"
expect 1 '^refused: .*line 3 gives array' raidctl claim --config="$conf" "${m[0]}"
cmp "$conf" "$tmp/before" || fail "changed although refused"

expect 1 '^refused: .*no md superblock' raidctl claim --config="$conf" "$conf"
expect 1 '^refused: cannot write' raidctl claim --config="$tmp/none/conf" $uuid
expect 2 '' raidctl claim --config="$conf"
rm "$conf"
expect 1 'no uuid' raidctl claim --config="$conf" $uuid 1:2:3
[ ! -e "$conf" ] || fail "written although refused"
expect 0 claimed raidctl claim --config="$conf" $uuid
[ "$(echo "$tmp"/mdadm.conf*)" = "$conf" ] || fail "left something behind"

# create does it too, and before anything else: no claim, no array.
before=$(sha256sum "${m[@]}")
expect 1 '^refused: cannot write' raidctl create -l1 --sparse -ff --claim="$tmp/none/conf" "${m[@]}"
[ "$(sha256sum "${m[@]}")" = "$before" ] || fail "superblocks written without the claim"
expect 0 '^created, and claimed' raidctl create -l1 --sparse -ff --claim="$conf" "${m[@]}"
uuid=$(raidctl examine --export "${m[0]}" | sed -n 's/^MD_UUID=//p')
grep -qx "ARRAY <ignore> UUID=$uuid" "$conf" || fail "not claimed"
