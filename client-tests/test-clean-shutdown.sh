#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# TERM with clients connected and idle: the daemon leaves with status 0, the array is clean; after kill -9 it is dirty.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"
requires_nbdsh
requires mdadm --version
requires_build nbd-raidd nbd-raidctl
mapfile -t m < <(members 2 16M)
raidctl create --level=1 --assume-clean "${m[@]}" >"$tmp/create.log" 2>&1 || fail "$(cat "$tmp/create.log")"
state()
{
	mdadm --examine "$1" | sed -n 's/^ *State : //p'
}
start_raidd d --array "a:$(comma "${m[@]}")" --listen "unix:$tmp/d.sock" --safe-mode-ms=600000
nbdsh -u "$(uri d a)" -c 'h.pwrite(b"x" * 512, 0)' -c "
import subprocess
assert 'active' in subprocess.run(['mdadm', '--examine', '${m[0]}'], stdout=subprocess.PIPE).stdout.decode().split('State :')[1][:12]
"
[ "$(state "${m[0]}")" = active ] || fail "$(state "${m[0]}") while written to"
stop_raidd d
[ "$(state "${m[0]}")" = clean ] && [ "$(state "${m[1]}")" = clean ] || fail "not clean after TERM"
start_raidd e --array "a:$(comma "${m[@]}")" --listen "unix:$tmp/e.sock"
nbdsh -u "$(uri e a)" -c 'h.pwrite(b"x" * 512, 0)'
clean()
{
	[ "$(state "${m[0]}")" = clean ] && [ "$(state "${m[1]}")" = clean ]
}
wait_for 10 clean
stop_raidd e KILL
clean || fail "an idle array that is killed is clean"
