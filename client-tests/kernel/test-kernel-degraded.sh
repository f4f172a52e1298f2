#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 400
# The kernel takes over what we left behind: an array that lost a member while we served it (the kernel reads the newer
# data, leaves the old member out, rebuilds onto it when told) and a mirror whose daemon was killed (the kernel
# resyncs it from the copy that we read); afterwards we serve both again.
# shellcheck source=../functions.sh
. "$(dirname "$0")/../functions.sh"
# shellcheck source=uml.sh
. "$(dirname "$0")/uml.sh"
# shellcheck source=arrays.sh
. "$(dirname "$0")/arrays.sh"
requires_uml
requires nbdcopy --version
requires nbdinfo --version
requires_nbdsh
requires_build nbd-raidd nbd-raidctl

share=$tmp/share
mkdir -p "$share"
random_file share/older $((16 << 20)) 5
random_file share/newer $((16 << 20)) 6

# The first member fails between the older and the newer content.
for row in "mirror 1 - 3" "ten 10 n2 4" "far 10 f2 3"; do
	read -r name level layout n <<<"$row"
	dir=$share/$name
	# shellcheck disable=SC2046
	make_members "$dir" $(yes 6 | head -n "$n")
	[ "$layout" = - ] && layout=
	raidctl create "--level=$level" ${layout:+"--layout=$layout"} --assume-clean "$dir"/m? >"$tmp/create.log" 2>&1 ||
		fail "create: $(cat "$tmp/create.log")"
	start_raidd "$name" --array "a:$(comma "$dir"/m?)" --listen "unix:$tmp/$name.sock"
	size=$(nbdinfo --size "$(uri "$name" a)")
	for content in older newer; do
		head -c "$size" "$share/$content" >"$tmp/content"
		nbdcopy --flush "$tmp/content" "$(uri "$name" a)"
		[ $content = newer ] || raidctl fail --control="$tmp/$name.ctl" a "$dir/m0"
	done
	stop_raidd "$name"
done

# A mirror that is killed while it is written to: its copies may differ.
dir=$share/killed
make_members "$dir" 6 6
raidctl create --level=1 --assume-clean "$dir"/m? >"$tmp/create.log" 2>&1 || fail "create: $(cat "$tmp/create.log")"
start_raidd killed --array "a:$(comma "$dir"/m?)" --volatile --listen "unix:$tmp/killed.sock"
nbdsh -u "$(uri killed a)" -c "
import os, random, signal
rng = random.Random(1)
for i in range(3000):
    buf = nbd.Buffer.from_bytearray(bytearray(rng.randbytes(4096)))
    h.aio_pwrite(buf, rng.randrange(1000) * 4096, completion=lambda err: 1)
    while h.aio_in_flight() > 32:
        h.poll(-1)
    if i % 200 == 199:
        h.flush()
os.kill($(cat "$tmp/killed.pid"), signal.SIGKILL)
"
stop_raidd killed KILL
# What we would read, without touching it.
serve_run "$dir" --readonly --run "nbdcopy \"\$uri\" '$dir/content'"

guest()
{
	local name d n
	for name in mirror ten far; do
		attach "$name"
		mdadm --assemble --run /dev/md0 "${devices[@]}" >/run/log 2>&1 || {
			cat /run/log
			return 1
		}
		[ "$(cat /sys/block/md0/md/degraded)" -eq 1 ] || {
			echo "$name: not degraded by one"
			return 1
		}
		! grep -q 'loop0\[' /proc/mdstat || {
			echo "$name: the failed member is used"
			return 1
		}
		head -c "$(blockdev --getsize64 /dev/md0)" newer | cmp - /dev/md0
		mdadm --zero-superblock /dev/loop0
		mdadm --add /dev/md0 /dev/loop0 >/run/log 2>&1
		mdadm --wait /dev/md0 || :
		[ "$(cat /sys/block/md0/md/degraded)" -eq 0 ]
		md_check
		detach
	done
	attach killed
	mdadm --assemble /dev/md0 "${devices[@]}" >/run/log 2>&1 || {
		cat /run/log
		return 1
	}
	cmp killed/content /dev/md0
	mdadm --readwrite /dev/md0 2>/dev/null || :
	mdadm --wait /dev/md0 || :
	md_check
	cmp killed/content /dev/md0
	detach
}
uml_run 300 guest attach detach md_check

for name in mirror ten far; do
	serve_run "$share/$name" --run "nbdcopy \"\$uri\" '$tmp/back'" >"$tmp/serve.log" 2>&1 ||
		fail "$name: not served after the kernel's rebuild"
	head -c "$(stat -c %s "$tmp/back")" "$share/newer" | cmp - "$tmp/back"
	rm "$tmp/back"
done
serve_run "$share/killed" --run "nbdcopy \"\$uri\" '$tmp/back'"
cmp "$tmp/back" "$share/killed/content"
