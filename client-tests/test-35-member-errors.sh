#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Rules 34, 35 and 40: with redundancy left an error of a member is no error to the client; without, it is an
# error reply (an error chunk for structured READs), EIO whatever the member said, and the session goes on.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"
requires python3
requires_build nbd-raidd nbd-raidctl
fuse_member weak 16M
truncate -s 16M "$tmp/good.img"
cat >"$tmp/mirror.py" <<'PY'
import sys
from rawnbd import *
tmp, where = sys.argv[1:]
def mark(name, on):
    path = f"{tmp}/weak.bad-{name}"
    open(path, "w").close() if on else os.unlink(path)
c = Client(where).go("a", structured=True)
data = pattern(1, 4 << 20)
c.ok(WRITE, 0, data=data)
c.ok(FLUSH)
mark("read", True)
for at in range(0, 4 << 20, 1 << 16):
    assert c.ok(READ, at, 5000) == data[at:at + 5000], at
mark("read", False)
mark("write", True)
data = pattern(2, 4 << 20)
c.ok(WRITE, 0, data=data)
c.ok(WRITE, 5 << 20, data=data[:4096], flags=FUA)
c.ok(FLUSH)
mark("write", False)
assert c.ok(READ, 0, len(data)) == data
assert c.ok(READ, 5 << 20, 4096) == data[:4096]
PY
cat >"$tmp/stripe.py" <<'PY'
import sys
from rawnbd import *
tmp, where = sys.argv[1:]
def mark(name, on):
    path = f"{tmp}/weak.bad-{name}"
    open(path, "w").close() if on else os.unlink(path)
CHUNK = 64 << 10  # chunk 0 on the good member, 1 on the weak one
data = pattern(3, 8 * CHUNK)
for structured in (False, True):
    c = Client(where).go("s", structured=structured)
    c.ok(WRITE, 0, data=data)
    mark("read", True)
    c.fails(EIO, READ, CHUNK, CHUNK)
    c.fails(EIO, READ, CHUNK + 513, 1)
    c.fails(EIO, READ, 0, 8 * CHUNK)
    c.fails(EIO, READ, CHUNK - 1, 2)
    if structured:
        c.fails(EIO, READ, 0, 8 * CHUNK, DF)
    assert c.ok(READ, 0, CHUNK) == data[:CHUNK]
    # A write below the block has to read first: an error, and nothing else.
    mark("read", False)
    mark("write", True)
    c.fails(EIO, WRITE, CHUNK, data=bytes(CHUNK))
    c.fails(EIO, WRITE, 0, data=bytes(2 * CHUNK), flags=FUA)
    c.fails(EIO, WRITE_ZEROES, CHUNK, 4096)
    c.ok(WRITE, 0, data=data[:CHUNK])
    mark("write", False)
    c.ok(WRITE, 0, data=data)
    assert c.ok(READ, 0, len(data)) == data
    c.alive()
PY
export PYTHONPATH=$top/client-tests PYTHONDONTWRITEBYTECODE=1
start_raidd s --build "s:raid0:$tmp/good.img,$tmp/weak/m" --listen "unix:$tmp/s.sock"
python3 "$tmp/stripe.py" "$tmp" "$tmp/s.sock"
stop_raidd s
raidctl create --level=1 --assume-clean --force --force "$tmp/weak/m" "$tmp/good.img" >"$tmp/create.log" 2>&1
start_raidd d --array "a:$tmp/weak/m,$tmp/good.img" --listen "unix:$tmp/d.sock"
python3 "$tmp/mirror.py" "$tmp" "$tmp/d.sock"
raidctl status --control="$tmp/d.ctl" --json a >"$tmp/status.json" || :
grep -q faulty "$tmp/status.json" || fail "the member that refused writes is not failed: $(cat "$tmp/status.json")"
stop_raidd d
