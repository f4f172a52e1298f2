#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# "allow" and "connections" of an export: others do not see it in the list and are refused; one more client
# than allowed is refused, and may come when one has left, however that one ended.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"
requires nbdinfo --version
requires jq --version
requires_nbdsh
requires_build nbd-raidd

truncate -s 4M "$tmp/x.img"
cat >"$tmp/conf" <<CONF
listen = { "unix:$tmp/d.sock", "127.0.0.1:0" }
array x { build = linear members = { "$tmp/x.img" } }
export local { array = x allow = { unix } }
export me { array = x allow = { "unix:$(id -u)" } }
export other { array = x allow = { "unix:$(($(id -u) + 1))" } }
export net { array = x allow = { 127.0.0.0/8 } }
export far { array = x allow = { 127.0.0.10, 128.0.0.0/8 } }
export none { array = x allow = {} }
export two { array = x connections = 2 }
CONF
start_raidd d -c "$tmp/conf"
tcp=$(sed -n 's,^ready: \(nbd://[^/]*\)/.*,\1,p' "$tmp/d.log")

seen()
{
	nbdinfo --list --json "$1" | jq -r '.exports[]."export-name"' | tr '\n' ' '
}
[ "$(seen "nbd+unix:///?socket=$tmp/d.sock")" = "local me two " ]
[ "$(seen "$tcp/")" = "net two " ]
for name in local me two; do
	nbdinfo --size "$(uri d $name)" >/dev/null
done
nbdinfo --size "$tcp/net" >/dev/null
for where in "$(uri d other)" "$(uri d net)" "$(uri d none)" "$tcp/local" "$tcp/far" "$tcp/none"; do
	! nbdinfo --size "$where" >"$tmp/info.out" 2>&1 || fail "$where was let in"
	grep -q 'policy prevents' "$tmp/info.out" || fail "$where: $(cat "$tmp/info.out")"
done

cat >"$tmp/two.py" <<PY
import time
uri = "$(uri d two)"
def client():
    n = nbd.NBD()
    n.connect_uri(uri)
    return n
def refused():
    try:
        client()
    except nbd.Error as e:
        assert "policy prevents" in str(e), e
        return True
    return False
def comes_in():
    end = time.monotonic() + 30
    while time.monotonic() < end:
        try:
            return client()
        except nbd.Error:
            pass
    raise Exception("the slot did not come back")
a, b = client(), client()
assert refused()
a.shutdown()
a = comes_in()
assert refused()
del b
b = comes_in()
PY
nbdsh -c "exec(open('$tmp/two.py').read())"
