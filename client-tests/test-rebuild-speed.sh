#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 120
# The speed of a rebuild is limited while it runs, nothing begins again, and what is absurd is refused.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"
# shellcheck source=rebuild.sh
. "$top/client-tests/rebuild.sh"

cat >"$tmp/d.conf" <<-E
	array a {
		members = { "$tmp/m0.img", "$tmp/m1.img" }
		sync-min = 512K
		sync-max = 2M
	}
E
make_array 1 2 100M --assume-clean
truncate -s 100M "$tmp/s.img"
start_raidd d -c "$tmp/d.conf" --listen "unix:$tmp/d.sock"
is '.sync | .min_bps == 524288 and .max_bps == 2097152' true || fail "limits: $(ask .sync)"
ctl fail a "${m[1]}" >/dev/null
ctl add a "$tmp/s.img" >/dev/null
wait_for 30 is '.sync.action == "rebuild" and .sync.done > 0' true

# 100 MiB would take 50 s at 2 MiB/s.
from=$(ask .sync.done)
begin=$SECONDS
three_seconds_later()
{
	[ $((SECONDS - begin)) -ge 3 ]
}
wait_for 30 three_seconds_later
is ".sync.done - $from < 16000000" true || fail "too fast: from $from to $(ask .sync.done)"
expect 1 '^refused: .*more than' ctl sync-speed --min=10M --max=1M a
expect 2 'no size' ctl sync-speed --max=fast a
expect 0 '^set$' ctl sync-speed --max=0 a
is '.sync | .min_bps == 524288 and .max_bps == 0' true || fail "limits: $(ask .sync)"
begin=$SECONDS
ctl wait a >"$tmp/progress"
[ $((SECONDS - begin)) -lt 30 ] || fail "it stays slow"
is .degraded 0 || fail "$(ask .)"
[ "$(grep -c 'sync-started' "$tmp/d.log")" -eq 1 ] || fail "it began again"
