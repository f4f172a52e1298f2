#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 200
# Bad-block logs, both ways. What md listed we do not read, and what is written there again leaves the list, for md too.
# What our rebuild could not recover, because another member was unreadable there, is listed: md answers an
# error where it has nothing else, and the right bytes once that member can be read again.
# shellcheck source=../functions.sh
. "$(dirname "$0")/../functions.sh"
# shellcheck source=uml.sh
. "$(dirname "$0")/uml.sh"
# shellcheck source=arrays.sh
. "$(dirname "$0")/arrays.sh"
requires_uml
requires_nbdsh
requires dmsetup --version
requires losetup --version
requires jq --version
requires nbdcopy --version
requires nbdinfo --version
requires_build nbd-raidd nbd-raidctl

share=$tmp/share
mkdir -p "$share"
random_file share/first $((16 << 20)) 1
arrays=()

# Sectors of a member's data that are bad, of 6 MiB that begin at sector 2048.
bad=4104 bad_sectors=16
eval "bad_range() { bad=$bad; bad_sectors=$bad_sectors; }"

raidd_run()
{
	"$BUILD/nbd-raidd" --control=none --log-level=error --array "a:$1" --run "$2" >/run/log 2>&1 || {
		cat /run/log
		echo "fails: nbd-raidd with $1"
		return 1
	}
}

listed()
{
	mdadm --examine-badblocks "$1" 2>&1
}

# md lists, we honour, write, unlist.
md_lists()
{
	local level=$1 layout=$2 n=$3 m
	at="md lists, level $level"
	# shellcheck disable=SC2046
	make_members lists $(yes 7 | head -n "$n")
	attach lists
	# shellcheck disable=SC2046
	md_try --create /dev/md0 --run --assume-clean --raid-devices="$n" \
		$(create_args "$level" "$layout" "$([ "$level" = 1 ] && echo - || echo 64)" 1.2 -) "${devices[@]}"
	head -c "$(blockdev --getsize64 /dev/md0)" first | tee lists/model |
		dd of=/dev/md0 bs=1M iflag=fullblock oflag=direct conv=fsync status=none
	echo "$bad $bad_sectors" >/sys/block/md0/md/dev-loop1/bad_blocks
	# The log goes to the disk with the next superblock.
	dd if=/dev/md0 of=/dev/md0 bs=4096 count=1 conv=notrunc,fsync oflag=direct status=none
	md_try --stop /dev/md0
	listed /dev/loop1 | grep -q "$bad for $bad_sectors sectors"
	dd if=/dev/zero of=/dev/loop1 bs=512 seek=$bad count=$bad_sectors conv=notrunc,fsync status=none

	raidd_run "$(comma "${devices[@]}")" "nbdcopy \"\$uri\" /run/back && cmp /run/back $share/lists/model"
	listed /dev/loop1 | grep -q "$bad for $bad_sectors sectors"
	raidd_run "$(comma "${devices[@]}")" "nbdcopy --flush $share/lists/model \"\$uri\""
	if listed /dev/loop1 | grep -q "$bad"; then
		listed /dev/loop1
		echo "still listed after a write"
		return 1
	fi
	md_try --assemble /dev/md0 "${devices[@]}"
	md_is lists/model
	md_check
	detach
	rm -r lists
}

# We list, md honours.
we_list()
{
	local level=$1 layout=$2 n=$3 m all sectors
	at="we list, level $level"
	# shellcheck disable=SC2046
	make_members ours $(yes 7 | head -n $((n + 1)))
	attach ours
	# shellcheck disable=SC2046
	"$BUILD/nbd-raidctl" create --force --assume-clean --spare-devices=1 \
		$(create_args "$level" "$layout" "$([ "$level" = 1 ] && echo - || echo 64)" 1.2 64) "${devices[@]}" >/run/log 2>&1 ||
		{ cat /run/log; return 1; }
	sectors=$(blockdev --getsz /dev/loop0)
	raidd_run "$(comma "${devices[@]}")" \
		"head -c \$(nbdinfo --size \"\$uri\") $share/first >$share/ours/model && nbdcopy --flush $share/ours/model \"\$uri\""
	dmsetup create --noudevrules --noudevsync weak <<-TABLE
		0 $bad linear /dev/loop0 0
		$bad $bad_sectors error
		$((bad + bad_sectors)) $((sectors - bad - bad_sectors)) linear /dev/loop0 $((bad + bad_sectors))
	TABLE
	all=$(comma /dev/dm-0 "${devices[@]:1}")
	"$BUILD/nbd-raidd" --control=/run/d.ctl --pid-file=/run/d.pid --log-level=error --listen=unix:/run/d.sock \
		--array "a:$all" >/run/log 2>&1 || { cat /run/log; return 1; }
	"$BUILD/nbd-raidctl" fail --control=/run/d.ctl a /dev/loop1 >/run/log 2>&1 ||
		{ cat /run/log; "$BUILD/nbd-raidctl" status --control=/run/d.ctl; return 1; }
	"$BUILD/nbd-raidctl" wait --control=/run/d.ctl a >/run/log 2>&1 || { cat /run/log; return 1; }
	"$BUILD/nbd-raidctl" status --json --control=/run/d.ctl |
		jq -e '.arrays[0] | .degraded == 0 and (.members | any(.bad_blocks > 0))' >/run/log || {
		"$BUILD/nbd-raidctl" status --control=/run/d.ctl
		return 1
	}
	m=$(cat /run/d.pid)
	kill -TERM "$m"
	while kill -0 "$m" 2>/dev/null; do pause; done
	dmsetup remove --noudevrules --noudevsync weak
	listed "/dev/loop$n" | grep -q "$bad for $bad_sectors sectors" || {
		listed "/dev/loop$n"
		echo "wanted $bad for $bad_sectors"
		return 1
	}
	# What was never copied is not to be read.
	openssl rand $((bad_sectors * 512)) | dd of="/dev/loop$n" bs=512 seek=$bad conv=notrunc,fsync status=none

	# Without the member that can be read again there is nothing there.
	# shellcheck disable=SC2046
	md_try --assemble --readonly --run /dev/md0 $(without 0,1 "${devices[@]}")
	if dd if=/dev/md0 of=/dev/null iflag=direct bs=64K status=none 2>/dev/null; then
		echo "md reads what we listed"
		return 1
	fi
	md_try --stop /dev/md0
	# shellcheck disable=SC2046
	md_try --assemble /dev/md0 $(without 1 "${devices[@]}")
	[ "$(cat /sys/block/md0/md/degraded)" -eq 0 ]
	md_is ours/model
	detach
	rm -r ours
}

guest()
{
	local bad bad_sectors
	bad_range
	md_lists 1 - 2
	md_lists 5 left-symmetric 3
	md_lists 10 n2 4
	we_list 1 - 2
	we_list 5 left-symmetric 3
}
uml_run 180 guest
