#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Where io_uring is forbidden, missing or out of memory, a start ends with one line that says what to do, and
# nothing is left behind.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"
export ASAN_OPTIONS=detect_leaks=0 # it cannot look for them under strace
requires strace -e trace=none true
requires_build nbd-raidd

truncate -s 4M "$tmp/x.img"
without()
{
	strace -f -e trace=io_uring_setup -e "inject=io_uring_setup:error=$1" -o /dev/null \
		"$BUILD/nbd-raidd" -f --log-level=error --build "x:linear:$tmp/x.img" --listen "unix:$tmp/s"
}
expect 1 '^refused: io_uring is not permitted here' without EPERM
[ "$(wc -l <"$tmp/expect.out")" -eq 1 ] || fail "more than one line"
expect 1 '^refused: the kernel has no io_uring' without ENOSYS
expect 1 '^refused: io_uring: .*LimitMEMLOCK' without ENOMEM
[ ! -e "$tmp/s" ] || fail "the socket stayed"
