#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 300
# The interop programs of libnbd (Debian source package libnbd), which start a foreign server themselves: by socket
# activation and on stdin/stdout; and its list-exports and structured-read programs.
# LIBNBD_SOURCE=DIR takes an unpacked source instead of fetching it.
# shellcheck source=../functions.sh
. "$(dirname "$0")/../functions.sh"
requires gcc
requires pkg-config --exists libnbd
requires_build nbd-raidd

if [ -n "${LIBNBD_SOURCE:-}" ]; then
	src=$LIBNBD_SOURCE
else
	requires dpkg-source --version
	src=$("$(dirname "$0")/fetch-source" libnbd "$tmp") || skip "${src#SKIP: }"
fi
: >"$tmp/config.h"

# interop NAME PROGRAM MACRO…: build PROGRAM of the source's interop folder with the macros and run it.
interop()
{
	local name=$1 program=$2
	shift 2
	gcc -w -I"$tmp" -I"$src/tests" -I"$src/interop" -I"$src/include" -I"$src/common/include" "$@" -o "$tmp/interop" \
		"$src/interop/$program.c" "$src/interop/requires.c" -lnbd >"$tmp/gcc.log" 2>&1 ||
		gcc -w -I"$tmp" -I"$src/tests" -I"$src/interop" -I"$src/include" -I"$src/common/include" "$@" \
			-o "$tmp/interop" "$src/interop/$program.c" "$src/tests/requires.c" -lnbd >"$tmp/gcc.log" 2>&1 ||
		fail "$program does not build: $(cat "$tmp/gcc.log")"
	(cd "$tmp" && ./interop) >"$tmp/interop.log" 2>&1 || {
		cat "$tmp/interop.log"
		fail "$name"
	}
	echo "ok: $name"
}

server="-DSERVER=\"$BUILD/nbd-raidd\""
options="\"--control=none\", \"--loops=$LOOPS\", \"--log-level=error\""
# The programs make a temporary file, put its name in the macro TMPFILE and serve it.
interop "interop, socket activation" interop -DNEEDS_TMPFILE=1 -DSOCKET_ACTIVATION=1 -DEXPORT_NAME='""' \
	"$server" "-DSERVER_PARAMS=$options, \"-f\", \"--build\", \"x:raid0\", \"--member\", TMPFILE"
interop "interop, stdin and stdout" interop -DNEEDS_TMPFILE=1 -DEXPORT_NAME='"x"' \
	"$server" "-DSERVER_PARAMS=$options, \"-s\", \"--build\", \"x:raid0\", \"--member\", TMPFILE"
