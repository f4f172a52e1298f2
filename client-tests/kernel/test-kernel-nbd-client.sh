#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 600
# The real kernel client attaches with one and with four connections, carries an ext4 through mkfs, writes,
# fstrim and fsck, detaches; what it wrote is on the array after a restart of the daemon, and the
# kernel's own md reads the same file system from our members.
# shellcheck source=../functions.sh
. "$(dirname "$0")/../functions.sh"
# shellcheck source=uml.sh
. "$(dirname "$0")/uml.sh"
requires_uml
requires nbd-client -V
requires mkfs.ext4 -V
requires fstrim --version
requires losetup
requires fsck.ext4 -V
requires_build nbd-raidd nbd-raidctl

serve()
{
	rm -f /run/d.pid
	"$BUILD/nbd-raidd" --array "r:$1" --listen 127.0.0.1:10809 --pid-file=/run/d.pid --control=none \
		--log-level=error 2>>/run/d.log || { cat /run/d.log; return 1; }
	[ -s /run/d.pid ]
}

unserve()
{
	local pid i
	pid=$(cat /run/d.pid)
	kill -TERM "$pid"
	for ((i = 0; i < 1500; i++)); do
		kill -0 "$pid" 2>/dev/null || return 0
		read -r -t 0.02 <> <(:) || :
	done
	echo "nbd-raidd does not leave"
	return 1
}

guest()
{
	local m n level members connections
	mkdir -p /run/a
	while read -r level members connections; do
		echo "== $level, $members members, -C $connections"
		rm -f /run/a/*
		m=()
		for ((n = 0; n < members; n++)); do
			truncate -s 48M "/run/a/m$n"
			m+=("/run/a/m$n")
		done
		# shellcheck disable=SC2086
		"$BUILD/nbd-raidctl" create --level=${level/,/ --layout=} --sparse --assume-clean "${m[@]}" >/run/c.log ||
			{ cat /run/c.log; return 1; }
		serve "$(IFS=,; echo "${m[*]}")"
		nbd-client 127.0.0.1 /dev/nbd0 -N r -C "$connections" >/run/n.log 2>&1 || { cat /run/n.log; return 1; }
		mkfs.ext4 -q /dev/nbd0
		mount /dev/nbd0 /run/mnt
		tar -C /usr/share -cf - bash-completion | tar -C /run/mnt -xf -
		head -c 8M /dev/urandom >/run/mnt/big
		rm -rf /run/mnt/bash-completion
		sync
		fstrim /run/mnt
		cp /run/mnt/big /run/mnt/big2
		sha256sum </run/mnt/big >/run/sum
		umount /run/mnt
		fsck.ext4 -fn /dev/nbd0 >/run/f.log 2>&1 || { cat /run/f.log; return 1; }
		nbd-client -d /dev/nbd0 >/dev/null
		unserve

		serve "$(IFS=,; echo "${m[*]}")"
		nbd-client 127.0.0.1 /dev/nbd0 -N r -C "$connections" >/run/n.log 2>&1
		mount -o ro /dev/nbd0 /run/mnt
		sha256sum </run/mnt/big2 | cmp - /run/sum
		umount /run/mnt
		nbd-client -d /dev/nbd0 >/dev/null
		unserve

		for ((n = 0; n < members; n++)); do
			loop $n "/run/a/m$n"
		done
		# shellcheck disable=SC2046
		mdadm --assemble --readonly /dev/md0 $(seq -f /dev/loop%g 0 $((members - 1))) >/run/m.log 2>&1 ||
			{ cat /run/m.log; return 1; }
		mount -o ro /dev/md0 /run/mnt
		sha256sum </run/mnt/big | cmp - /run/sum
		umount /run/mnt
		mdadm --stop /dev/md0 >/dev/null 2>&1
		for ((n = 0; n < members; n++)); do
			losetup -d "/dev/loop$n"
		done
	done <<-LEVELS
		1 2 1
		1 3 4
		10,n2 4 4
		10,f2 3 1
		10,o2 4 4
		0 3 4
		linear 2 1
	LEVELS
}

uml_run 400 guest
