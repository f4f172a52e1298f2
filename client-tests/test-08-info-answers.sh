#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Rule 8: INFO_EXPORT always precedes the ACK, block sizes come unasked, unknown types are ignored, repeated ones
# harmless; INFO and GO answer alike; the canonical name of the default export is told.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"

rawnbd_test <<'PY'
wants = (), (INFO_NAME, INFO_DESCRIPTION, INFO_BLOCK_SIZE), (99, 65535, INFO_BLOCK_SIZE, INFO_BLOCK_SIZE, INFO_EXPORT)
for infos in wants:
    c = Client().greet()
    told = c.info("x", infos, OPT_INFO)
    assert told == c.info("x", infos, OPT_INFO) == c.info("x", infos, OPT_GO)
    assert INFO_BLOCK_SIZE in told
    c.alive()
c = Client().greet()
told = c.info("", (INFO_NAME,), OPT_INFO)
assert told[INFO_NAME] == b"x", told
told = c.info("x", (INFO_DESCRIPTION,), OPT_INFO)
assert told[INFO_DESCRIPTION], "no description"
PY
