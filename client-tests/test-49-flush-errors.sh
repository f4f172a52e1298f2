#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Rule 49: a member that cannot flush is failed, or the FLUSH answers EIO; it is never swallowed. Here the device dies: its
# server is killed. A mirror goes on without it; a stripe answers EIO to this and to every later FLUSH and FUA.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"
requires python3
requires_build nbd-raidd nbd-raidctl
cat >"$tmp/flush.py" <<'PY'
import sys
from rawnbd import *
where, name, pid = sys.argv[1], sys.argv[2], int(sys.argv[3])
c, other = Client(where).go(name), Client(where).go(name)
c.ok(WRITE, 0, data=pattern(1, 256 << 10))
os.kill(pid, 9)
if name == "mirror":
    c.ok(FLUSH)
    other.ok(WRITE, 0, data=pattern(2, 4096), flags=FUA)
    other.ok(FLUSH)
    assert c.ok(READ, 0, 4096) == pattern(2, 4096)
else:
    c.fails(EIO, FLUSH)
    c.fails(EIO, FLUSH)
    other.fails(EIO, FLUSH)
    other.fails(EIO, WRITE, 0, flags=FUA, data=pattern(2, 4096))
    assert other.ok(READ, 64 << 10, 4096) == pattern(1, 128 << 10)[64 << 10:(64 << 10) + 4096]
PY
export PYTHONPATH=$top/client-tests PYTHONDONTWRITEBYTECODE=1
fuse_member dies 16M
fuse_member falls 16M
truncate -s 16M "$tmp/good.img" "$tmp/other.img"
raidctl create --level=1 --assume-clean "$tmp/dies/m" "$tmp/good.img" >"$tmp/create.log" 2>&1 || fail "$(cat "$tmp/create.log")"
start_raidd d --array "mirror:$tmp/dies/m,$tmp/good.img" --build "stripe:raid0:$tmp/falls/m,$tmp/other.img" \
	--listen "unix:$tmp/d.sock"
python3 "$tmp/flush.py" "$tmp/d.sock" mirror "$(cat "$tmp/dies.nbdkit.pid")"
python3 "$tmp/flush.py" "$tmp/d.sock" stripe "$(cat "$tmp/falls.nbdkit.pid")"
stop_raidd d || :
