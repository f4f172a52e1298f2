#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Rule 61: beyond the limit of connections a client is closed or waits, nothing breaks; a slot is free again after any end.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"
requires python3
requires_build nbd-raidd
truncate -s 1M "$tmp/x.img"
cat >"$tmp/limit.py" <<'PY'
import sys
from rawnbd import *
def try_go():
    try:
        c = Client(sys.argv[1])
        c.s.settimeout(0.5)
        return c.go("x")
    except (Closed, OSError):
        return None
for round in range(5):
    clients = [try_go() for _ in range(8)]
    served = [c for c in clients if c]
    assert len(served) == 4, f"{len(served)} sessions"
    for i, c in enumerate(served):
        if i % 2:
            c.start(DISC)
        c.s.close()
    def again():
        c = try_go()
        if c:
            c.alive()
            c.disconnect()
        return c
    eventually(again)
    eventually(again)
    eventually(again)
    eventually(again)
PY
cat >"$tmp/d.conf" <<CONF
array x {
	build = 0
	members = { "$tmp/x.img" }
}
limits {
	connections = 4
}
CONF
start_raidd d -c "$tmp/d.conf" --listen "unix:$tmp/d.sock"
PYTHONPATH="$top/client-tests" PYTHONDONTWRITEBYTECODE=1 python3 "$tmp/limit.py" "$tmp/d.sock"
