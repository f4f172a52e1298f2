#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# qemu's client: qemu-img info, convert, compare, bench; qemu-io patterns with FUA, zero and discard; qemu-nbd --list.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"
requires qemu-img --version
requires qemu-io --version
requires qemu-nbd --version
requires_build nbd-raidd nbd-raidctl
mapfile -t m < <(members 4 32M)
raidctl create --level=10 --sparse "${m[@]}" >"$tmp/create.log" 2>&1 || fail "$(cat "$tmp/create.log")"
random_file data $((40 << 20))
raidd --array "a:$(comma "${m[@]}")" --run "set -e
qemu-img info \"\$uri\"
qemu-img convert -n -W -m 16 -f raw -O raw '$tmp/data' \"\$uri\"
qemu-img compare -f raw -F raw '$tmp/data' \"\$uri\" || [ \$? = 1 ]
qemu-io -f raw \"\$uri\" -c 'write -P 7 0 1M' -c 'write -f -P 8 333k 5k' -c 'read -vP 7 0 333k' -c 'read -P 8 333k 5k' \
	-c 'write -z 1M 3M' -c 'read -P 0 1M 3M' -c 'write -zu 8M 1M' -c 'read -P 0 8M 1M' -c 'discard 16M 4M' \
	-c 'write -zn 20M 64k' -c flush -c 'aio_write -P 9 24M 4M' -c 'aio_flush' -c 'read -P 9 24M 4M'
qemu-img bench -c 2000 -d 64 -f raw -t none -w \"\$uri\"
qemu-nbd --list -k \"\$unixsocket\"
" >"$tmp/run.log" 2>&1 || fail "see the log"
! grep -i 'verification failed\|Pattern' "$tmp/run.log" || fail "wrong bytes"
grep -q "export: 'a'" "$tmp/run.log"
