# shellcheck shell=bash disable=SC2154,SC2016
# SPDX-License-Identifier: BSD-3-Clause
#
# Run a script inside a real Linux kernel: User-Mode Linux boots with this machine's own tree as its
# read-only root, so that our programs, mdadm, nbd-client and mkfs run in it, with md and nbd as modules.
# Sourced after functions.sh by the kernel tests.
#
#   uml_run SECONDS FUNCTION [HELPER…]
#
# FUNCTION of the test runs in the guest as root, with the HELPER functions it calls, with `set -eu` and with
# $share (= $tmp/share of the host, writable there) as its current folder. Its exit status is uml_run's; what it
# prints is printed.
#
# Guest helpers: `loop N FILE` attaches FILE to /dev/loopN; `md_sha DEVICE` prints the content's sha256.

requires_uml()
{
	requires_root
	requires linux.uml
	requires mdadm
	requires modprobe --version
	requires ip -V
	[ -d /usr/lib/uml/modules ] || skip "needs the modules of the package user-mode-linux"
}

uml_run()
{
	local seconds=$1 body=$2 status
	shift
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
			for m in loop nbd linear raid0 raid1 raid10; do
				modprobe -d /run/modroot $m || echo "guest: no module $m"
			done
			ln -s /proc/self/fd /dev/fd
			ip link set lo up
		GUEST
		printf 'share=/run/share\nmount -t hostfs none $share -o %q\n' "$tmp/share"
		printf 'top=%q BUILD=%q\n' "$top" "$BUILD"
		cat <<-'GUEST'
			cd $share
			loop() { losetup "/dev/loop$1" "$2"; }
			md_sha() { blockdev --flushbufs "$1"; sha256sum <"$1" | cut -d' ' -f1; }
		GUEST
		declare -f "$@"
		printf '( set -eu -o pipefail; %s )\n' "$body"
		cat <<-'GUEST'
			echo $? >$share/.status
			cd /
			sync
			halt -f -p 2>/dev/null
		GUEST
	} >"$tmp/guest"
	chmod +x "$tmp/guest"
	# The kernel keeps its memory file in TMPDIR, its management socket in umid's folder: both in $tmp.
	HOME=$tmp TMPDIR=$tmp timeout "$seconds" linux.uml mem=512M "umid=t$$" "uml_dir=$tmp" \
		root=/dev/root rootfstype=hostfs rootflags=/ ro "init=$tmp/guest" \
		con=null con0=null,fd:1 quiet </dev/null >"$tmp/uml.log" 2>&1 || :
	sed -e '/^SELinux:/d' -e '/^mmapper_init/d' -e '/wtmp record/d' -e '/^reboot:/d' -e '/Powering off/d' -e '/not on tmpfs/d' \
		-e '/^Failed to initialize ubd/d' \
		-e 's/^/guest| /' "$tmp/uml.log"
	[ -s "$tmp/share/.status" ] || fail "the guest did not reach its end within $seconds s"
	status=$(cat "$tmp/share/.status")
	return "$status"
}
