#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A member that is missing, one that is failed by hand: the data stays right, the survivors know, the old member is not
# trusted when it comes back, and the last copy cannot be failed.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"
requires nbdcopy --version
requires_nbdsh
requires jq --version
requires mdadm --version
requires_build nbd-raidd nbd-raidctl
for level in 1,3 10,4; do
	n=${level#*,}
	last=$((n == 3 ? 2 : 1))
	mapfile -t m < <(members "$n" 16M)
	raidctl create --level="${level%,*}" --assume-clean "${m[@]}" >"$tmp/create.log" 2>&1 ||
		fail "$(cat "$tmp/create.log")"
	random_file data 10000000 1
	random_file newer 10000000 2
	start_raidd d --array "a:$(comma "${m[@]}")" --listen "unix:$tmp/d.sock"
	nbdcopy --flush "$tmp/data" "$(uri d a)"
	raidctl fail --control="$tmp/d.ctl" a "${m[0]}"
	nbdcopy "$(uri d a)" "$tmp/back"
	cmp -n 10000000 "$tmp/back" "$tmp/data"
	raidctl status --control="$tmp/d.ctl" --json a >"$tmp/status.json"
	grep -q faulty "$tmp/status.json" || fail "status: $(cat "$tmp/status.json")"
	nbdcopy --flush "$tmp/newer" "$(uri d a)"
	# m1 is the mirror of m0 in RAID 10, one of two that are left in RAID 1.
	[ "$level" = 10,4 ] || raidctl fail --control="$tmp/d.ctl" a "${m[1]}"
	expect 1 'last|copy' raidctl fail --control="$tmp/d.ctl" a "${m[$last]}"
	stop_raidd d
	rm -f "$tmp/d.log"

	# The failed member comes back, listed first: it must be left out.
	raidd --array "a:$(comma "${m[@]}")" --run "nbdcopy \"\$uri\" '$tmp/back'" \
		>"$tmp/back.log" 2>&1 || fail "level $level: does not start"
	cmp -n 10000000 "$tmp/back" "$tmp/newer" || fail "level $level: the old member is trusted"
	# Without it.
	raidd --array "a:$(comma "${m[@]:1}")" --run "nbdcopy \"\$uri\" '$tmp/back'"
	cmp -n 10000000 "$tmp/back" "$tmp/newer" || fail "level $level: wrong without the member that failed"
done
