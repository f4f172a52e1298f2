#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# nbdcopy brings 40 MB in and out through every level, with many connections and requests, bytes unchanged.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"
requires nbdcopy --version
requires_build nbd-raidd nbd-raidctl
random_file data 40000000
for level in linear,2 0,3 1,2 1,3 10,2 10,3 10,4; do
	mapfile -t m < <(members "${level#*,}" 48M)
	raidctl create --level="${level%,*}" --sparse "${m[@]}" >"$tmp/create.log" 2>&1 || fail "$(cat "$tmp/create.log")"
	raidd --array "a:$(comma "${m[@]}")" --run "
		nbdcopy --connections=4 --requests=64 --flush '$tmp/data' \"\$uri\" &&
		nbdcopy --connections=4 --requests=64 \"\$uri\" - | head -c 40000000 | cmp - '$tmp/data' &&
		nbdcopy --synchronous \"\$uri\" '$tmp/back'" >"$tmp/run.log" 2>&1 || fail "level $level"
	head -c 40000000 "$tmp/back" | cmp - "$tmp/data"
	# and after a restart
	raidd --readonly --array "a:$(comma "${m[@]}")" --run "nbdcopy \"\$uri\" - | head -c 40000000 | cmp - '$tmp/data'"
done
