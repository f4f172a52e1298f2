#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 400
# The kernel takes over what we left behind: an array that lost a member while we served it (the kernel reads the newer
# data, leaves the old member out, rebuilds onto it when told) and arrays whose daemon was killed (the kernel resyncs
# them, a mirror from the copy that we read); afterwards we serve all of them again.
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
for row in "mirror 1 - 3" "ten 10 n2 4" "far 10 f2 3" "five 5 - 4" "six 6 ddf-zero-restart 5"; do
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

# Daemons that are killed while their arrays are written to: copies, or data and parity, may differ.
while read -r name level n; do
	dir=$share/$name
	# shellcheck disable=SC2046
	make_members "$dir" $(yes 6 | head -n "$n")
	raidctl create "--level=$level" --assume-clean "$dir"/m? >"$tmp/create.log" 2>&1 ||
		fail "create: $(cat "$tmp/create.log")"
	start_raidd "$name" --array "a:$(comma "$dir"/m?)" --volatile --listen "unix:$tmp/$name.sock"
	nbdsh -u "$(uri "$name" a)" -c "
import os, random, signal
rng = random.Random(1)
for i in range(3000):
    buf = nbd.Buffer.from_bytearray(bytearray(rng.randbytes(4096)))
    h.aio_pwrite(buf, rng.randrange(1000) * 4096, completion=lambda err: 1)
    while h.aio_in_flight() > 32:
        h.poll(-1)
    if i % 200 == 199:
        h.flush()
os.kill($(cat "$tmp/$name.pid"), signal.SIGKILL)
"
	stop_raidd "$name" KILL
	# What we would read, without touching it.
	serve_run "$dir" --readonly --run "nbdcopy \"\$uri\" '$dir/content'"
done <<-KILLED
	killed1 1 2
	killed5 5 4
	killed6 6 4
KILLED

guest()
{
	local name n
	for name in mirror ten far five six; do
		at=$name
		attach "$name"
		md_try --assemble --run /dev/md0 "${devices[@]}"
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
		md_try --add /dev/md0 /dev/loop0
		md_whole
		md_check
		detach
	done
	for name in killed1 killed5 killed6; do
		at=$name
		attach "$name"
		md_try --assemble /dev/md0 "${devices[@]}"
		md_is "$name/content"
		mdadm --readwrite /dev/md0 2>/dev/null || :
		md_whole
		md_check
		md_is "$name/content"
		detach
	done
}
uml_run 300 guest

for name in mirror ten far five six; do
	serve_run "$share/$name" --run "nbdcopy \"\$uri\" '$tmp/back'" >"$tmp/serve.log" 2>&1 ||
		fail "$name: not served after the kernel's rebuild"
	head -c "$(stat -c %s "$tmp/back")" "$share/newer" | cmp - "$tmp/back"
	rm "$tmp/back"
done
for name in killed1 killed5 killed6; do
	serve_run "$share/$name" --run "nbdcopy \"\$uri\" '$tmp/back'"
	cmp "$tmp/back" "$share/$name/content"
	rm "$tmp/back"
done
