#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Rule 12: a client that trickles is cut at the handshake deadline (10 s), also one that says nothing at all; others
# are served meanwhile.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"

rawnbd_test <<'PY'
silent = Client()
slow = Client().greet()
start = time.monotonic()
text = struct.pack(">QII", IHAVEOPT, OPT_GO, 1000) + bytes(1000)
sent = 0
gone = None
while time.monotonic() - start < 25 and gone is None:
    try:
        slow.send(text[sent:sent + 1])
        sent += 1
        if not slow.quiet(0.5):
            slow.closed()
            gone = time.monotonic() - start
    except (BrokenPipeError, ConnectionResetError):
        gone = time.monotonic() - start
    other = Client().go("x")
    other.alive()
    other.s.close()
assert gone and 5 < gone < 20, f"cut after {gone} s"
silent.greet(None)
silent.closed()
PY
