#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# nbdinfo sees the export: size, flags, one command per advertised bit, the list of exports in JSON.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"
requires nbdinfo --version
requires jq --version
requires_build nbd-raidd
truncate -s 5M "$tmp/x.img"
raidd --build "x:raid0:$tmp/x.img" --run 'set -e
[ "$(nbdinfo --size "$uri")" = 5242880 ]
for can in connect flush fua trim zero fast-zero df multi-conn cache structured-reply; do
	nbdinfo --can $can "$uri"
done
! nbdinfo --is read-only "$uri"
! nbdinfo --is tls "$uri"
nbdinfo --list --json "nbd+unix:///?socket=$unixsocket" >"'"$tmp"'/list.json"
nbdinfo --json "$uri" >"'"$tmp"'/info.json"
'
jq -e '.exports | length == 1 and .[0]."export-name" == "x" and .[0]."export-size" == 5242880' "$tmp/list.json" >/dev/null
jq -e '.exports[0].description | length > 0' "$tmp/list.json" >/dev/null
jq -e '.exports[0]."block_size_minimum" == 1' "$tmp/info.json" >/dev/null
raidd --readonly --build "x:raid0:$tmp/x.img" --run 'nbdinfo --is read-only "$uri" && nbdinfo --can multi-conn "$uri"'
