#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# assemble without a daemon tells each member's verdict and how to have the array served; both ways that it tells work.
# Nothing is written.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"
requires nbdinfo
requires jq --version
requires_build nbd-raidd nbd-raidctl

mapfile -t m < <(members 3 16M)
mapfile -t o < <(members 2 16M 'with space, comma')
raidctl create --level=0 --sparse --name=h:plain "${m[@]}" >/dev/null
raidctl create --level=1 --sparse --assume-clean --name=odd "${o[@]}" >/dev/null
sums=$(sha256sum "$tmp"/*.img)

# works ARG…: what assemble prints for these arguments serves the array
works()
{
	local size
	raidctl assemble "$@" >"$tmp/out"
	size=$(sed -nE 's/.* ([0-9]+) bytes.*: can be served.*/\1/p' "$tmp/out")
	sed -n 's/^  nbd-raidd /raidd /p' "$tmp/out" >"$tmp/command"
	[ "$(wc -l <"$tmp/command")" -eq 1 ] || fail "no command: $(cat "$tmp/out")"
	sed -i "s/\$/ --run 'nbdinfo --size \"\$uri\"'/" "$tmp/command"
	# shellcheck source=/dev/null
	[ "$(. "$tmp/command" 2>"$tmp/raidd.log")" = "$size" ] || fail "not served: $(cat "$tmp/command")"
	sed -n '/^  array /,/^  }/p' "$tmp/out" >"$tmp/conf"
	"$BUILD/nbd-raidd" -c "$tmp/conf" --check >"$tmp/raidd.log" 2>&1 || fail "configuration: $(cat "$tmp/conf")"
}
works "${m[@]}"
works --readonly "${m[2]}" "${m[0]}" "${m[1]}"
works "${o[@]}"
works "${o[1]}"
works --raid0-layout=alternate --readonly --force "${m[@]}"
(cd "$tmp" && works ./m0.img m1.img m2.img)

# What does not belong is told by name.
expect 1 '^refused: .*slot 2 .*missing' raidctl assemble "${m[0]}" "${m[1]}"
expect 1 '^refused: .*different arrays' raidctl assemble "${m[@]}" "${o[0]}"
uuid=$(raidctl examine --export "${m[0]}" | sed -n 's/^MD_UUID=//p')
expect 0 'foreign' raidctl assemble --uuid="$uuid" "${m[@]}" "${o[0]}"
expect 0 'unreadable: cannot open' raidctl assemble "${o[0]}" "$tmp/none"
expect 1 '^refused: .*same device' raidctl assemble "${o[0]}" "${o[0]}"
[ "$(raidctl assemble --json "${o[@]}" | jq -r '.ok, .degraded, (.members | map(.verdict) | join(" "))' | xargs)" = \
	"true 0 in-sync in-sync" ] || fail "JSON"
status=0
raidctl assemble --json "${m[0]}" >"$tmp/out" 2>/dev/null || status=$?
[ "$status $(jq -r .ok "$tmp/out")" = "1 false" ] || fail "JSON of a refusal"
[ "$(sha256sum "$tmp"/*.img)" = "$sums" ] || fail "a member was written"
