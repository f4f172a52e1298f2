#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 200
# Kernel and nbd-raidd never hold the same member: what md, a mount or swap holds is refused with its name and
# what to do; md cannot take what nbd-raidd serves; after `claim` mdadm leaves the array alone.
# shellcheck source=../functions.sh
. "$(dirname "$0")/../functions.sh"
# shellcheck source=uml.sh
. "$(dirname "$0")/uml.sh"
requires_uml
requires mkfs.ext4 -V
requires mkswap --version
requires sfdisk --version
requires losetup
requires_build nbd-raidd nbd-raidctl

share=$tmp/share
mkdir -p "$share"
truncate -s 16M "$share/m0" "$share/m1" "$share/other"
raidctl create --level=1 --assume-clean --name=two "$share/m0" "$share/m1" >"$tmp/create.log"

# refused PATTERN COMMAND…
refuses()
{
	local pattern=$1 status=0
	shift
	"$BUILD/nbd-raidctl" "$@" >/run/out 2>&1 || status=$?
	if [ $status -ne 1 ] || ! grep -qE "^refused: .*$pattern" /run/out; then
		echo "$*: status $status, wanted a refusal with $pattern"
		cat /run/out
		return 1
	fi
}

guest()
{
	local cmd
	loop 0 m0
	loop 1 m1
	loop 2 other

	# md has it
	mdadm --assemble /dev/md0 /dev/loop0 /dev/loop1 >/run/log 2>&1 || { cat /run/log; return 1; }
	for cmd in "assemble" "assemble --readonly" "zero-superblock" "create --level=1 -ff"; do
		# shellcheck disable=SC2086
		refuses '/dev/loop0 .*/dev/md0;.*`mdadm --stop /dev/md0`' $cmd /dev/loop0 /dev/loop1
	done
	"$BUILD/nbd-raidctl" examine /dev/loop0 | grep -q 'Array State : AA'
	mdadm --stop /dev/md0 >/run/log 2>&1
	"$BUILD/nbd-raidctl" assemble /dev/loop0 /dev/loop1 >/run/log

	# we have it
	for cmd in "" --readonly; do
		# shellcheck disable=SC2086
		"$BUILD/nbd-raidd" $cmd --array two:/dev/loop0,/dev/loop1 --control=none --log-level=error --run \
			'if mdadm --assemble /dev/md0 /dev/loop0 /dev/loop1; then mdadm --stop /dev/md0; exit 9; fi' \
			>/run/log 2>&1 || { echo "md took what we serve ($cmd)"; cat /run/log; return 1; }
		grep -q busy /run/log
	done

	# a partition of it is mounted, or it is swap
	printf ',8M,L\n' | sfdisk -q /dev/loop2 2>/dev/null
	losetup -d /dev/loop2
	losetup -P /dev/loop2 other
	mkfs.ext4 -q /dev/loop2p1
	mount /dev/loop2p1 /run/mnt
	refuses '/dev/loop2 is mounted on /run/mnt \(as /dev/loop2p1\)' create --level=1 -ff /dev/loop2 missing
	refuses '/dev/loop2p1 is mounted' create --level=1 -ff /dev/loop2p1 missing
	umount /run/mnt
	losetup -d /dev/loop2
	loop 2 other
	mkswap -q -f /dev/loop2
	swapon /dev/loop2
	refuses '/dev/loop2 is used as swap' create --level=1 -ff /dev/loop2 missing
	swapoff /dev/loop2

	# claimed, mdadm leaves it; before that it takes it
	printf 'DEVICE /dev/loop0 /dev/loop1\n' >/run/mdadm.conf
	mdadm --incremental --run --config=/run/mdadm.conf /dev/loop0 >/run/log 2>&1
	refuses 'mdadm --stop' assemble /dev/loop0
	mdadm --stop --scan >/run/log 2>&1
	"$BUILD/nbd-raidctl" claim --config=/run/mdadm.conf /dev/loop0 >/run/log
	if mdadm --incremental --run --config=/run/mdadm.conf /dev/loop0 >/run/log 2>&1 ||
		mdadm --assemble --scan --config=/run/mdadm.conf >/run/log 2>&1; then
		echo "mdadm took a claimed array"
		return 1
	fi
	"$BUILD/nbd-raidctl" assemble /dev/loop0 /dev/loop1 >/run/log
	losetup -d /dev/loop0 /dev/loop1 /dev/loop2
}

uml_run 120 guest
