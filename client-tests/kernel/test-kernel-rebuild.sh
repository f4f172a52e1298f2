#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 300
# The real kernel client carries an ext4 on a RAID 5, and on a RAID 6 that loses two members at once, while files are written;
# spares are rebuilt meanwhile. fsck is clean, the files are intact after a restart of the daemon and read by the
# kernel's own md, whose check finds no mismatch.
# shellcheck source=../functions.sh
. "$(dirname "$0")/../functions.sh"
# shellcheck source=uml.sh
. "$(dirname "$0")/uml.sh"
# shellcheck source=arrays.sh
. "$(dirname "$0")/arrays.sh"
requires_uml
requires nbd-client -V
requires mkfs.ext4 -V
requires fsck.ext4 -V
requires jq --version
requires python3 --version
requires_build nbd-raidd nbd-raidctl

arrays=()

serve()
{
	rm -f /run/d.pid
	"$BUILD/nbd-raidd" --array "r:$(comma /run/a/m?)" --listen 127.0.0.1:10809 --pid-file=/run/d.pid --control=/run/d.ctl \
		--log-level=warning 2>>/run/d.log || { cat /run/d.log; return 1; }
	nbd-client 127.0.0.1 /dev/nbd0 -N r -C 2 >/run/n.log 2>&1 || { cat /run/n.log; return 1; }
}

unserve()
{
	local pid
	nbd-client -d /dev/nbd0 >/dev/null
	pid=$(cat /run/d.pid)
	kill -TERM "$pid"
	while kill -0 "$pid" 2>/dev/null; do
		pause
	done
}

status_is()
{
	"$BUILD/nbd-raidctl" status --json --control=/run/d.ctl | jq -e ".arrays[0] | $1" >/dev/null
}

# Files of many sizes, over and over, until told to end; then /run/sums has their checksums.
write_files()
{
	python3 - <<-'PY'
		import hashlib, os
		sums = {}
		i = 0
		while i < 60 or not os.path.exists("/run/enough"):
		    data = os.urandom(i % 40 * 9000 + 100)
		    name = f"/run/mnt/{i % 150}"
		    with open(name + ".new", "wb") as f:
		        f.write(data)
		        f.flush()
		        if i % 8 == 0:
		            os.fsync(f.fileno())
		    os.rename(name + ".new", name)
		    sums[name] = hashlib.sha256(data).hexdigest()
		    i += 1
		    if i == 20:
		        open("/run/begun", "w").close()
		with open("/run/sums", "w") as f:
		    for name, value in sums.items():
		        f.write(f"{value}  {name}\n")
	PY
}

files_intact()
{
	[ "$(cd /run/mnt && echo [0-9]* | wc -w)" -eq "$(wc -l </run/sums)" ]
	sha256sum --check --quiet /run/sums
}

guest()
{
	local level members victims victim writer n
	mkdir -p /run/a
	while read -r level members victims; do
		at="level $level"
		rm -f /run/a/* /run/enough /run/begun
		"$BUILD/nbd-raidctl" create "--level=$level" --sparse --assume-clean --file-size=20M \
			--spare-devices="$(wc -w <<<"$victims")" $(seq -f '/run/a/m%g' 0 $((members - 1))) >/run/c.log ||
			{ cat /run/c.log; return 1; }
		serve
		mkfs.ext4 -q /dev/nbd0
		mount /dev/nbd0 /run/mnt
		write_files &
		writer=$!
		until [ -e /run/begun ]; do pause; done
		for victim in $victims; do
			"$BUILD/nbd-raidctl" fail --control=/run/d.ctl r "/run/a/m$victim" >/run/c.log
		done
		until status_is '.degraded == 0'; do pause; done
		: >/run/enough
		wait $writer
		files_intact
		umount /run/mnt
		fsck.ext4 -fn /dev/nbd0 >/run/f.log 2>&1 || { cat /run/f.log; return 1; }
		unserve

		serve
		mount -o ro /dev/nbd0 /run/mnt
		files_intact
		umount /run/mnt
		unserve

		attach /run/a
		md_try --assemble /dev/md0 "${devices[@]}"
		[ "$(cat /sys/block/md0/md/degraded)" -eq 0 ]
		mount -o ro /dev/md0 /run/mnt
		files_intact
		umount /run/mnt
		md_check
		detach
	done <<-LEVELS
		5 5 1
		6 6 0 2
	LEVELS
}
uml_run 280 guest
