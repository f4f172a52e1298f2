# shellcheck shell=bash disable=SC2154,SC2034
# SPDX-License-Identifier: BSD-3-Clause
#
# Sourced after functions.sh by the tests of rebuilding and of the commands on running arrays.

requires jq --version
requires_build nbd-raidd nbd-raidctl

# ctl COMMAND ARG…: of the daemon d.
ctl()
{
	raidctl "$1" --control="$tmp/d.ctl" "${@:2}"
}

# ask FILTER: of jq, on the array `a` of daemon d.
ask()
{
	ctl status --json | jq -r ".arrays[] | select(.name == \"a\") | $1"
}

# state_of MEMBER: its state, or nothing.
state_of()
{
	ask ".members[] | select(.path == \"$1\") | .state"
}

# is FILTER VALUE
is()
{
	[ "$(ask "$1")" = "$2" ]
}

# make_array LEVEL N SIZE [OPTION…]: members m0… of an array of N slots, names in ${m[@]}.
make_array()
{
	mapfile -t m < <(members "$2" "$3")
	raidctl create --level="$1" --sparse "${@:4}" "${m[@]}" >"$tmp/create.log" 2>&1 ||
		fail "create: $(cat "$tmp/create.log")"
}

# serve [OPTION…]: daemon d with the array a of ${m[@]}.
serve()
{
	start_raidd d --array "a:$(comma "${m[@]}")" --listen "unix:$tmp/d.sock" "$@"
}

# fill FILE: write it to the array, durable. same FILE: what the array holds begins with it.
fill()
{
	nbdcopy --flush "$tmp/$1" "$(uri d a)"
}

same()
{
	nbdcopy "$(uri d a)" "$tmp/back"
	cmp -n "$(stat -c %s "$tmp/$1")" "$tmp/back" "$tmp/$1" || fail "the array does not hold $1"
	rm -f "$tmp/back"
}

# load_begins OFFSET BYTES: clients at work on that part of the array, until load_ends. What they read is what they wrote.
load_begins()
{
	python3 "$top/client-tests/load.py" "$(uri d a)" "$1" "$2" >"$tmp/load.log" 2>&1 </dev/null &
	load=$!
	cleanup_fn eval "kill -KILL $load 2>/dev/null || :"
	wait_for 20 grep -q works "$tmp/load.log"
}

load_ends()
{
	local status=0
	running "$load" || fail "the clients gave up: $(cat "$tmp/load.log")"
	kill -TERM "$load"
	wait "$load" || status=$?
	[ $status -eq 0 ] || fail "$(cat "$tmp/load.log")"
}

# A check finds nothing, the engine finds itself in order.
clean_check()
{
	ctl wait a >/dev/null
	ctl check --wait a >/dev/null
	is .sync.mismatch_sectors 0 || fail "mismatches: $(ask .sync)"
	ctl self-check >/dev/null
}
