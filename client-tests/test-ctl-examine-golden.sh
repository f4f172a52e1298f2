#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Of every member of the golden arrays, made by the real md, examine says what mdadm --examine says, damaged,
# reshaping, replaced and 0.90 ones included; the bad blocks are those mdadm lists.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"
# shellcheck source=ctl.sh
. "$(dirname "$0")/ctl.sh"
requires mdadm
requires zstd
requires_build nbd-raidctl

count=0
for image in "$top"/raid/tests/golden/*/*.zst; do
	name=${image%.img.zst}
	m=$tmp/$(basename "${name%/*}")-${name##*/}.img
	zstd -d -q --sparse "$image" -o "$m"
	agrees "$m"
	diff -u <(mdadm --examine-badblocks "$m" 2>/dev/null | sed -n 's/^ *\([0-9]* for [0-9]* sectors\)/\1/p') \
		<(raidctl examine "$m" | sed -n 's/^ *Bad Blocks : //p') || fail "$m: bad blocks differ"
	count=$((count + 1))
	rm "$m"
done
[ $count -gt 20 ] || fail "only $count members"
