#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Rule 11: a flood of options before GO is bounded; other clients are served meanwhile.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"

rawnbd_test <<'PY'
for opt, data in ((OPT_INFO, Client.go_data("x")), (OPT_LIST, b""), (99, b"z")):
    c = Client().greet()
    answered = 0
    try:
        for _ in range(10000):
            c.option(opt, data)
            c.replies(opt)
            answered += 1
    except (Closed, BrokenPipeError, ConnectionResetError):
        pass
    assert 32 <= answered < 1000, f"{answered} options answered"
    Client().go("x").alive()
PY
