#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# What this version does not keep up to date on writes is refused read-write, by name and with the word --readonly, and
# served read-only with nothing written; a reshape and unknown bits are refused whatever is asked.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"
requires python3
requires nbdinfo --version
requires_build nbd-raidd nbd-raidctl
mapfile -t m < <(members 2 16M)
raidctl create --level=1 --bitmap=none --assume-clean "${m[@]}" >"$tmp/create.log" 2>&1 || fail "$(cat "$tmp/create.log")"
mkdir "$tmp/keep"
cp --sparse=always "${m[@]}" "$tmp/keep"
sb()
{
	local f=$1
	shift
	python3 "$top/client-tests/superblock.py" "$f" "$@" || fail "superblock.py"
}
restore()
{
	cp --sparse=always "$tmp/keep/m0.img" "$tmp/keep/m1.img" "$tmp"
}
refused()
{
	expect 1 "^refused: .*$1" raidd "${@:2}" --array "a:$(comma "${m[@]}")" --run true
	[ "$(wc -l <"$tmp/expect.out")" -eq 1 ] || fail "more than one line: $(cat "$tmp/expect.out")"
}

# bit, its name, which members carry it, what else it needs
while read -r bit name where more; do
	restore
	for i in ${where/:/ }; do
		# shellcheck disable=SC2086
		sb "${m[i]}" "feature_map=|$bit" $more
	done
	sums=$(sha256sum "${m[@]}")
	refused "$name.*--readonly"
	raidd --readonly --array "a:$(comma "${m[@]}")" --run 'nbdinfo --is read-only "$uri"' 2>"$tmp/run.log" ||
		fail "$name: not served read-only: $(cat "$tmp/run.log")"
	[ "$(sha256sum "${m[@]}")" = "$sums" ] || fail "$name: something was written"
done <<'BITS'
0x100 cluster 0:1
0x200 journal 0:1
0x400 ppl 0:1 ppl_offset=8 ppl_size=256
0x800 multi 0:1 ppl_offset=8 ppl_size=600
BITS
for bit in 0x4 0x24 0x2000 0x80000000; do
	restore
	sb "${m[0]}" "feature_map=|$bit"
	sb "${m[1]}" "feature_map=|$bit"
	for how in "" --readonly; do
		# shellcheck disable=SC2086
		refused '(reshape|features 0x)' $how
	done
done
