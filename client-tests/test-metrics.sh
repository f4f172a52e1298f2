#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Metrics over HTTP: the text is well-formed, counters rise with I/O, a failed member shows, other paths and methods
# are refused, garbage and floods harm nobody, and a connection that is kept open does not hold up the stop.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"
requires python3
requires_build nbd-raidd nbd-raidctl
export PYTHONPATH=$top/client-tests PYTHONDONTWRITEBYTECODE=1
mapfile -t m < <(members 2 16M)
raidctl create --level=1 --assume-clean "${m[@]}" >"$tmp/create.log" 2>&1 || fail "$(cat "$tmp/create.log")"
expect 1 'refused: metrics: .*is no address' raidd --array "mirror:$(comma "${m[@]}")" -f --listen "unix:$tmp/no.sock" --metrics=nowhere
start_raidd d --array "mirror:$(comma "${m[@]}")" --listen "unix:$tmp/d.sock" --metrics=127.0.0.1:0
at=$(sed -n 's/^metrics: //p' "$tmp/d.log")
[[ $at =~ ^127\.0\.0\.1:[1-9][0-9]*$ ]] || fail "no ready line: $at"
cat >"$tmp/metrics.py" <<'PY'
import http.client, os, re, socket, subprocess, sys, time
from rawnbd import *
where, nbd, raidctl, control, member = sys.argv[1:]
host, port = where.split(":")
LABEL = r'[a-zA-Z_]\w*="(?:[^"\\\n]|\\["\\n])*"'
SAMPLE = re.compile(r'([a-zA-Z_:][\w:]*)(?:\{((?:%s)(?:,%s)*)\})? (-?[0-9.]+)' % (LABEL, LABEL))

def ask(path="/metrics", method="GET"):
    c = http.client.HTTPConnection(host, int(port), timeout=20)
    c.request(method, path)
    r = c.getresponse()
    body = r.read().decode()
    c.close()
    return r, body

def scrape():
    """Every sample by name and labels; the rules of the text format checked on the way."""
    r, body = ask()
    assert r.status == 200, r.status
    assert r.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert body.endswith("\n")
    found, types, helped, family = {}, {}, set(), None
    for line in body[:-1].split("\n"):
        if line.startswith("# HELP "):
            name = line.split(" ", 3)[2]
            assert name not in helped, line
            helped.add(name)
        elif line.startswith("# TYPE "):
            family, kind = line.split(" ")[2:]
            assert family in helped and family not in types and kind in ("gauge", "counter"), line
            types[family] = kind
            assert family.endswith("_total") == (kind == "counter"), line
        else:
            m = SAMPLE.fullmatch(line)
            assert m and m[1] == family and line.rsplit(" ", 1)[0] not in found, line
            found[line.rsplit(" ", 1)[0]] = float(m[3])
    return found

def until(what, ok):
    end = time.monotonic() + 20
    while not ok(scrape()):
        assert time.monotonic() < end, what

def total(s, name):
    return sum(v for k, v in s.items() if k.split("{")[0] == "nbd_raidd_" + name)

before = scrape()
assert before['nbd_raidd_array_degraded{array="mirror"}'] == 0
assert before['nbd_raidd_array_slots{array="mirror"}'] == 2
assert before['nbd_raidd_member_state{array="mirror",member="%s",state="in-sync"}' % member] == 1
assert any(k.startswith('nbd_raidd_array_info{array="mirror",level="raid1",uuid="') for k in before)
c = Client(nbd).go("mirror")
for i in range(4):
    c.ok(WRITE, i << 16, data=pattern(i, 1 << 16))
c.ok(FLUSH)
c.ok(READ, 0, 4096)
until("counters", lambda s: total(s, "loop_written_bytes_total") == total(before, "loop_written_bytes_total") + (4 << 16)
      and total(s, "loop_read_bytes_total") == total(before, "loop_read_bytes_total") + 4096
      and total(s, "loop_requests_total") == total(before, "loop_requests_total") + 6
      and total(s, "loop_sessions") == 1 and s["nbd_raidd_connections"] == 1
      and total(s, "member_written_bytes_total") >= 2 * (4 << 16)
      and total(s, "array_flush_rounds_total") > total(before, "array_flush_rounds_total")
      and total(s, "array_superblock_updates_total") > total(before, "array_superblock_updates_total"))
subprocess.run([raidctl, "fail", "--control=" + control, "mirror", member], check=True, stdout=subprocess.DEVNULL)
until("failed member", lambda s: s['nbd_raidd_array_degraded{array="mirror"}'] == 1
      and s['nbd_raidd_member_state{array="mirror",member="%s",state="faulty"}' % member] == 1
      and s['nbd_raidd_member_state{array="mirror",member="%s",state="in-sync"}' % member] == 0)

r, body = ask(method="HEAD")
assert r.status == 200 and body == ""
assert ask("/metrics?x=1")[0].status == 200
for path in ("/", "/metrics/", "/metricsx", "/../metrics", "/%00"):
    assert ask(path)[0].status == 404, path
for method in ("POST", "PUT", "DELETE", "BREW"):
    assert ask(method=method)[0].status in (400, 405, 413, 501), method

def sent(data):
    """What comes back to these bytes; the server closes in the end."""
    s = socket.create_connection((host, int(port)), timeout=20)
    out = b""
    try:
        s.sendall(data)
        s.shutdown(socket.SHUT_WR)
        while (got := s.recv(65536)):
            out += got
    except (BrokenPipeError, ConnectionResetError):
        pass
    s.close()
    return out

assert b" 200 " not in sent(os.urandom(100000))
assert b" 200 " not in sent(b"GET /metrics HTTP/1.1\r\nX: " + b"x" * (1 << 20) + b"\r\n\r\n")
assert b" 200 " not in sent(b"GET /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n" + bytes(100000))
for half in (b"", b"\r\n", b"GET", b"GET /metrics HTTP/1.1\r\n", b"\0" * 1000):
    sent(half)

# More connections than are served at once: the others wait, and come in when those leave.
GET = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
LIMIT = 16
ss = [socket.create_connection((host, int(port)), timeout=20) for _ in range(3 * LIMIT)]
for s in ss:
    s.sendall(GET)
waiting = list(ss)
while waiting:
    end = time.monotonic() + 20
    served = []
    while not served:
        assert time.monotonic() < end, "%d connections are never served" % len(waiting)
        for s in waiting:
            s.setblocking(False)
            try:
                assert s.recv(12) == b"HTTP/1.1 200"
                served.append(s)
            except BlockingIOError:
                pass
    assert len(served) <= LIMIT, len(served)
    waiting = [s for s in waiting if s not in served]
    for s in served:
        s.close()

c.ok(READ, 0, 4096)
kept = http.client.HTTPConnection(host, int(port), timeout=20)
for _ in range(3):
    kept.request("GET", "/metrics")
    assert kept.getresponse().read().startswith(b"# HELP")
c.disconnect()
print("kept", flush=True)
try:
    kept.sock.recv(1)  # the daemon's end
except OSError:
    pass
PY
python3 "$tmp/metrics.py" "$at" "$tmp/d.sock" "$BUILD/nbd-raidctl" "$tmp/d.ctl" "${m[1]}" >"$tmp/kept" &
client=$!
wait_for 90 eval "grep -q kept '$tmp/kept' || ! running $client"
grep -q kept "$tmp/kept" || fail "see above"
stop_raidd d
wait $client || fail "the client of the kept connection"
