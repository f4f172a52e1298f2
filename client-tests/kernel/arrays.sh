# shellcheck shell=bash disable=SC2034,SC2154
# SPDX-License-Identifier: BSD-3-Clause
#
# The arrays that the interop tests make, by us and by mdadm with the same words. Sourced after uml.sh.
#
# arrays=( "NAME LEVEL LAYOUT CHUNK-KiB METADATA SIZE-MiB…" ), LAYOUT and CHUNK - for none, a size a member.

arrays=()
for metadata in 1.0 1.1 1.2; do
	arrays+=(
		"linear-$metadata linear - - $metadata 6 5 8"
		"raid0-$metadata 0 - 64 $metadata 6 6 6"
		"raid0-original-$metadata 0 original 64 $metadata 5 8 6 8"
		"raid0-alternate-$metadata 0 alternate 16 $metadata 5 8 6 8"
		"raid1-$metadata 1 - - $metadata 6 6"
		"raid1-3-$metadata 1 - - $metadata 6 7 6"
		"raid10-n2-$metadata 10 n2 64 $metadata 6 6 6 6"
		"raid10-n2-odd-$metadata 10 n2 4 $metadata 6 6 6 6 6"
		"raid10-n3-$metadata 10 n3 64 $metadata 6 6 6 6"
		"raid10-f2-$metadata 10 f2 64 $metadata 6 6 6"
		"raid10-f3-$metadata 10 f3 16 $metadata 6 6 6 6"
		"raid10-o2-$metadata 10 o2 512 $metadata 6 6 6 6 6"
	)
done

# make_members DIR SIZE…: sparse files DIR/m0 …
make_members()
{
	local dir=$1 n=0 size
	shift
	mkdir -p "$dir"
	for size; do
		truncate -s "${size}M" "$dir/m$n"
		n=$((n + 1))
	done
}

# create_args LEVEL LAYOUT CHUNK METADATA: options in the words that mdadm and nbd-raidctl share.
create_args()
{
	printf -- '--level=%s --metadata=%s --assume-clean' "$1" "$4"
	[ "$2" = - ] || printf -- ' --layout=%s' "$2"
	[ "$3" = - ] || printf -- ' --chunk=%s' "$3"
}

# serve_run DIR COMMAND [ARG…]: the array of all members in DIR served while the command runs.
serve_run()
{
	local dir=$1
	shift
	raidd --array "a:$(comma "$dir"/m?)" "$@"
}

# Pieces to be written over an array: offset and length in bytes, any alignment down to a sector.
overlay_pieces=("0 4096" "61440 8192" "1048576 262144" "3141632 66048" "4193792 1024" "4456448 131072")

# overlay_file FILE SOURCE: lay the pieces of SOURCE over FILE, as a model of the array.
overlay_file()
{
	local piece
	for piece in "${overlay_pieces[@]}"; do
		# shellcheck disable=SC2086
		set -- "$1" "$2" $piece
		dd if="$2" of="$1" bs=512 skip=$(($3 / 512)) seek=$(($3 / 512)) count=$(($4 / 512)) \
			conv=notrunc status=none oflag=dsync
	done
}

# --- in the guest -----------------------------------------------------------------------------

# attach DIR: its members become /dev/loop0 …; their names are then in $devices.
attach()
{
	local m n=0
	devices=()
	for m in "$1"/m?; do
		loop $n "$m"
		devices+=("/dev/loop$n")
		n=$((n + 1))
	done
}

detach()
{
	local d
	mdadm --stop /dev/md0 >/dev/null 2>&1
	for d in "${devices[@]}"; do
		losetup -d "$d"
	done
}

# md_check: the kernel's own check must find no mismatch (levels with redundancy only).
md_check()
{
	local sys=/sys/block/md0/md
	[ -e $sys/sync_action ] || return 0
	mdadm --wait /dev/md0 >/dev/null 2>&1 || :
	echo check >$sys/sync_action
	mdadm --wait /dev/md0 >/dev/null 2>&1 || :
	[ "$(cat $sys/mismatch_cnt)" -eq 0 ] || {
		echo "mismatch_cnt is $(cat $sys/mismatch_cnt)"
		return 1
	}
}

# md_overlay SOURCE: write the pieces through /dev/md0, directly.
md_overlay()
{
	local piece offset length
	for piece in "${overlay_pieces[@]}"; do
		read -r offset length <<<"$piece"
		dd if="$1" of=/dev/md0 bs=512 skip=$((offset / 512)) seek=$((offset / 512)) \
			count=$((length / 512)) oflag=direct conv=notrunc status=none
	done
	blockdev --flushbufs /dev/md0
}
