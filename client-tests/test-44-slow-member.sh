#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Rules 44 and 52: a request that waits for a hung member holds up no other, on its own connection or another; a write of a
# session that has gone never lands after a newer one to the same place.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"
requires python3
requires_build nbd-raidd
fuse_member slow 8M
truncate -s 8M "$tmp/fast.img"
cat >"$tmp/slow.py" <<'PY'
import sys
from rawnbd import *
tmp, where = sys.argv[1:]
def pause(command, answer):
    s = socket.socket(socket.AF_UNIX)
    s.connect(f"{tmp}/slow.pause")
    s.sendall(command)
    assert s.recv(1) == answer
CHUNK = 64 << 10  # chunk 0 on the fast member, 1 on the slow one
c, other = Client(where).go("s"), Client(where).go("s")
c.ok(WRITE, 0, data=pattern(1, 2 * CHUNK))
pause(b"p", b"P")
slow = c.start(READ, CHUNK, 4096)
for i in range(10):
    fast = c.start(READ, 4096 * i, 4096)
    kind, cookie, error, data = c.message({fast: 4096, slow: 4096})
    assert cookie == fast and data == pattern(1, 2 * CHUNK)[4096 * i:4096 * (i + 1)]
assert other.ok(READ, 0, 4096) == pattern(1, 4096)
other.ok(WRITE, 8192, data=pattern(2, 4096))
pause(b"r", b"R")
kind, cookie, error, data = c.message({slow: 4096})
assert cookie == slow and data == pattern(1, 2 * CHUNK)[CHUNK:CHUNK + 4096]

# A write that hangs, its session cut; a newer write of another session; then the member goes on.
for round in range(5):
    dead = Client(where).go("s")
    pause(b"p", b"P")
    dead.start(WRITE, CHUNK, data=b"old " * 1024)
    assert c.ok(READ, 0, 512) == pattern(1, 512)
    dead.s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    dead.s.close()
    newer = other.start(WRITE, CHUNK, data=b"new " * 1024)
    assert c.ok(READ, 0, 512) == pattern(1, 512)
    pause(b"r", b"R")
    assert other.message()[2] == 0
    for _ in range(3):
        assert other.ok(READ, CHUNK, 4096) == b"new " * 1024
PY
start_raidd d --build "s:raid0:$tmp/fast.img,$tmp/slow/m" --listen "unix:$tmp/d.sock"
PYTHONPATH="$top/client-tests" PYTHONDONTWRITEBYTECODE=1 python3 "$tmp/slow.py" "$tmp" "$tmp/d.sock"
stop_raidd d
