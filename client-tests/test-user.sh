#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# --user: every thread runs as that user without capabilities, yet members that only root may open are read,
# written, flushed and marked clean, and the pid file and the sockets are dealt with.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"
requires_root
requires id nobody
requires qemu-io --version
requires_build nbd-raidd nbd-raidctl

mapfile -t m < <(members 2 16M)
raidctl create --level=1 --assume-clean "${m[@]}" >/dev/null
chmod 600 "${m[@]}"
start_raidd d --user=nobody --array "a:$(comma "${m[@]}")" --listen "unix:$tmp/d.sock"
pid=$(cat "$tmp/d.pid")
uid=$(id -u nobody)
for task in /proc/"$pid"/task/*; do
	grep -q "^Uid:	$uid	$uid	$uid	$uid$" "$task/status" || fail "a thread is not nobody: $(grep Uid "$task/status")"
	grep -q "^CapEff:	0000000000000000$" "$task/status" || fail "a thread kept capabilities"
	grep -q "^CapPrm:	0000000000000000$" "$task/status" || fail "a thread kept capabilities"
done
qemu-io -f raw -c 'write -P 5 0 1M' -c flush -c 'read -P 5 0 1M' "$(uri d a)" >"$tmp/io.log"
! grep -qi 'fail\|error' "$tmp/io.log" || fail "$(cat "$tmp/io.log")"
raidctl status --control="$tmp/d.ctl" a >/dev/null
stop_raidd d
expect 0 'State : clean' raidctl examine "${m[0]}"
[ ! -s "$tmp/d.pid" ] || fail "the pid file still names a process"

# The private folder of --run is made in TMPDIR, which that user must be able to enter.
[ -z "${TMPDIR:-}" ] || [ "$TMPDIR" = /tmp ] || chmod go+x "$TMPDIR"
[ "$(raidd --user=nobody --build "x:linear:${m[0]}" --readonly --run 'id -un; qemu-io -r -f raw -c "read 0 4k" "$uri" >/dev/null && echo read')" = $'nobody\nread' ]
expect 1 "^refused: user 'no-such-user' is not known" raidd --user=no-such-user --build "x:linear:${m[0]}" --run true
expect 1 "^refused: group 'no-such-group' is not known" raidd --group=no-such-group --build "x:linear:${m[0]}" --run true
