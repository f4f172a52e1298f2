#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# status, fail, assemble, check, stop of a running daemon: what they say is true, their exit statuses are mdadm's, members
# in use are refused to everybody else, and a member failed by hand stays out after a restart.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"
requires jq --version
requires_build nbd-raidd nbd-raidctl

mapfile -t m < <(members 2 24M)
mapfile -t o < <(members 3 16M o)
raidctl create --level=1 --assume-clean --sparse --name=first "${m[@]}" >/dev/null
raidctl create --level=10 --sparse --name=second "${o[@]}" >/dev/null
start_raidd d --array "one:$(comma "${m[@]}")" --listen "unix:$tmp/d.sock"
ctl=(--control="$tmp/d.ctl")

expect 0 '^one: raid1, .* clean$' raidctl status "${ctl[@]}"
expect 0 '2 of 2 members in sync$' raidctl status "${ctl[@]}" --test one
expect 4 '^refused: .*no array "none"' raidctl status "${ctl[@]}" --test none
expect 1 '^refused: .*no array "none"' raidctl status "${ctl[@]}" none
[ "$(raidctl status "${ctl[@]}" --json | jq -r '.arrays[0].members | map(.state) | join(" ")')" = "in-sync in-sync" ] ||
	fail "members in JSON"

# Everybody else keeps off, but may look.
expect 1 "^refused: ${m[1]} is locked" raidctl zero-superblock "${m[1]}"
expect 1 '^refused: .*is locked' raidctl assemble "${m[@]}"
expect 1 '^refused: .*is locked' raidctl create --level=0 -ff "${m[1]}" "${o[0]}"
expect 0 'Array State : AA' raidctl examine "${m[@]}"

expect 1 '^refused: ' raidctl fail "${ctl[@]}" one "$tmp/none"
expect 0 '^failed' raidctl fail "${ctl[@]}" one "${m[1]}"
expect 1 'DEGRADED' raidctl status "${ctl[@]}" --test one
expect 1 '^refused: .*last copy' raidctl fail "${ctl[@]}" one "${m[0]}"
expect 0 'Array State : A\.' raidctl examine "${m[0]}"

# Another array comes while this one runs; the same name or member does not come twice.
expect 0 '^two is served' raidctl assemble "${ctl[@]}" --name=two "${o[@]}"
expect 1 '^refused: ' raidctl assemble "${ctl[@]}" --name=two "${o[@]}"
expect 1 '^refused: ' raidctl assemble "${ctl[@]}" --name=three "${o[@]}"
expect 0 '^two: raid10 near=2|^two: raid10' raidctl status "${ctl[@]}" two
# It had never been in sync: that is made good at once.
synced()
{
	! raidctl status "${ctl[@]}" two | grep -q 'needs resync'
}
wait_for 30 synced

expect 0 'all invariants hold' raidctl self-check "${ctl[@]}"
expect 0 'all invariants hold' raidctl self-check "${ctl[@]}" two
expect 1 '^refused: ' raidctl self-check "${ctl[@]}" none

expect 0 '^stopped' raidctl stop "${ctl[@]}" one
expect 1 '^refused: ' raidctl stop "${ctl[@]}" one
expect 0 '1 superblock erased' raidctl zero-superblock "${m[1]}"
expect 0 '^nbd-raidd stops' raidctl stop "${ctl[@]}" --all
pid=$(cat "$tmp/d.child")
gone()
{
	! running "$pid"
}
wait_for 30 gone
expect 1 '^refused: no nbd-raidd answers' raidctl status "${ctl[@]}"

# It is out for good.
raidctl create --level=1 --assume-clean --sparse -ff "${m[@]}" >/dev/null
start_raidd e --array "one:$(comma "${m[@]}")" --listen "unix:$tmp/e.sock"
raidctl fail --control="$tmp/e.ctl" one "${m[0]}" >/dev/null
stop_raidd e
expect 0 "^${m[0]}: (faulty|stale|split), .*" raidctl assemble "${m[@]}"
expect 0 "1 of 2 members in sync" raidctl assemble "${m[@]}"
