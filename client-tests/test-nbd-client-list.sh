#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# nbd-client, a third handshake code base, lists the exports over a unix socket and over TCP.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"
requires nbd-client -V
requires_build nbd-raidd
truncate -s 1M "$tmp/x.img" "$tmp/y.img"
start_raidd d --build "first:raid0:$tmp/x.img" --build "second:raid0:$tmp/y.img" \
	--listen "unix:$tmp/d.sock" --listen 127.0.0.1:0
port=$(sed -n 's,^ready: nbd://127.0.0.1:\([0-9]*\).*,\1,p' "$tmp/d.log" | head -n 1)
[ -n "$port" ] || fail "no ready line"
nbd-client -l 127.0.0.1 "$port" >"$tmp/tcp" 2>&1
nbd-client -l -unix "$tmp/d.sock" >"$tmp/unix" 2>&1
for f in tcp unix; do
	grep -q '^first' "$tmp/$f" && grep -q '^second' "$tmp/$f" || fail "$f: $(cat "$tmp/$f")"
done
