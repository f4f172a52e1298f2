#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 300
# The power of a machine is cut while its md writes to arrays, some members having got the last writes and others not:
# we read every sector old or new, resync what the bitmap (or its absence) tells, keep the bytes that we read;
# the kernel's check then finds no mismatch. Dirty and degraded parity arrays are refused.
# shellcheck source=../functions.sh
. "$(dirname "$0")/../functions.sh"
# shellcheck source=uml.sh
. "$(dirname "$0")/uml.sh"
# shellcheck source=arrays.sh
. "$(dirname "$0")/arrays.sh"
requires_uml
requires_nbdsh
requires nbdcopy --version
requires jq --version
requires losetup --version
requires python3 --version
requires_build nbd-raidd nbd-raidctl

share=$tmp/share
mkdir -p "$share"
random_file share/first $((32 << 20)) 1

# NAME LEVEL LAYOUT MEMBERS BITMAP-CHUNK-KiB: all of them are written to when the power is cut.
arrays=(
	"mirror 1 - 3 64"
	"mirror-all 1 - 2 -"
	"four 4 - 3 64"
	"five 5 left-symmetric 4 64"
	"five-all 5 right-asymmetric 3 -"
	"six 6 left-symmetric 5 64"
	"six-all 6 ddf-N-restart 4 -"
	"degraded 1 - 3 64"
	"degraded5 5 left-symmetric 4 64"
	"degraded6 6 left-symmetric 4 -"
)
for row in "${arrays[@]}"; do
	read -r name level layout n bitmap <<<"$row"
	# shellcheck disable=SC2046
	make_members "$share/$name" $(yes 6 | head -n "$n")
done

guest()
{
	local row name level layout n bitmap m md=0 next=0 devices
	for row in "${arrays[@]}"; do
		read -r name level layout n bitmap <<<"$row"
		at=$name
		devices=()
		for m in "$name"/m?; do
			losetup /dev/loop$next "$m" 2>/dev/null ||
				{ mknod /dev/loop$next b 7 $next && loop $next "$m"; }
			devices+=("/dev/loop$next")
			next=$((next + 1))
		done
		# shellcheck disable=SC2046
		md_try --create "/dev/md$md" --run --assume-clean --raid-devices="$n" \
			$(create_args "$level" "$layout" "$([ "$level" = 1 ] && echo - || echo 64)" 1.2 "$bitmap") "${devices[@]}"
		head -c "$(blockdev --getsize64 "/dev/md$md")" first | tee "$name/old" |
			dd of="/dev/md$md" bs=1M iflag=fullblock oflag=direct conv=fsync status=none
		[[ $name != degraded* ]] || md_try "/dev/md$md" --fail "${devices[0]}"
		cp "$name/old" "$name/new"
		md=$((md + 1))
	done
	md=0
	for row in "${arrays[@]}"; do
		name=${row%% *}
		at=$name
		# Stay dirty; the last writes reach the disks of the first members only.
		echo 1000 >"/sys/block/md$md/md/safe_mode_delay"
		pieces "/dev/md$md" "$name/new" 7 12 512 no-sync
		sync -d "$name/m0" "$name/m1"
		md=$((md + 1))
	done
}
uml_cut 120 guest

# mixed OLD NEW FILE: is every sector of it that of one or the other?
mixed()
{
	python3 - "$@" <<'PY'
import sys
old, new, is_ = (open(n, "rb").read() for n in sys.argv[1:])
assert len(old) == len(new) == len(is_)
differ = 0
for i in range(0, len(is_), 512):
    s = is_[i:i + 512]
    assert s in (old[i:i + 512], new[i:i + 512]), f"sector {i // 512} is neither old nor new"
    differ += s != old[i:i + 512]
print(differ, "sectors are new")
PY
}

# torn FILE…: do the members disagree, all of them together being redundant by xor?
torn()
{
	python3 - "$@" <<'PY'
import sys
total = 0
for name in sys.argv[1:]:
    with open(name, "rb") as f:
        f.seek(1 << 20)  # where data begin
        total ^= int.from_bytes(f.read(), "little")
sys.exit(0 if total else 1)
PY
}

torn=0
for row in "${arrays[@]}"; do
	read -r name level layout n bitmap <<<"$row"
	dir=$share/$name
	if [[ $name = mirror-all ]] || [[ $level = [45] ]]; then
		! torn "$dir"/m? || torn=$((torn + 1))
	fi
	mdadm --examine "$dir/m1" >"$tmp/examine.log"
	grep -q 'State : active' "$tmp/examine.log" || fail "$name: not dirty"
	if [[ $name = degraded[56] ]]; then
		expect 1 'refused: .*degraded' raidd --array "a:$(comma "$dir"/m?)" --run true
		continue
	fi
	raidd --readonly --array "a:$(comma "$dir"/m?)" --run "nbdcopy \"\$uri\" '$dir/model'" >"$tmp/serve.log" 2>&1 ||
		fail "$name: $(cat "$tmp/serve.log")"
	mixed "$dir/old" "$dir/new" "$dir/model" >"$tmp/mixed.log" 2>&1 || fail "$name: $(cat "$tmp/mixed.log")"
	start_raidd "$name" --array "a:$(comma "$dir"/m?)" --listen "unix:$tmp/$name.sock"
	pieces "$(uri "$name" a)" "$dir/model" 3 1
	wait_for 60 ask "$name" '.needs_resync | not'
	nbdcopy "$(uri "$name" a)" "$tmp/back"
	cmp "$tmp/back" "$dir/model" || fail "$name: other bytes after the resync"
	rm "$tmp/back"
	stop_raidd "$name"
done

[ $torn -gt 0 ] || fail "the cut tore nothing: nothing was tested"

checked()
{
	local row name
	for row in "${arrays[@]}"; do
		name=${row%% *}
		at=$name
		[[ $name != degraded[56] ]] || continue
		attach "$name"
		md_try --assemble --run /dev/md0 "${devices[@]}"
		md_is "$name/model"
		md_check
		detach
	done
}
uml_run 120 checked
echo "${#arrays[@]} arrays, $torn of 5 torn for all to see"
