#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Rule 10 (CVE-2022-26495 and kin): an absurd option length is refused or dropped at once, and nothing of that size is
# allocated; up to 1 MiB is eaten with TOO_BIG.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"

rawnbd_test <<'PY'
pid = os.getppid()
def rss_kib():
    return int([l for l in open(f"/proc/{pid}/status") if l.startswith("VmRSS")][0].split()[1])
before = rss_kib()
for length in (0xffffffff, 0x80000000, 0x7fffffff, (1 << 20) + 1):
    for opt in (OPT_EXPORT_NAME, OPT_GO, OPT_LIST, 1234):
        c = Client().greet()
        c.option(opt, b"", length)
        c.s.shutdown(socket.SHUT_WR)
        data = b""
        try:
            while piece := c.s.recv(4096):
                data += piece
        except ConnectionResetError:
            pass
        assert len(data) <= 4096 + 20
assert rss_kib() - before < MEMORY_FACTOR * (32 << 10), f"grew by {rss_kib() - before} KiB"
c = Client().greet()
for n in ((64 << 10) + 1, 1 << 20):
    c.refused(OPT_GO, ERR_TOO_BIG, bytes(n))
c.info("x")
c.alive()
PY
