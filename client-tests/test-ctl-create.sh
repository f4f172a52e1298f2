#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# What nbd-raidctl creates, mdadm calls correct, and examine says of it what mdadm says: every level,
# layout and metadata version.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"
# shellcheck source=ctl.sh
. "$(dirname "$0")/ctl.sh"
requires mdadm
requires python3
requires_build nbd-raidctl

check()
{
	local m
	for m in "$@"; do
		agrees "$m"
		grep -qE 'Checksum : [0-9a-f]+ - correct' "$tmp/theirs" || fail "mdadm on $m: $(cat "$tmp/theirs")"
		diff -u <(mdadm --examine --export "$m") <(raidctl examine --export "$m") || fail "$m: --export differs"
	done
}

mapfile -t m < <(members 5 40M)
for metadata in 1.0 1.1 1.2; do
	while read -r level layout n; do
		[ "$layout" != - ] || layout=
		raidctl create --level="$level" ${layout:+"--layout=$layout"} --metadata=$metadata --name=t --sparse \
			--force --force "${m[@]:0:n}" >"$tmp/out"
		grep -q '^ARRAY <ignore> UUID=' "$tmp/out" || fail "no ARRAY line"
		check "${m[@]:0:n}"
		case $level in
		4 | 5 | 6) grep -qE 'needs resync|to be built' "$tmp/out" || fail "raid$level: $(cat "$tmp/out")" ;;
		*) expect 0 'can be served$' raidctl assemble "${m[@]:0:n}" ;;
		esac
	done <<-END
		linear - 3
		0 original 3
		0 alternate 3
		1 - 2
		1 - 3
		10 n2 4
		10 n2 3
		10 f2 4
		10 o2 5
		10 n3 5
		4 - 3
		5 - 2
		5 la 4
		5 parity-first 3
		6 - 4
		6 rs 5
		6 ddf-N-continue 5
		6 left-symmetric-6 5
	END
done

# In mdadm's words: short options, a slot left empty, a size, a chunk, a uuid, clean.
raidctl create -l 1 -n 3 -e 1.2 -z 10M -N host:name -u 00112233:44556677:8899aabb:ccddeeff -ff --sparse \
	--assume-clean "${m[0]}" missing "${m[1]}" >"$tmp/out"
check "${m[0]}" "${m[1]}"
raidctl examine "${m[1]}" >"$tmp/out"
for line in 'Name : host:name' 'State : clean' 'Array Size : 10240 KiB .*' 'Device Role : Active device 2' \
	'Array State : A\.A .*' 'Array UUID : 00112233:44556677:8899aabb:ccddeeff'; do
	grep -qE "^ *$line\$" "$tmp/out" || fail "not there: $line"
done
raidctl create -l 10 -c 1M -p far=2 -ff --sparse "${m[@]:0:3}" >"$tmp/out"
mdadm --examine "${m[0]}" >"$tmp/out"
grep -q 'Chunk Size : 1024K' "$tmp/out" || fail "chunk"
grep -q 'Layout : far=2' "$tmp/out" || fail "layout"

# JSON says the same.
uuid=$(raidctl create -l 1 -ff --sparse --json "${m[@]:0:2}" |
	python3 -c 'import json, sys; print(json.load(sys.stdin)["uuid"])')
raidctl examine --json "${m[0]}" |
	python3 -c 'import json, sys; sys.exit(json.load(sys.stdin)["members"][0]["uuid"] != sys.argv[1])' "$uuid" ||
	fail "uuid in JSON"

# A bitmap, spares, flags: mdadm reads them, and its -X the bitmap.
for metadata in 1.0 1.1 1.2; do
	raidctl create -l 5 -n 3 -e $metadata -b internal --bitmap-chunk=64K -ff --sparse "${m[@]:0:3}" \
		--write-mostly --failfast "${m[3]}" >"$tmp/out"
	check "${m[@]:0:4}"
	mdadm --examine "${m[2]}" >"$tmp/out"
	grep -q 'Recovery Offset : 0 sectors' "$tmp/out" || fail "slot 2 is not to be built: $(cat "$tmp/out")"
	mdadm --examine "${m[3]}" >"$tmp/out"
	grep -q 'Device Role : spare' "$tmp/out" || fail "no spare: $(cat "$tmp/out")"
	grep -q 'Flags : write-mostly failfast' "$tmp/out" || fail "no flags: $(cat "$tmp/out")"
	raidctl examine --json "${m[0]}" >"$tmp/json"
	read -r at bits dirty < <(python3 -c '
import json, sys
m = json.load(sys.stdin)["members"][0]
print(m["super_offset_bytes"] + 512 * m["bitmap_offset_sectors"], m["bitmap"]["bits"], m["bitmap"]["dirty_bits"])' <"$tmp/json")
	dd if="${m[0]}" of="$tmp/bitmap" bs=512 skip=$((at / 512)) count=16 status=none
	mdadm -X "$tmp/bitmap" >"$tmp/out"
	grep -q "Bitmap : $bits bits (chunks), $dirty dirty" "$tmp/out" || fail "$bits, $dirty; mdadm: $(cat "$tmp/out")"
	[ "$bits" -gt 500 ] && [ "$dirty" -eq "$bits" ] || fail "bits $bits, dirty $dirty"
done
expect 2 'needs --bitmap=internal' raidctl create -l 1 -b none --bitmap-chunk=64K -ff "${m[@]:0:2}"
expect 1 'no copies' raidctl create -l 0 -b internal -ff "${m[@]:0:2}"
expect 2 'spare cannot be missing' raidctl create -l 1 -n 2 -ff "${m[@]:0:2}" missing

# All zero: nothing to build, by --write-zeroes or because the files are new.
dd if=/dev/urandom of="${m[1]}" bs=1M seek=20 count=1 conv=notrunc status=none
expect 0 'all data are zeroes' raidctl create -l 5 -b internal --write-zeroes -ff "${m[@]:0:3}"
[ -z "$(tail -c +2097153 "${m[1]}" | tr -d '\0' | head -c 1)" ] || fail "not zeroed"
raidctl examine "${m[2]}" >"$tmp/out"
grep -qE 'Bitmap : 1 bits \(chunks\), 0 dirty' "$tmp/out" || fail "bitmap: $(cat "$tmp/out")"
grep -q 'Recovery Offset' "$tmp/out" && fail "still to be built"
expect 0 'all data are zeroes' raidctl create -l 6 --file-size=20M --sparse "$tmp"/new{0,1,2,3}
