#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Rule 1: client flags other than bits 0 and 1 drop the connection; with flags 0 only EXPORT_NAME must work,
# and any other option may be refused but does not desynchronise the session.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"

rawnbd_test <<'PY'
for flags in (4, 1 << 31, 0xffffffff):
    c = Client().greet(flags)
    c.closed()
c = Client().greet(0)
c.option(OPT_EXPORT_NAME, b"x")
size, flags = struct.unpack(">QH", c.recv(10))
assert size == 64 << 20 and flags & F_HAS_FLAGS
assert c.recv(124) == bytes(124)
c.alive()
PY
