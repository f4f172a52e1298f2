#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# --run: $uri and $unixsocket are set, the socket is private, the command's status becomes ours, nothing stays behind.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"
requires nbdinfo --version
requires_build nbd-raidd
truncate -s 1M "$tmp/x.img"
for status in 0 1 7 42; do
	got=0
	raidd --build "x:raid0:$tmp/x.img" --run "[ -S \"\$unixsocket\" ] || exit 99; nbdinfo --size \"\$uri\" >/dev/null || exit 98
		echo \"\$unixsocket\" >'$tmp/name'; exit $status" || got=$?
	[ $got -eq $status ] || fail "exited with $got, wanted $status"
	[ ! -e "$(cat "$tmp/name")" ] || fail "the socket stays"
	[ ! -e "$(dirname "$(cat "$tmp/name")")" ] || fail "its folder stays"
done
# shellcheck disable=SC2016
[ "$(raidd --build "x:raid0:$tmp/x.img" --run 'stat -c %a "$(dirname "$unixsocket")"')" = 700 ]
