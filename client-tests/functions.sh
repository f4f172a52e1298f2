# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Helpers of the client tests, sourced first by every test-*.sh. A test promises one behaviour, exits 0 if
# it holds, 77 (with the reason on stdout) if it cannot run here, anything else if it fails. Every test has a
# folder of its own in $tmp, binds only unix sockets and loopback, never sleeps for a fixed time, and
# leaves nothing: what it starts is registered for cleanup when it is started.
#
# Environment: BUILD (folder of the programs, default build/ of the tree), LOOPS (data-plane loops of
# every daemon started, default 1), DIRECT (on, off, auto: default auto).

set -e -u -o pipefail

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
BUILD=${BUILD:-$top/build}
LOOPS=${LOOPS:-1}
DIRECT=${DIRECT:-auto}
# Another python3 in PATH may lack the nbd module that the distribution's has.
export PATH="/usr/bin:/usr/sbin:/sbin:$PATH"
export LC_ALL=C MALLOC_PERTURB_=$((RANDOM % 255 + 1))

tmp=$(mktemp -d "${TMPDIR:-/tmp}/nbd-raidd-test.XXXXXX")
cleanup_stack=()

# cleanup_fn COMMAND…: run it when the test ends, last registered first.
cleanup_fn()
{
	cleanup_stack+=("$(printf '%q ' "$@")")
}

run_cleanup()
{
	local status=$? i
	trap '' INT TERM
	set +e
	for ((i = ${#cleanup_stack[@]} - 1; i >= 0; i--)); do
		eval "${cleanup_stack[i]}" || { [ $status -ne 0 ] || status=1; }
	done
	if [ $status -ne 0 ] && [ $status -ne 77 ]; then
		for f in "$tmp"/*.log; do
			[ -s "$f" ] || continue
			echo "--- ${f##*/} (end)"
			tail -n 40 "$f"
		done
	fi
	rm -rf "$tmp"
	exit $status
}
trap run_cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

fail()
{
	echo "FAIL: $*" >&2
	exit 1
}

skip()
{
	echo "SKIP: $*"
	exit 77
}

# requires COMMAND [ARG…]: skip unless it succeeds. With one word: unless there is such a command.
requires()
{
	if [ $# -eq 1 ]; then
		command -v "$1" >/dev/null || skip "needs the program '$1'"
	else
		"$@" >/dev/null 2>&1 </dev/null || skip "needs '$*' to succeed"
	fi
}

requires_root()
{
	[ "$(id -u)" -eq 0 ] || skip "needs root"
}

requires_nbdsh()
{
	requires nbdsh
	requires nbdsh -c 'print(nbd.NBD().get_version())'
}

requires_build()
{
	local p
	for p in "$@"; do
		[ -x "$BUILD/$p" ] || fail "$BUILD/$p is not built: run make"
	done
}

# A pause too short to be what a test waits for; polling loops need one.
pause()
{
	read -r -t 0.02 <> <(:) || :
}

# wait_for SECONDS COMMAND…: poll until it succeeds; fail when the time is over.
wait_for()
{
	local end=$((SECONDS + $1))
	shift
	until "$@" >/dev/null 2>&1; do
		[ $SECONDS -lt $end ] || fail "waited in vain for: $*"
		pause
	done
}

raidctl()
{
	"$BUILD/nbd-raidctl" "$@"
}

# The daemon with the options every test wants; used as is for --run, -s and --check.
raidd()
{
	"$BUILD/nbd-raidd" --loops="$LOOPS" --direct="$DIRECT" --control=none "$@"
}

# start_raidd NAME ARG…: start a daemon, wait until it is ready. Its pid is then in $tmp/NAME.pid, its log in
# $tmp/NAME.log, its control socket is $tmp/NAME.ctl. It is stopped with TERM at the end of the test, must be
# gone within 60 s and must exit with status 0.
start_raidd()
{
	local name=$1
	shift
	rm -f "$tmp/$name.pid"
	"$BUILD/nbd-raidd" -f --loops="$LOOPS" --direct="$DIRECT" --control="$tmp/$name.ctl" \
		--pid-file="$tmp/$name.pid" "$@" >>"$tmp/$name.log" 2>&1 </dev/null &
	printf '%s\n' $! >"$tmp/$name.child"
	cleanup_fn stop_raidd "$name"
	wait_for 60 raidd_ready "$name"
	[ -s "$tmp/$name.pid" ] || {
		cat "$tmp/$name.log"
		fail "nbd-raidd did not start"
	}
}

# Alive and not a zombie.
running()
{
	local state
	state=$(ps -o stat= -p "$1" 2>/dev/null) || return 1
	[ "${state:0:1}" != Z ]
}

raidd_ready()
{
	[ -s "$tmp/$1.pid" ] || ! running "$(cat "$tmp/$1.child")"
}

# stop_raidd NAME [SIGNAL]: end it now; harmless if it has ended.
stop_raidd()
{
	local pid status=0 end=$((SECONDS + 60))
	[ -f "$tmp/$1.child" ] || return 0
	pid=$(cat "$tmp/$1.child")
	rm -f "$tmp/$1.child"
	kill "-${2:-TERM}" "$pid" 2>/dev/null || :
	while running "$pid" && [ $SECONDS -lt $end ]; do
		pause
	done
	if running "$pid"; then
		kill -KILL "$pid"
		echo "nbd-raidd ($1) did not leave within 60 s of its signal" >&2
		return 1
	fi
	wait "$pid" || status=$?
	if [ "${2:-TERM}" = KILL ]; then
		return 0
	fi
	[ $status -eq 0 ] || {
		echo "nbd-raidd ($1) exited with status $status" >&2
		return 1
	}
}

# members N SIZE [PREFIX]: make N sparse files $tmp/PREFIX0.img … and print their names.
members()
{
	local i prefix=${3:-m}
	for ((i = 0; i < $1; i++)); do
		rm -f "$tmp/$prefix$i.img"
		truncate -s "$2" "$tmp/$prefix$i.img"
		printf '%s\n' "$tmp/$prefix$i.img"
	done
}

# comma WORD…: WORD,WORD,…
comma()
{
	local IFS=,
	printf '%s' "$*"
}

# uri NAME [EXPORT]: of a daemon started with --listen unix:$tmp/NAME.sock
uri()
{
	printf 'nbd+unix:///%s?socket=%s' "${2:-}" "$tmp/$1.sock"
}

# random_file NAME BYTES [SEED]: pseudo-random content, the same for the same seed.
random_file()
{
	openssl enc -aes-128-ctr -pass "pass:${3:-1}" -nosalt -pbkdf2 -in /dev/zero 2>/dev/null |
		head -c "$2" >"$tmp/$1" || :
	[ "$(stat -c %s "$tmp/$1")" -eq "$2" ] || fail "random_file: short"
}

# expect STATUS PATTERN COMMAND…: the command must exit with STATUS and print a line matching PATTERN.
expect()
{
	local want=$1 pattern=$2 status=0
	shift 2
	"$@" >"$tmp/expect.out" 2>&1 </dev/null || status=$?
	[ $status -eq "$want" ] || {
		cat "$tmp/expect.out"
		fail "'$*' exited with $status, wanted $want"
	}
	grep -Eq -- "$pattern" "$tmp/expect.out" || {
		cat "$tmp/expect.out"
		fail "'$*' printed no line matching '$pattern'"
	}
}

# rawnbd_test ARG…: read a Python program with `from rawnbd import *` already done from stdin and run it against a
# captive daemon (raidd ARG… --run). Without ARG: one writable export `x` of 64 MiB.
rawnbd_test()
{
	requires python3
	requires_build nbd-raidd
	{
		printf 'from rawnbd import *\n'
		cat
	} >"$tmp/raw.py"
	if [ $# -eq 0 ]; then
		truncate -s 64M "$tmp/x.img"
		set -- --build "x:raid0:$tmp/x.img"
	fi
	BUILD="$BUILD" PYTHONPATH="$top/client-tests" PYTHONDONTWRITEBYTECODE=1 raidd "$@" --run "exec python3 '$tmp/raw.py'" ||
		fail "see above"
}

# fuse_member NAME SIZE [NBDKIT-ARG…]: a file $tmp/NAME/m whose I/O can be broken while the daemon uses it: nbdkit serves
# $tmp/NAME.img, nbdfuse shows it as a file. While $tmp/NAME.bad-read (bad-write) exists its reads (writes,
# zeroes) fail with EIO; member_hang NAME lets every operation hang, member_go NAME lets them go on.
fuse_member()
{
	local name=$1 dir=$tmp/$1
	truncate -s "$2" "$dir.img"
	shift 2
	requires_root
	requires [ -c /dev/fuse ]
	requires nbdkit --version
	requires nbdkit --dump-plugin file --filter=pause --filter=error
	requires nbdfuse --version
	mkdir "$dir"
	nbdkit -U "$dir.nbd" -P "$dir.nbdkit.pid" --filter=pause --filter=error file "$dir.img" \
		pause-control="$dir.pause" error-pread-rate=100% error-pread-file="$dir.bad-read" \
		error-pwrite-rate=100% error-pwrite-file="$dir.bad-write" \
		error-zero-rate=100% error-zero-file="$dir.bad-write" "$@"
	cleanup_fn eval "kill \$(cat '$dir.nbdkit.pid') 2>/dev/null || :"
	nbdfuse -P "$dir.nbdfuse.pid" "$dir/m" --unix "$dir.nbd" 2>"$dir.nbdfuse.log" &
	cleanup_fn wait_for 20 fuse_member_gone "$name"
	cleanup_fn eval "member_go '$name' 2>/dev/null || :"
	wait_for 20 [ -f "$dir/m" ]
}

fuse_member_gone()
{
	umount "$tmp/$1" 2>/dev/null || :
	! grep -q " $tmp/$1 " /proc/mounts
}

# pause_control NAME COMMAND ANSWER
pause_control()
{
	python3 -c "
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.sendall(sys.argv[2].encode())
assert s.recv(1) == sys.argv[3].encode()" "$tmp/$1.pause" "$2" "$3"
}

member_hang()
{
	pause_control "$1" p P
}

member_go()
{
	pause_control "$1" r R
}
