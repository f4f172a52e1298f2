#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Rule 16: while the server drains, an option of a client that still haggles is answered ERR_SHUTDOWN, then it is closed.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"
requires python3
requires_build nbd-raidd
fuse_member slow 8M
truncate -s 8M "$tmp/fast.img"
cat >"$tmp/haggle.py" <<'PY'
import sys
from rawnbd import *
tmp, where, pid = sys.argv[1], sys.argv[2], int(sys.argv[3])
def pause(command, answer):
    s = socket.socket(socket.AF_UNIX)
    s.connect(f"{tmp}/slow.pause")
    s.sendall(command)
    assert s.recv(1) == answer
busy = Client(where).go("s")
haggling = [Client(where).greet() for _ in range(4)]
haggling[0].structured_reply()
pause(b"p", b"P")
cookie = busy.start(READ, 64 << 10, 4096)  # of the slow member
fast = busy.start(READ, 0, 4096)
assert busy.message({cookie: 4096, fast: 4096})[1] == fast
os.kill(pid, 15)
def refused_to_connect():
    try:
        Client(where)
        return False
    except OSError:
        return True
eventually(refused_to_connect)
haggling[0].refused(OPT_GO, ERR_SHUTDOWN, Client.go_data("s"))
haggling[1].refused(OPT_INFO, ERR_SHUTDOWN, Client.go_data("s"))
haggling[2].refused(OPT_LIST, ERR_SHUTDOWN)
haggling[3].option(OPT_ABORT)
for c in haggling[:3]:
    c.closed()
pause(b"r", b"R")
kind, got, error, data = busy.message({cookie: 4096})
assert got == cookie and error == 0 and data == bytes(4096), "a request in flight is answered"
busy.closed()
PY
start_raidd d --build "s:raid0:$tmp/fast.img,$tmp/slow/m" --listen "unix:$tmp/d.sock"
PYTHONPATH="$top/client-tests" PYTHONDONTWRITEBYTECODE=1 python3 "$tmp/haggle.py" "$tmp" "$tmp/d.sock" "$(cat "$tmp/d.pid")"
stop_raidd d
