#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A member in use by a running daemon cannot be used a second time, and is named.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"
requires_build nbd-raidd nbd-raidctl

mapfile -t m < <(members 2 16M)
raidctl create --level=1 "${m[@]}" >"$tmp/create.log" 2>&1 || fail "$(cat "$tmp/create.log")"
start_raidd d --array "a:$(comma "${m[@]}")" --listen "unix:$tmp/d.sock"
expect 1 '^refused: .*m[01].img' raidd --array "a:$(comma "${m[@]}")" --run true
expect 1 '^refused: .*m[01].img' raidctl create --force --force --level=0 "${m[@]}"
expect 1 '^refused: .*m[01].img' raidctl zero-superblock "${m[@]}"
