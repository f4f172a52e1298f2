#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# --readonly --force starts what is otherwise refused as doubtful, says which bytes are, and writes nothing; --force alone does
# not start it read-write.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"
requires python3
requires nbdinfo --version
requires_build nbd-raidd nbd-raidctl
sb()
{
	python3 "$top/client-tests/superblock.py" "$@" || fail "superblock.py"
}
# forced PATTERN MEMBER…
forced()
{
	local pattern=$1 sums a
	shift
	a="a:$(comma "$@")"
	sums=$(sha256sum "$tmp"/*.img)
	expect 1 '^refused: ' raidd --array "$a" --run true
	expect 1 '^refused: ' raidd --force --array "$a" --run true
	expect 1 '^refused: ' raidd --readonly --array "$a" --run true
	expect 0 "$pattern" raidd --readonly --force --array "$a" --run 'nbdinfo --is read-only "$uri"'
	[ "$(sha256sum "$tmp"/*.img)" = "$sums" ] || fail "something was written"
}
# Split brain: each half ran alone and is as fresh as the other.
mapfile -t m < <(members 2 16M)
raidctl create --level=1 --assume-clean "${m[@]}" >"$tmp/create.log" 2>&1 || fail "$(cat "$tmp/create.log")"
sb "${m[0]}" role1=0xffff events=10
sb "${m[1]}" role0=0xffff events=10
forced 'split brain|doubt' "${m[@]}"
# A stripe one of whose members missed writes.
mapfile -t m < <(members 4 16M s)
raidctl create --level=10 --assume-clean "${m[@]}" >"$tmp/create.log" 2>&1 || fail "$(cat "$tmp/create.log")"
for i in 0 1 2 3; do
	sb "${m[i]}" events=$((i < 2 ? 10 : 20))
done
forced 'doubtful.*slot [01]' "${m[@]}"
