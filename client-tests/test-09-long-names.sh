#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Rule 9: a name of 4096 bytes is UNKNOWN, a longer one TOO_BIG or INVALID, an embedded NUL or bad UTF-8 is refused;
# error texts stay within 4096 bytes though they may quote the name.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"

rawnbd_test <<'PY'
c = Client().greet()
for opt in (OPT_INFO, OPT_GO):
    c.refused(opt, ERR_UNKNOWN, c.go_data("n" * 4096))
    c.option(opt, c.go_data("n" * 4097))
    assert c.reply(opt)[0] in (ERR_TOO_BIG, ERR_INVALID)
    for name in (b"x\0", b"\0", b"x\0y", b"\xff\xfe", b"\xc3"):
        c.option(opt, c.go_data(name))
        kind, text = c.reply(opt)
        assert kind in (ERR_INVALID, ERR_UNKNOWN), hex(kind)
        text.decode()
c.info("x")
c.alive()
PY
