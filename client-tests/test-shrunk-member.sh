#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A file member that shrinks while it is served fails as a member: the data is answered from the other copy, and only a
# single-copy array gives errors, for the missing part alone.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"
requires qemu-io --version
requires jq --version
requires_build nbd-raidd nbd-raidctl
mapfile -t m < <(members 2 16M)
raidctl create --level=1 --assume-clean "${m[@]}" >"$tmp/create.log" 2>&1 || fail "$(cat "$tmp/create.log")"
start_raidd d --array "a:$(comma "${m[@]}")" --listen "unix:$tmp/d.sock"
qemu-io -f raw "$(uri d a)" -c 'write -P 5 0 12M' >"$tmp/io.log"
truncate -s 8M "${m[0]}"
for _ in 1 2 3 4 5 6; do
	qemu-io -f raw "$(uri d a)" -c 'read -P 5 0 12M' >"$tmp/io.log" || fail "read"
	! grep -qi 'fail' "$tmp/io.log" || fail "$(cat "$tmp/io.log")"
done
raidctl status --control="$tmp/d.ctl" --json a >"$tmp/status.json" || :
grep -q faulty "$tmp/status.json" || fail "the shrunk member is not failed: $(cat "$tmp/status.json")"
qemu-io -f raw "$(uri d a)" -c 'write -P 6 0 12M' -c 'flush' -c 'read -P 6 0 12M' >"$tmp/io.log" || fail "write"
! grep -qi 'fail' "$tmp/io.log" || fail "$(cat "$tmp/io.log")"
stop_raidd d
[ "$(stat -c %s "${m[0]}")" -eq $((8 << 20)) ] || fail "the shrunk member was made longer"
truncate -s 16M "$tmp/x.img"
start_raidd e --build "x:linear:$tmp/x.img" --listen "unix:$tmp/e.sock"
truncate -s 8M "$tmp/x.img"
qemu-io -f raw "$(uri e x)" -c 'read 0 1M' >"$tmp/io.log" 2>&1 || fail "the part that is there"
if qemu-io -f raw "$(uri e x)" -c 'read 12M 1M' >"$tmp/io.log" 2>&1; then
	grep -qi 'error' "$tmp/io.log" || fail "a read of what is gone succeeds"
fi
