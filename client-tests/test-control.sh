#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The control socket: status, fail, check, stop of one array while another goes on; --json; a dead daemon is said to be so.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"
requires nbdinfo --version
requires jq --version
requires_build nbd-raidd nbd-raidctl
mapfile -t m < <(members 2 16M)
mapfile -t k < <(members 3 16M k)
raidctl create --level=1 --assume-clean "${m[@]}" >"$tmp/create.log" 2>&1 || fail "$(cat "$tmp/create.log")"
raidctl create --level=0 "${k[@]}" >"$tmp/create.log" 2>&1 || fail "$(cat "$tmp/create.log")"
start_raidd d --array "mirror:$(comma "${m[@]}")" --array "stripe:$(comma "${k[@]}")" --listen "unix:$tmp/d.sock"
ctl()
{
	raidctl "$1" --control="$tmp/d.ctl" "${@:2}"
}
ctl status >"$tmp/text"
grep -q mirror "$tmp/text" && grep -q stripe "$tmp/text"
ctl status --json | jq -e . >/dev/null
expect 1 . ctl fail stripe "${k[0]}"
ctl fail mirror "${m[0]}"
ctl status --json mirror | jq -e '[.. | strings | select(. == "faulty")] | length > 0' >/dev/null
expect 1 . ctl fail mirror "${m[1]}"
expect 1 . ctl fail nosuch "${m[1]}"
expect 1 . ctl status nosuch
ctl stop mirror
expect 1 . nbdinfo "$(uri d mirror)"
nbdinfo --size "$(uri d stripe)" >/dev/null
stop_raidd d
expect 1 . ctl status
