#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# An array that starts dirty is resynced from where its superblocks say: the first copy, which every read gives before and
# after, goes over the other; what lies below is not touched; then superblocks say so.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"
requires python3
requires_nbdsh
requires mdadm --version
requires_build nbd-raidd nbd-raidctl
resync_offset()
{
	od -A n -t u8 -j $((4096 + 208)) -N 8 "$1" | tr -d ' '
}
for offset in 0 8192; do
	mapfile -t m < <(members 2 16M)
	raidctl create --level=1 --assume-clean "${m[@]}" >"$tmp/create.log" 2>&1 || fail "$(cat "$tmp/create.log")"
	for f in "${m[@]}"; do
		python3 "$top/client-tests/superblock.py" "$f" resync_offset=$offset
	done
	# Different data on the two, below and past the offset (8192 sectors, 4 MiB; data begins at 1 MiB).
	head -c 1048576 /dev/zero | tr '\0' C | dd of="${m[1]}" bs=1M seek=2 conv=notrunc status=none
	head -c 1048576 /dev/zero | tr '\0' A | dd of="${m[0]}" bs=1M seek=9 conv=notrunc status=none
	head -c 1048576 /dev/zero | tr '\0' B | dd of="${m[1]}" bs=1M seek=9 conv=notrunc status=none
	start_raidd d --array "a:$(comma "${m[@]}")" --safe-mode-ms=50 --listen "unix:$tmp/d.sock"
	nbdsh -u "$(uri d a)" -c "
for i in range(64):
    got = bytes(h.pread(16384, (8 << 20) + 16384 * i))
    assert got == b'A' * 16384, got[:4]
h.pwrite(b'new ' * 1024, 12 << 20)
h.flush()
"
	synced()
	{
		! raidctl status --control="$tmp/d.ctl" a | grep -qi 'needs resync'
	}
	wait_for 30 synced
	raidctl self-check --control="$tmp/d.ctl" >/dev/null
	stop_raidd d
	rm -f "$tmp/d.log"
	for f in "${m[@]}"; do
		[ "$(resync_offset "$f")" = 18446744073709551615 ] || fail "the offset is $(resync_offset "$f")"
	done
	cmp -n 11534336 -i 5242880 "${m[0]}" "${m[1]}" || fail "copies differ after the resync"
	head -c 3145728 "${m[1]}" | tail -c 1048576 | grep -q C && c=yes || c=no
	[ "$offset" = 0 ] && want=no || want=yes
	[ "$c" = "$want" ] || fail "below the offset: $c instead of $want"
	raidd --readonly --array "a:${m[1]},${m[0]}" --run "nbdsh -u \"\$uri\" -c '
assert bytes(h.pread(4096, 8 << 20)) == b\"A\" * 4096
assert bytes(h.pread(4096, 12 << 20)) == b\"new \" * 1024'"
done
