#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Several exports, one of them read-only, each with its own array; the list names them all; a wrong name is refused.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"
requires nbdinfo --version
requires_build nbd-raidd
truncate -s 1M "$tmp/x.img"
truncate -s 2M "$tmp/y.img"
start_raidd d --build "first:raid0:$tmp/x.img" --build "second:raid0:$tmp/y.img" --listen "unix:$tmp/d.sock"
[ "$(nbdinfo --size "$(uri d first)")" = 1048576 ]
[ "$(nbdinfo --size "$(uri d second)")" = 2097152 ]
expect 1 'third' nbdinfo --size "$(uri d third)"
expect 1 '.' nbdinfo --size "$(uri d)"
[ "$(nbdinfo --list "$(uri d)" | grep -c '^export=')" -eq 2 ]
