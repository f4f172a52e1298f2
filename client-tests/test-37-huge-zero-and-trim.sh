#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Rule 37: TRIM and WRITE_ZEROES of nearly 4 GiB are served, no buffer of that size is made, other clients are served
# meanwhile, and the result is right.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"

truncate -s 4G "$tmp/huge.img"
rawnbd_test --build "huge:raid0:$tmp/huge.img" <<'PY'
pid = os.getppid()
huge = (1 << 32) - 4096
c, other = Client().go("huge"), Client().go("huge")
marks = (0, 1 << 30, huge - 4096)
for command in (WRITE_ZEROES, TRIM):
    for at in marks:
        c.ok(WRITE, at, data=pattern(3, 4096))
    c.ok(WRITE, huge, data=pattern(4, 4096))
    cookie = c.start(command, 0, huge)
    for _ in range(20):
        assert other.ok(READ, huge, 4096) == pattern(4, 4096)
    assert c.finish(cookie, command, 0, huge)[0] == 0
    if command == WRITE_ZEROES:
        for at in marks:
            assert c.ok(READ, at, 4096) == bytes(4096), at
    assert c.ok(READ, huge, 4096) == pattern(4, 4096)
rss = int([l for l in open(f"/proc/{pid}/status") if l.startswith("VmHWM")][0].split()[1])
assert rss < MEMORY_FACTOR * (1 << 20), f"{rss} KiB"
PY
