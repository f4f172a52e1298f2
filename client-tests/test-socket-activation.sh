#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Socket activation: libnbd passes a listening socket (LISTEN_FDS); no other listener is opened.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"
requires_nbdsh
requires_build nbd-raidd
truncate -s 1M "$tmp/x.img"
nbdsh -c "
h.connect_systemd_socket_activation(['$BUILD/nbd-raidd', '-f', '--control=none', '--loops=$LOOPS',
    '--build', 'x:raid0:$tmp/x.img'])
assert h.get_size() == 1 << 20
h.pwrite(b'a' * 512, 0)
assert h.pread(512, 0) == b'a' * 512
h.shutdown()
"
