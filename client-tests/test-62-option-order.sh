#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Rule 62 (CVE-2019-14850, 14851): no order of options breaks anything: all permutations of six, each followed by a GO that
# serves; commands before GO are no commands.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"

rawnbd_test <<'PY'
import itertools
def structured(c):
    c.option(OPT_STRUCTURED_REPLY)
    assert c.reply(OPT_STRUCTURED_REPLY)[0] in (REP_ACK, ERR_INVALID)
    c.structured = True
def listed(c):
    c.option(OPT_LIST)
    assert c.replies(OPT_LIST)[-1][0] == REP_ACK
def info(c):
    c.info("x", opt=OPT_INFO)
def unknown(c):
    c.refused(77, ERR_UNSUP, b"12345678")
def bad_info(c):
    c.refused(OPT_INFO, ERR_INVALID, c.go_data("x", name_length=9999))
def no_such(c):
    c.refused(OPT_GO, ERR_UNKNOWN, c.go_data("nosuch"))
for order in itertools.permutations((structured, listed, info, unknown, bad_info, no_such)):
    c = Client().greet()
    for step in order:
        step(c)
    c.info("x")
    c.alive()
    c.s.close()
c = Client().greet()
c.send(c.request(READ, 0, 512))
c.closed()
Client().go("x").alive()
PY
