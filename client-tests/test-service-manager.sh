#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Under a service manager: READY=1 comes when clients can connect, STOPPING=1 when the stop begins, SIGHUP
# changes nothing. Without one the command returns when the daemon serves, or with its failure.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"
requires socat -V
requires nbdinfo --version
requires_build nbd-raidd

truncate -s 4M "$tmp/x.img" "$tmp/y.img"
socat -u "UNIX-RECV:$tmp/notify" "OPEN:$tmp/notified,creat,append" &
socat=$!
cleanup_fn kill "$socat"
wait_for 30 test -S "$tmp/notify"

NOTIFY_SOCKET=$tmp/notify start_raidd d --build "x:linear:$tmp/x.img" --listen "unix:$tmp/d.sock"
wait_for 30 grep -q '^READY=1' "$tmp/notified"
[ "$(nbdinfo --size "$(uri d x)")" -eq 4194304 ]
kill -HUP "$(cat "$tmp/d.pid")"
wait_for 30 grep -q 'SIGHUP' "$tmp/d.log"
[ "$(nbdinfo --size "$(uri d x)")" -eq 4194304 ]
stop_raidd d
wait_for 30 grep -q 'STOPPING=1' "$tmp/notified"
[ ! -e "$tmp/d.pid" ] || fail "the pid file stayed"
[ ! -e "$tmp/d.sock" ] || fail "the socket stayed"

# becoming a daemon
raidd --build "y:linear:$tmp/y.img" --listen "unix:$tmp/e.sock" --pid-file="$tmp/e.pid" >"$tmp/e.out"
pid=$(cat "$tmp/e.pid")
cleanup_fn sh -c "kill $pid 2>/dev/null || :"
grep -q "^ready: nbd+unix:///y?socket=$tmp/e.sock\$" "$tmp/e.out"
[ "$(nbdinfo --size "$(uri e y)")" -eq 4194304 ]
[ "$(readlink "/proc/$pid/cwd")" = / ] || fail "the daemon stays in the folder it was started from"
expect 1 "^refused: unix:$tmp/e.sock: in use" raidd --build "x:linear:$tmp/x.img" --listen "unix:$tmp/e.sock"
kill "$pid"
gone()
{
	! running "$pid"
}
wait_for 60 gone
