#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# What the command line promises beside serving: names with commas by --member, --check starts nothing and touches nothing,
# a foreground start that is refused leaves no file and no socket, --run gives the command's status, the daemon without -f
# returns when it serves, pid file and sockets are gone after the end.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"
requires_nbdsh
requires nbdinfo --version
requires_build nbd-raidd nbd-raidctl
mkdir "$tmp/a,b"
truncate -s 16M "$tmp/a,b/m,0.img" "$tmp/a,b/m,1.img" "$tmp/plain.img"
raidctl create --level=1 --assume-clean "$tmp"/a,b/m,?.img >"$tmp/create.log" 2>&1 || fail "$(cat "$tmp/create.log")"

# --member, for --array and --build
raidd --array a --member "$tmp/a,b/m,0.img" --member "$tmp/a,b/m,1.img" \
	--run 'nbdsh -u "$uri" -c "h.pwrite(b\"x\" * 512, 0)"'
cp "$tmp/plain.img" "$tmp/a,b/plain,too.img"
raidd --build b:raid0 --member "$tmp/a,b/plain,too.img" --run '[ "$(nbdinfo --size "$uri")" = 16777216 ]'

# --check
sums=$(sha256sum "$tmp"/a,b/*.img)
expect 0 'array a: raid1, 2 of 2 slots' raidd --check --array a --member "$tmp/a,b/m,0.img" --member "$tmp/a,b/m,1.img" \
	--listen "unix:$tmp/check.sock" --pid-file "$tmp/check.pid"
grep -q '^export a: ' "$tmp/expect.out" && grep -q '^memory: ' "$tmp/expect.out" || fail "--check is silent"
expect 0 '1 of 2 slots' raidd --check --array a --member "$tmp/a,b/m,0.img"
expect 1 '^refused: ' raidd --check --array a --member "$tmp/plain.img"
[ ! -e "$tmp/check.sock" ] && [ ! -e "$tmp/check.pid" ] || fail "--check leaves something"
[ "$(sha256sum "$tmp"/a,b/*.img)" = "$sums" ] || fail "--check wrote"

# --run: environment and status
for status in 0 1 7 77; do
	got=0
	raidd --build "b:raid0:$tmp/plain.img" --run "exit $status" || got=$?
	[ $got -eq $status ] || fail "--run: status $got, wanted $status"
done
got=0
raidd --build "b:raid0:$tmp/plain.img" --run 'kill -KILL $$' 2>/dev/null || got=$?
[ $got -eq 137 ] || fail "--run: a killed command gives $got"
# shellcheck disable=SC2016
raidd --build "b:raid0:$tmp/plain.img" --run '[ -S "$unixsocket" ] && [ "$uri" = "nbd+unix:///b?socket=$unixsocket" ] &&
	echo "$unixsocket" >"'"$tmp"'/where"'
[ ! -e "$(cat "$tmp/where")" ] && [ ! -e "$(dirname "$(cat "$tmp/where")")" ] || fail "--run leaves its folder"

# Refused starts: nothing stays, one line.
for bad in "--listen unix:$tmp/nosuch/x.sock" "--pid-file $tmp/nosuch/pid" "--control $tmp/nosuch/deep/ctl" "--listen 192.0.2.1:1"; do
	# shellcheck disable=SC2086
	expect 1 '^refused: ' "$BUILD/nbd-raidd" -f --control="$tmp/bad.ctl" --build "b:raid0:$tmp/plain.img" \
		--listen "unix:$tmp/bad.sock" --pid-file "$tmp/bad.pid" $bad
	[ "$(grep -c '^refused:' "$tmp/expect.out")" -eq 1 ] || fail "$bad: $(cat "$tmp/expect.out")"
	[ ! -e "$tmp/bad.sock" ] && [ ! -e "$tmp/bad.ctl" ] && [ ! -e "$tmp/bad.pid" ] || fail "$bad: something stays"
done

# As a daemon: returns when it serves; relative names hold although it leaves the folder.
(cd "$tmp" && "$BUILD/nbd-raidd" --control="$tmp/d.ctl" --pid-file=daemon.pid --build b:raid0:plain.img \
	--listen unix:daemon.sock </dev/null >"$tmp/d.log" 2>&1)
pid=$(cat "$tmp/daemon.pid")
cleanup_fn eval "kill $pid 2>/dev/null || :"
nbdsh -u "nbd+unix:///b?socket=$tmp/daemon.sock" -c 'h.pread(512, 0)'
raidctl stop --control="$tmp/d.ctl" --all
gone()
{
	! running "$pid"
}
wait_for 20 gone
[ ! -e "$tmp/daemon.pid" ] || fail "the pid file stays"
[ ! -e "$tmp/daemon.sock" ] && [ ! -e "$tmp/d.ctl" ] || fail "a socket stays"
