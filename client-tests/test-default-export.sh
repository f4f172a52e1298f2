#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The export of the empty name: the only one there is, or the configured default, else unknown.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"
requires nbdinfo --version
requires_build nbd-raidd
truncate -s 1M "$tmp/x.img" "$tmp/x2.img"
truncate -s 2M "$tmp/y.img"
start_raidd one --build "first:raid0:$tmp/x.img" --listen "unix:$tmp/one.sock"
[ "$(nbdinfo --size "$(uri one)")" = 1048576 ]
start_raidd two --build "first:raid0:$tmp/x2.img" --build "second:raid0:$tmp/y.img" --listen "unix:$tmp/two.sock"
expect 1 '.' nbdinfo --size "$(uri two)"
