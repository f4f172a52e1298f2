#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Whatever answers on the control socket, nbd-raidctl refuses in one line and with status 1 (status --test: 4), and
# does not hang, crash or eat all memory.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"
requires python3
requires_build nbd-raidctl

cat >"$tmp/daemon.py" <<'END'
import os, socket, sys
answers = [b"", b"\n", b"no json\n", b"[]\n", b'{"ok":true', b'"ok"\n', b'{"ok":1}\n', b'{"ok":false}\n',
           b'{"ok":false,"error":"because \xff"}\n', b"x" * (20 << 20), b"\0\0\n"]
s = socket.socket(socket.AF_UNIX)
s.bind(sys.argv[1])
s.listen()
open(sys.argv[1] + ".ready", "w").close()
for a in answers:
    c, _ = s.accept()
    c.recv(4096)
    try:
        c.sendall(a)
    except OSError:
        pass
    c.close()
c, _ = s.accept()
c.recv(4096)
c.sendall(b'{"ok":true,"arrays":[{"name":3,"members":"x","in_sync":1},null,7,{"name":"a","in_sync":1,"degraded":1,'
          b'"members":[{"path":[]}]}],"exports":{},"listeners":[1],"sessions":null}\n')
END
end_daemon()
{
	kill "$1" 2>/dev/null || :
}
python3 "$tmp/daemon.py" "$tmp/sock" &
cleanup_fn end_daemon $!
wait_for 20 test -e "$tmp/sock.ready"

for _ in 1 2 3 4 5 6 7 8 9 10 11; do
	expect 1 '^refused: ' raidctl status --control="$tmp/sock"
	[ "$(wc -l <"$tmp/expect.out")" -eq 1 ] || fail "more than one line: $(cat "$tmp/expect.out")"
done
expect 2 'a: .*|DEGRADED' raidctl status --test --control="$tmp/sock"

# Nobody there.
wait
expect 1 '^refused: no nbd-raidd answers at ' raidctl status --control="$tmp/sock"
expect 4 '^refused: no nbd-raidd answers at ' raidctl status --test --control="$tmp/none"
expect 1 '^refused: .*too long' raidctl stop --all --control="$(printf '%0200d' 0)"
