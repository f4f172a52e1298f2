#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# fio's nbd engine writes and verifies random blocks at depth 64, from four connections at once, while the new
# array's first resync or build runs.
# timeout: 300
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"
requires fio --enghelp=nbd
requires_build nbd-raidd nbd-raidctl
for level in 1,2 10,3 0,3 4,3 5,4 5,2 6,4; do
	mapfile -t m < <(members "${level#*,}" 32M)
	raidctl create --level="${level%,*}" --sparse "${m[@]}" >"$tmp/create.log" 2>&1 || fail "$(cat "$tmp/create.log")"
	raidd --array "a:$(comma "${m[@]}")" --run "fio --name=v --ioengine=nbd --uri=\"\$uri\" --rw=randrw \
		--bsrange=512-128k --bs_unaligned --verify=crc32c --verify_fatal=1 --verify_state_save=0 --iodepth=64 --numjobs=4 --size=6M \
		--offset_increment=6M --fsync=50 --loops=2" >"$tmp/fio.log" 2>&1 || fail "level $level"
done
