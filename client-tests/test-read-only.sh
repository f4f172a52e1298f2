#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A read-only start writes nothing to any member, whatever state it is in, and locks shared: two may run.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"
requires nbdcopy --version
requires_build nbd-raidd nbd-raidctl
mapfile -t m < <(members 2 16M)
raidctl create --level=1 "${m[@]}" >"$tmp/create.log" 2>&1 || fail "$(cat "$tmp/create.log")"
start_raidd d --array "a:$(comma "${m[@]}")" --listen "unix:$tmp/d.sock"
random_file data 4000000
nbdcopy "$tmp/data" "$(uri d a)"
stop_raidd d KILL
sums=$(sha256sum "${m[@]}")
chmod a-w "${m[@]}"
start_raidd one --readonly --array "a:$(comma "${m[@]}")" --listen "unix:$tmp/one.sock"
start_raidd two --readonly --array "a:$(comma "${m[@]}")" --listen "unix:$tmp/two.sock"
nbdcopy "$(uri one a)" "$tmp/back"
cmp -n 4000000 "$tmp/back" "$tmp/data"
nbdcopy "$(uri two a)" "$tmp/back"
cmp -n 4000000 "$tmp/back" "$tmp/data"
stop_raidd one
stop_raidd two
[ "$(sha256sum "${m[@]}")" = "$sums" ] || fail "something was written"
