#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# -s: one session on stdin and stdout, over a socketpair (libnbd starts it) and over two pipes; the daemon ends with it.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"
requires_nbdsh
requires nbdinfo --version
requires_build nbd-raidd
truncate -s 1M "$tmp/x.img"
nbdsh -c "
h.connect_command(['$BUILD/nbd-raidd', '--control=none', '--loops=$LOOPS', '-s', '--build', 'x:raid0:$tmp/x.img'])
assert h.get_size() == 1 << 20
h.pwrite(b'a' * 512, 1024)
assert h.pread(512, 1024) == b'a' * 512
h.shutdown()
"
cat >"$tmp/pipes.py" <<'PY'
import subprocess, sys
from rawnbd import *

class Pipes(Client):
    def __init__(self, p):
        self.p, self.structured, self.cookie = p, False, 0
    def send(self, data):
        self.p.stdin.write(data)
        self.p.stdin.flush()
    def recv(self, n):
        return self.p.stdout.read(n)

p = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
c = Pipes(p)
c.greet()
c.structured_reply()
c.info("x")
c.ok(WRITE, 5, data=pattern(1, 100000))
assert c.ok(READ, 5, 100000) == pattern(1, 100000)
c.start(DISC)
assert p.stdout.read() == b""
sys.exit(p.wait(30))
PY
PYTHONPATH="$top/client-tests" PYTHONDONTWRITEBYTECODE=1 python3 "$tmp/pipes.py" "$BUILD/nbd-raidd" --control=none \
	--loops="$LOOPS" -s --build "x:raid0:$tmp/x.img"
