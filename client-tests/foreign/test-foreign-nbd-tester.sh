#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 600
# The tester client of the nbd project (Debian source package nbd), all seven modes: read, write, write with
# flush, oversized requests, handshake, and the two recorded request mixes. It speaks EXPORT_NAME and simple replies.
# NBD_SOURCE=DIR takes an unpacked source instead of fetching it.
# shellcheck source=../functions.sh
. "$(dirname "$0")/../functions.sh"
requires gcc
requires pkg-config --exists glib-2.0 gnutls
requires_build nbd-raidd

if [ -n "${NBD_SOURCE:-}" ]; then
	src=$NBD_SOURCE
else
	requires dpkg-source --version
	src=$("$(dirname "$0")/fetch-source" nbd "$tmp") || skip "${src#SKIP: }"
fi

cat >"$tmp/config.h" <<-'E'
	#define HAVE_GNUTLS 1
	#define HAVE_MKSTEMP 1
	#define VERSION "test"
	#define SIZEOF_UNSIGNED_LONG_INT 8
	#define SIZEOF_UNSIGNED_SHORT_INT 2
	#define SIZEOF_UNSIGNED_INT 4
	#define SIZEOF_UNSIGNED_LONG_LONG_INT 8
E
# shellcheck disable=SC2046
gcc -w -O1 -D_GNU_SOURCE -I"$tmp" -I"$src" -o "$tmp/tester" "$src/tests/run/nbd-tester-client.c" \
	"$src/cliserv.c" "$src/buffer.c" "$src/crypto-gnutls.c" \
	$(pkg-config --cflags --libs glib-2.0 gnutls) >"$tmp/gcc.log" 2>&1 ||
	fail "the tester does not build: $(cat "$tmp/gcc.log")"

# tester ARG…: against a fresh all-zero export.
tester()
{
	rm -f "$tmp/file"
	truncate -s 52M "$tmp/file"
	raidd --build "x:raid0:$tmp/file" --run "'$tmp/tester' -N x -u \"\$unixsocket\" $*" \
		>"$tmp/tester.log" 2>&1 || fail "nbd-tester-client $*: $(tail -n 5 "$tmp/tester.log")"
	echo "ok: nbd-tester-client $*"
}

tester
tester -w
tester -w -f
tester -o
tester -h
tester -i -t "$src/tests/run/integrity-test.tr"
tester -i -t "$src/tests/run/integrityhuge-test.tr"
