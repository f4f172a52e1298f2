#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# --readonly --force starts what is otherwise refused as doubtful, says which bytes are, and writes nothing; --force alone
# makes old members good again, as mdadm's does, but never merges the halves of a split, and the configuration cannot say it.
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
expect 1 '^refused: .*split brain' raidd --force --array "a:$(comma "${m[@]}")" --run true
# A stripe one of whose members missed writes.
mapfile -t m < <(members 4 16M s)
raidctl create --level=10 --assume-clean "${m[@]}" >"$tmp/create.log" 2>&1 || fail "$(cat "$tmp/create.log")"
for i in 0 1 2 3; do
	sb "${m[i]}" events=$((i < 2 ? 10 : 20))
done
forced 'doubtful.*slot [01]' "${m[@]}"
cat >"$tmp/conf" <<END
array "a" {
    members = {"${m[0]}", "${m[1]}", "${m[2]}", "${m[3]}"}
    force = true
}
export "a" {
    array = "a"
}
END
expect 1 '^refused: ' raidd --config "$tmp/conf" --run true
expect 0 'doubtful.*slot 0' raidd --force --array "a:$(comma "${m[@]}")" --run 'nbdsh -u "$uri" -c "h.pwrite(b\"x\" * 4096, 0)"'
# Lasting: no force is needed any more.
expect 0 . raidd --array "a:$(comma "${m[@]}")" --run 'nbdsh -u "$uri" -c "assert h.pread(4096, 0) == b\"x\" * 4096; print(1)"'
