#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 240
# A member that was away comes back: with a bitmap only what was written meanwhile is copied, without one everything;
# a member that was away at the start of the daemon comes back by itself.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"
# shellcheck source=rebuild.sh
. "$top/client-tests/rebuild.sh"
requires nbdcopy --version
requires_nbdsh
random_file data 60000000 7

# Bytes written to a member since it came back.
written()
{
	ask ".members[] | select(.path == \"$1\") | .write_bytes"
}

for level in 1,2 5,3 10,4; do
	IFS=, read -r kind n <<<"$level"
	make_array "$kind" "$n" 80M --assume-clean --bitmap-chunk=256K
	serve
	ctl wait a >/dev/null
	fill data
	wait_for 40 is .bitmap.dirty 0 # what was written is equal everywhere by then
	ctl fail a "${m[1]}" >/dev/null
	expect 0 "^removed: ${m[1]}$" ctl remove a "${m[1]}"
	nbdsh -u "$(uri d a)" -c 'h.pwrite(b"meanwhile" * 1000, 3 << 20)' -c 'h.pwrite(b"there" * 1000, 5 << 20)' -c 'h.flush()'
	nbdcopy "$(uri d a)" "$tmp/now"
	expect 0 "^added back: ${m[1]}$" ctl re-add a "${m[1]}"
	ctl wait a >/dev/null
	is .degraded 0 || fail "raid$kind: $(ask .)"
	[ "$(written "${m[1]}")" -lt 8000000 ] || fail "raid$kind: $(written "${m[1]}") bytes written"
	clean_check
	ctl fail a "${m[0]}" >/dev/null
	same now
	# There is nothing to come back to, or it comes from elsewhere.
	truncate -s 80M "$tmp/empty.img"
	expect 1 '^refused: ' ctl re-add a "$tmp/empty.img"
	stop_raidd d
	rm -f "$tmp"/*.img "$tmp/d.log"
done

# Away while the daemon ran.
make_array 1 2 80M --assume-clean --bitmap-chunk=256K
serve
fill data
wait_for 40 is .bitmap.dirty 0
stop_raidd d
start_raidd d --array "a:${m[0]}" --listen "unix:$tmp/d.sock"
nbdsh -u "$(uri d a)" -c 'h.pwrite(b"alone" * 1000, 1 << 20)' -c 'h.flush()'
nbdcopy "$(uri d a)" "$tmp/now"
stop_raidd d
serve
wait_for 30 is .degraded 0
[ "$(written "${m[1]}")" -lt 8000000 ] || fail "$(written "${m[1]}") bytes written"
ctl fail a "${m[0]}" >/dev/null
same now
