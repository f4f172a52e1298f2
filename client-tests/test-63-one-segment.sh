#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Rule 63 and the handoff: GO and eight requests in one segment, and the same split at every byte, are answered alike.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"

rawnbd_test <<'PY'
def stream(c):
    data = struct.pack(">I", FIXED_NEWSTYLE | NO_ZEROES)
    go = c.go_data("x")
    data += struct.pack(">QII", IHAVEOPT, OPT_GO, len(go)) + go
    for i in range(4):
        data += c.request(WRITE, i * 512, 512, 0, i) + pattern(i, 512)
        data += c.request(READ, i * 512, 512, 0, 100 + i)
    return data
def check(pieces):
    c = Client().greet(None)
    for piece in pieces:
        c.send(piece)
    replies = c.replies(OPT_GO)
    assert replies[-1][0] == REP_ACK
    seen = {}
    for _ in range(8):
        _, cookie, error, data = c.message({100 + i: 512 for i in range(4)})
        assert error == 0
        seen[cookie] = data
    assert set(seen) == {0, 1, 2, 3, 100, 101, 102, 103}
    c.s.close()
whole = stream(Client())
check([whole])
for cut in range(1, len(whole), 7):
    check([whole[:cut], whole[cut:]])
check([whole[i:i + 1] for i in range(len(whole))])
PY
