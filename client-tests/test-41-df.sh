#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Rule 41: with DF a READ has at most one content chunk, however long it is.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"

rawnbd_test <<'PY'
c = Client().go("x", structured=True)
data = pattern(11, 9 << 20)
c.ok(WRITE, 777, data=data)
for n in (1, 65536, 1 << 20, (1 << 20) + 1, 9 << 20):
    cookie = c.start(READ, 777, n, DF)
    error, got, chunks = c.finish(cookie, READ, 777, n)
    contents = chunks
    assert error == 0 and got == data[:n] and contents <= 2, (n, error, chunks)
for n in (32 << 20,):
    error, got = c.do(READ, 0, n, DF)
    assert error == 0 and len(got) == n
PY
