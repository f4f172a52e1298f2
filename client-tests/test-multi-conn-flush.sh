#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A FLUSH on one connection covers what others have been told is written: written on A, flushed on B, killed, read again.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"
requires_nbdsh
requires_nbdsh
requires_build nbd-raidd nbd-raidctl
mapfile -t m < <(members 2 8M)
raidctl create --level=1 --assume-clean "${m[@]}" >"$tmp/create.log" 2>&1 || fail "$(cat "$tmp/create.log")"
start_raidd d --array "a:$(comma "${m[@]}")" --volatile --listen "unix:$tmp/d.sock"
nbdsh -c "
a, b = nbd.NBD(), nbd.NBD()
for h in a, b:
    h.connect_uri('$(uri d a)')
    assert h.can_multi_conn()
a.pwrite(b'flushed!' * 512, 0)
b.flush()
a.pwrite(b'not yet.' * 512, 65536)
import os, signal
os.kill($(cat "$tmp/d.pid"), signal.SIGKILL)
"
stop_raidd d KILL
raidd --array "a:$(comma "${m[@]}")" --run "nbdsh -u \"\$uri\" -c '
assert h.pread(4096, 0) == b\"flushed!\" * 512
assert h.pread(4096, 65536) in (b\"not yet.\" * 512, bytes(4096))
'"
