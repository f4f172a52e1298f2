#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# What cannot be started is refused by one line `refused: …` and exit status 1; what cannot be understood is a usage error
# with status 2; nothing is written to any member.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"
requires_build nbd-raidd nbd-raidctl
mapfile -t m < <(members 3 16M)
mapfile -t other < <(members 2 16M other)
raidctl create --level=0 "${m[@]}" >"$tmp/create.log" 2>&1 || fail "$(cat "$tmp/create.log")"
raidctl create --level=1 "${other[@]}" >"$tmp/create.log" 2>&1 || fail "$(cat "$tmp/create.log")"
truncate -s 16M "$tmp/blank.img"
sums=$(sha256sum "$tmp"/*.img)
refused()
{
	local pattern=$1
	shift
	expect 1 "^refused: .*$pattern" raidd "$@" --run true
	[ "$(grep -c '^refused:' "$tmp/expect.out")" -eq 1 ] || fail "more than one line"
}
refused 'missing' --array "a:${m[0]},${m[1]}"
refused '.' --array "a:${m[0]},${m[1]},${other[0]}"
refused '.' --array "a:$tmp/blank.img"
refused '.' --array "a:${m[0]},${m[1]},${m[2]},${m[2]}"
refused '.' --array "a:$tmp/nosuch.img"
refused '.' --build "a:raid1:$tmp/nosuch.img,$tmp/blank.img"
refused '9 copies' --build "a:raid10,n9:$tmp/blank.img"
for usage in "--no-such-option" "--array" "--array=a" "--build=a:raid7:$tmp/blank.img" \
	"--loops=0" "--loops=x" "--listen=nonsense:99999:1" "--direct=maybe"; do
	expect 2 '.' raidd "$usage"
done
expect 2 '.' raidd
expect 2 '.' raidctl
expect 2 '.' raidctl nonsense
[ "$(sha256sum "$tmp"/*.img)" = "$sums" ] || fail "a refusal wrote to a member"
