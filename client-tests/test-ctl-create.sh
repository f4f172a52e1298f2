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
		expect 0 'can be served$' raidctl assemble "${m[@]:0:n}"
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
