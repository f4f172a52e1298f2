#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 120
# monitor tells events under mdadm's names, in order, to a program, as text and as JSON; what is wrong already comes first;
# when the daemon ends it ends.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"
# shellcheck source=rebuild.sh
. "$top/client-tests/rebuild.sh"
requires jq --version

make_array 1 2 64M --assume-clean --name=a
mapfile -t s < <(members 2 64M s)
mapfile -t o < <(members 2 16M o)
raidctl create --level=1 --sparse --assume-clean "${o[@]}" >/dev/null
serve

cat >"$tmp/program" <<'P'
#!/bin/bash
echo "$@" >>"${0%/*}/events"
P
chmod +x "$tmp/program"
touch "$tmp/events"
ctl monitor --test --program="$tmp/program" 2>"$tmp/monitor.log" &
monitor=$!
cleanup_fn eval "kill $monitor 2>/dev/null || :"
ctl monitor --test --json a b >"$tmp/json" 2>/dev/null &
json=$!
cleanup_fn eval "kill $json 2>/dev/null || :"
told()
{
	grep -q "$1" "$tmp/events"
}
wait_for 10 told '^TestMessage a$'
wait_for 10 grep -q TestMessage "$tmp/json"

ctl add a "${s[@]}" >/dev/null
ctl fail a "${s[1]}" >/dev/null
ctl fail a "${m[1]}" >/dev/null
wait_for 10 told '^RebuildStarted a$'
ctl wait a >/dev/null
wait_for 10 told '^SpareActive'
ctl assemble --name=b "${o[@]}" >/dev/null
ctl fail b "${o[1]}" >/dev/null
ctl stop b >/dev/null
wait_for 10 told '^DeviceDisappeared b$'
cat >"$tmp/wanted" <<-E
	TestMessage a
	FailSpare a ${s[1]}
	Fail a ${m[1]}
	RebuildStarted a
	Rebuild20 a
	Rebuild40 a
	Rebuild60 a
	Rebuild80 a
	RebuildFinished a
	SpareActive a ${s[0]}
	NewArray b
	Fail b ${o[1]}
	DeviceDisappeared b
E
diff "$tmp/wanted" "$tmp/events" || fail "other events, or in another order"
jq -r '.event + " " + .array + (if .member then " " + .member else "" end)' <"$tmp/json" | diff "$tmp/wanted" - ||
	fail "other events in JSON"

# What is wrong already.
ctl assemble --name=b "${o[@]}" >/dev/null
expect 0 'DegradedArray on b$' ctl monitor --oneshot
expect 0 'TestMessage on a$' ctl monitor --oneshot --test a
! ctl monitor --oneshot a | grep . || fail "nothing is wrong with a"

stop_raidd d
status=0
wait $monitor || status=$?
[ $status -eq 1 ] && grep -q 'has ended' "$tmp/monitor.log" || fail "the monitor outlives the daemon: $status"
wait $json || :
