#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Odd sizes, 4096-byte blocks asked of the client, members of different size: the export is exactly the array.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"
requires nbdinfo --version
requires mdadm --version
requires_build nbd-raidd nbd-raidctl
for bytes in 512 4096 1000448 1048576; do
	truncate -s $bytes "$tmp/x.img"
	[ "$(raidd --build "x:raid0,,4K:$tmp/x.img" --run 'nbdinfo --size "$uri"' || true)" = $((bytes / 4096 * 4096)) ] ||
		[ $bytes -lt 4096 ] || fail "$bytes"
	[ "$(raidd --build "x:linear:$tmp/x.img" --run 'nbdinfo --size "$uri"')" = $bytes ] || fail "linear $bytes"
done
truncate -s 20M "$tmp/a.img"
truncate -s 17000000 "$tmp/b.img"
raidctl create --level=linear --sparse "$tmp/a.img" "$tmp/b.img" >"$tmp/create.log" 2>&1 || fail "$(cat "$tmp/create.log")"
sectors=0
for f in a b; do
	n=$(mdadm --examine "$tmp/$f.img" | sed -n 's/^ *Avail Dev Size : \([0-9]*\) .*/\1/p')
	sectors=$((sectors + n))
done
[ "$(raidd --array "x:$tmp/a.img,$tmp/b.img" --run 'nbdinfo --size "$uri"')" = $((sectors * 512)) ]
