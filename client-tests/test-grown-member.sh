#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A 1.0 superblock no longer at the end, because the file grew, is found where data_size implies it and is reported.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"
requires_build nbd-raidd nbd-raidctl
mapfile -t m < <(members 2 16M)
raidctl create --level=1 --assume-clean --metadata=1.0 "${m[@]}" >"$tmp/create.log" 2>&1 || fail "$(cat "$tmp/create.log")"
truncate -s +1M "${m[1]}"
# shellcheck disable=SC2016
raidd --array "a:$(comma "${m[@]}")" --readonly --run 'test -n "$uri"' >"$tmp/run.log" 2>&1 || fail "not started"
grep -Eq 'grew by (1048576|1 MiB)' "$tmp/run.log" || fail "not reported"
expect 0 'grew by' raidctl examine "${m[@]}"
