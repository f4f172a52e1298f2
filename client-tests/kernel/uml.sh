# shellcheck shell=bash disable=SC2154,SC2016
# SPDX-License-Identifier: BSD-3-Clause
#
# Run a script inside a real Linux kernel: User-Mode Linux boots with this machine's own tree as its
# read-only root, so that our programs, mdadm, nbd-client and mkfs run in it, with md and nbd as modules.
# Sourced after functions.sh by the kernel tests.
#
#   uml_run SECONDS FUNCTION
#   uml_cut SECONDS FUNCTION
#
# FUNCTION of the test runs in the guest as root, with all functions of the test and its list `arrays`, with `set -eu`
# and with $share (= $tmp/share of the host, writable there) as its current folder. Its exit status is uml_run's;
# what it prints is printed; when it fails, its variable $at says where.
# uml_cut runs it too, and when it is over kills the guest: a power cut.
#
# Guest helper: `loop N FILE` attaches FILE to /dev/loopN.

uml_boots=0

requires_uml()
{
	requires_root
	requires linux.uml
	requires mdadm
	requires modprobe --version
	requires ip -V
	[ -d /usr/lib/uml/modules ] || skip "needs the modules of the package user-mode-linux"
}

uml_says_where()
{
	[ $? -eq 0 ] || echo "fails at ${at:-the begin}"
}

# uml_script BODY END: what the guest runs as its first process
uml_script()
{
	local body=$1 end=$2
	mkdir -p "$tmp/share"
	rm -f "$tmp/share/.status"
	{
		cat <<-'GUEST'
			#!/bin/bash
			export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/run LC_ALL=C
			mount -t proc proc /proc && mount -t sysfs sys /sys && mount -t tmpfs tmp /run ||
				echo "guest: mount fails"
			export TMPDIR=/run/tmp
			mkdir -p /run/modroot/lib /run/share /run/mnt /run/tmp
			ln -s /usr/lib/uml/modules /run/modroot/lib/modules
			for m in loop nbd linear raid0 raid1 raid10 raid456 dm-mod; do
				modprobe -d /run/modroot $m || echo "guest: no module $m"
			done
			ln -s /proc/self/fd /dev/fd
			ip link set lo up
		GUEST
		printf 'share=/run/share\nmount -t hostfs none $share -o %q\n' "$tmp/share"
		printf 'top=%q BUILD=%q\n' "$top" "$BUILD"
		cat <<-'GUEST'
			cd $share
		GUEST
		declare -f
		declare -p arrays 2>/dev/null || :
		cat <<-'GUEST'
			loop() { losetup "/dev/loop$1" "$2"; }
			export MDADM_NO_UDEV=1
		GUEST
		printf '( set -eu -o pipefail; trap uml_says_where EXIT; %s )\necho $? >$share/.status\n' "$body"
		printf '%s\n' "$end"
	} >"$tmp/guest"
	chmod +x "$tmp/guest"
}

# uml_boot SECONDS: boot it; $uml_pid is over when it is. Its output goes to $tmp/uml.log.
uml_boot()
{
	uml_boots=$((uml_boots + 1))
	uml_id=t$$-$uml_boots
	# The kernel keeps its memory file in TMPDIR, its management socket in umid's folder: both in $tmp.
	HOME=$tmp TMPDIR=$tmp timeout -s KILL "$1" linux.uml mem=512M "umid=$uml_id" "uml_dir=$tmp" \
		root=/dev/root rootfstype=hostfs rootflags=/ ro "init=$tmp/guest" \
		con=null con0=null,fd:1 quiet </dev/null >"$tmp/uml.log" 2>&1 &
	uml_pid=$!
	cleanup_fn uml_kill
}

# It has a process group of its own, and helpers that would outlive it.
uml_kill()
{
	local pid
	if [ -s "$tmp/$uml_id/pid" ]; then
		pid=$(cat "$tmp/$uml_id/pid")
		# shellcheck disable=SC2046
		kill -KILL "$pid" $(ps -o pid= --ppid "$pid") 2>/dev/null || :
	fi
	wait "$uml_pid" 2>/dev/null || :
	rm -rf "${tmp:?}/$uml_id"
}

# uml_end: what the guest had to say; its status
uml_end()
{
	sed -e '/^SELinux:/d' -e '/^mmapper_init/d' -e '/wtmp record/d' -e '/^reboot:/d' -e '/Powering off/d' -e '/not on tmpfs/d' \
		-e '/^Failed to initialize ubd/d' \
		-e 's/^/guest| /' "$tmp/uml.log"
	[ -s "$tmp/share/.status" ] || fail "the guest did not reach its end in time"
	return "$(cat "$tmp/share/.status")"
}

uml_run()
{
	uml_script "$2" 'cd / && sync && halt -f -p 2>/dev/null'
	uml_boot "$1"
	wait "$uml_pid" || :
	uml_kill
	uml_end
}

uml_cut()
{
	uml_script "$2" 'while :; do read -r -t 10 <> <(:) || :; done'
	uml_boot "$1"
	until [ -s "$tmp/share/.status" ] || ! kill -0 "$uml_pid" 2>/dev/null; do
		pause
	done
	uml_kill
	uml_end
}
