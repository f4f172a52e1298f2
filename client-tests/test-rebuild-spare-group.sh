#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 120
# Spares of the configuration are attached at the start; in a spare-group the smallest that is large enough goes to the
# array that needs it; arrays outside of the group, and ones that need their spare, give nothing.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"
# shellcheck source=rebuild.sh
. "$top/client-tests/rebuild.sh"
requires jq --version
requires nbdcopy --version
requires mkfs.ext4 -V
random_file data 10000000 11

for name in a b c; do
	mapfile -t p < <(members 2 24M "$name")
	raidctl create --level=1 --sparse --assume-clean --name=$name "${p[@]}" >/dev/null
done
truncate -s 24M "$tmp/fits.img" "$tmp/other.img" "$tmp/used.img"
truncate -s 40M "$tmp/large.img"
mkfs.ext4 -q "$tmp/used.img"
cat >"$tmp/d.conf" <<-E
	array a {
		members = { "$tmp/a0.img", "$tmp/a1.img" }
		spare-group = shelf
	}
	array b {
		members = { "$tmp/b0.img", "$tmp/b1.img" }
		spares = { "$tmp/large.img", "$tmp/fits.img", "$tmp/used.img" }
		spare-group = shelf
	}
	array c {
		members = { "$tmp/c0.img", "$tmp/c1.img" }
		spares = { "$tmp/other.img" }
	}
E
start_raidd d -c "$tmp/d.conf" --listen "unix:$tmp/d.sock"
spares_of()
{
	ctl status --json | jq -r ".arrays[] | select(.name == \"$1\") | .members[] | select(.state == \"spare\") | .path" |
		sed 's,.*/,,' | sort | tr '\n' ' '
}
has()
{
	[ "$(spares_of "$1")" = "$2" ]
}
wait_for 20 has b "fits.img large.img "
wait_for 20 has c "other.img "
said()
{
	grep -q "$1" "$tmp/d.log"
}
wait_for 20 said 'used.img.*ext4'
ctl monitor --json >"$tmp/events" 2>/dev/null &
monitor=$!
cleanup_fn eval "kill $monitor 2>/dev/null || :"
told()
{
	jq -r '"\(.event) \(.array) \(.member)"' <"$tmp/events" | grep -q "$1"
}
wait_for 20 told '^SparesMissing b null'

fill data
ctl fail a "$tmp/a1.img" >/dev/null
rebuilt()
{
	is .degraded 0 && [ "$(state_of "$tmp/fits.img")" = in-sync ]
}
wait_for 30 rebuilt
has b "large.img " && has c "other.img " || fail "$(ctl status)"
wait_for 20 told '^MoveSpare a b$'
# The next loss takes the last spare; then there is none, and the one of c stays.
ctl fail b "$tmp/b1.img" >/dev/null
wait_for 30 has b ""
ctl wait b >/dev/null
ctl fail a "$tmp/a0.img" >/dev/null
is .degraded 1 || fail "$(ask .)"
has c "other.img " || fail "the spare of another group moved"
same data
kill $monitor
wait $monitor || :
stop_raidd d

# A spare that has become a member is one after the restart, too.
start_raidd d -c "$tmp/d.conf" --listen "unix:$tmp/d.sock"
expect 0 '2 of 2 members in sync' ctl status b
