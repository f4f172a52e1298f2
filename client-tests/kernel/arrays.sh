# shellcheck shell=bash disable=SC2034,SC2154
# SPDX-License-Identifier: BSD-3-Clause
#
# The arrays that the interop tests make, by us and by mdadm with the same words, and what is done with them in
# the guest. Sourced after uml.sh.
#
# arrays=( "NAME LEVEL LAYOUT CHUNK-KiB METADATA BITMAP-CHUNK-KiB SIZE-MiB…" ), LAYOUT, CHUNK and BITMAP - for
# none, a size a member. Metadata versions and bitmaps go round, so that every level has each of them.
# $ARRAYS, a pattern, picks some by their names.

arrays=()
arrays_named=0
add_array()
{
	local name=$1 count=$arrays_named metadata bitmap=-
	local versions=(1.2 1.0 1.1) bitmaps=(64 - 256 16 -)
	metadata=${versions[count % 3]}
	case $name in
	linear* | raid0*) ;;
	*) bitmap=${bitmaps[count % 5]} ;;
	esac
	arrays_named=$((arrays_named + 1))
	[[ ! $name =~ ${ARRAYS:-.} ]] || arrays+=("$name $2 $3 $4 $metadata $bitmap ${*:5}")
}

add_array linear linear - - 6 5 8
add_array raid0 0 - 64 6 6 6
add_array raid0-original 0 original 64 5 8 6 8
add_array raid0-alternate 0 alternate 16 5 8 6 8
add_array raid1 1 - - 3 3
add_array raid1-3 1 - - 3 4 3
add_array raid1-odd 1 - - 3 3
add_array raid10-n2 10 n2 64 3 3 3 3
add_array raid10-n2-odd 10 n2 4 3 3 3 3 3
add_array raid10-n3 10 n3 64 3 3 3 3
add_array raid10-f2 10 f2 64 3 3 3
add_array raid10-f3 10 f3 16 3 3 3 3
add_array raid10-o2 10 o2 512 4 4 4 4 4
add_array raid4 4 - 64 3 3 3
add_array raid4-5 4 - 4 3 3 3 3 3
add_array raid5-2 5 left-symmetric 64 3 3
add_array raid5-la 5 left-asymmetric 16 3 3 3 3
add_array raid5-ra 5 right-asymmetric 64 3 3 3
add_array raid5-ls 5 left-symmetric 64 3 3 3 3
add_array raid5-ls-big 5 left-symmetric 512 4 4 4
add_array raid5-rs 5 right-symmetric 4 3 3 3 3 3
add_array raid5-pf 5 parity-first 128 3 3 3 3
add_array raid5-pl 5 parity-last 64 3 3 3
add_array raid6-la 6 left-asymmetric 64 3 3 3 3
add_array raid6-ra 6 right-asymmetric 4 3 3 3 3 3
add_array raid6-ls 6 left-symmetric 64 3 3 3 3 3
add_array raid6-rs 6 right-symmetric 128 3 3 3 3
add_array raid6-pf 6 parity-first 16 3 3 3 3 3
add_array raid6-pl 6 parity-last 64 3 3 3 3 3 3
add_array raid6-zr 6 ddf-zero-restart 64 3 3 3 3
add_array raid6-nr 6 ddf-N-restart 16 3 3 3 3 3
add_array raid6-nc 6 ddf-N-continue 512 4 4 4 4
add_array raid6-la6 6 left-asymmetric-6 4 3 3 3 3
add_array raid6-ra6 6 right-asymmetric-6 64 3 3 3 3 3
add_array raid6-ls6 6 left-symmetric-6 16 3 3 3 3 3 3
add_array raid6-rs6 6 right-symmetric-6 64 3 3 3 3
add_array raid6-pf6 6 parity-first-6 128 3 3 3 3 3

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

# create_args LEVEL LAYOUT CHUNK METADATA BITMAP: options in the words that mdadm and nbd-raidctl share.
create_args()
{
	printf -- '--level=%s --metadata=%s' "$1" "$4"
	[ "$2" = - ] || printf -- ' --layout=%s' "$2"
	[ "$3" = - ] || printf -- ' --chunk=%s' "$3"
	case $1 in
	linear | 0) ;;
	*) if [ "$5" = - ]; then printf -- ' --bitmap=none'; else printf -- ' --bitmap=internal --bitmap-chunk=%s' "$5"; fi ;;
	esac
}

# serve_run DIR COMMAND [ARG…]: the array of all members in DIR served while the command runs.
serve_run()
{
	local dir=$1
	shift
	raidd --array "a:$(comma "$dir"/m?)" "$@"
}

# write_pieces MODEL SEED COUNT: a command for serve_run that lays pieces over the array, of any length and place,
# and over its model.
write_pieces()
{
	printf -- 'python3 %q "$uri" %q %q %q' "$top/client-tests/kernel/pieces.py" "$@"
}

# left_out LEVEL LAYOUT MEMBERS: sets of members that a redundant array can do without, by number: "0" "1,2" …
left_out()
{
	local n=$3
	case $1 in
	1) echo "0 $((n - 1))" ;;
	4 | 5) echo "0 $((n - 1))" ;;
	6) echo "0,$((n - 1)) 1,2 $((n - 2))" ;;
	10) echo "0 $((n - 1))" ;;
	esac
}

# without SET WORD…: the words whose number is not in the set
without()
{
	local set=,$1, n=0 w
	shift
	for w; do
		[[ $set == *,$n,* ]] || printf '%s\n' "$w"
		n=$((n + 1))
	done
}

# ask NAME FILTER: does the array's status pass this jq filter?
ask()
{
	raidctl status --json --control="$tmp/$1.ctl" | jq -e ".arrays[0] | $2"
}

# pieces TARGET MODEL SEED COUNT …: see pieces.py
pieces()
{
	python3 "$top/client-tests/kernel/pieces.py" "$@"
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

# md_idle: wait until md has nothing more to do with /dev/md0
md_idle()
{
	while [ "$(cat /sys/block/md0/md/sync_action)" != idle ]; do
		read -r -t 0.02 <> <(:) || :
	done
}

# md_check: the kernel's own check must find no mismatch (levels with redundancy only).
md_check()
{
	local sys=/sys/block/md0/md
	[ -e $sys/sync_action ] || return 0
	md_idle
	echo check >$sys/sync_action
	md_idle
	[ "$(cat $sys/mismatch_cnt)" -eq 0 ] || {
		echo "mismatch_cnt is $(cat $sys/mismatch_cnt)"
		return 1
	}
}

# md_try WORD…: mdadm, whose words are shown only when it fails
md_try()
{
	mdadm "$@" >/run/log 2>&1 || {
		cat /run/log
		echo "fails: mdadm $*"
		return 1
	}
}

# md_is FILE: /dev/md0 has its bytes
md_is()
{
	dd if=/dev/md0 iflag=direct bs=4M status=none | cmp - "$1"
}

# md_without SET FILE: the array has the bytes of FILE also when it must do without these members. Nothing is written.
md_without()
{
	# shellcheck disable=SC2046
	md_try --assemble --readonly --run /dev/md0 $(without "$1" "${devices[@]}")
	md_is "$2" || {
		echo "without $1"
		return 1
	}
	md_try --stop /dev/md0
}

# md_whole: wait until every slot of /dev/md0 has a member in sync and nothing more is to be done
md_whole()
{
	local sys=/sys/block/md0/md end=$((SECONDS + 60))
	until [ "$(cat $sys/degraded)" -eq 0 ] && [ "$(cat $sys/sync_action)" = idle ] &&
		[ "$(cat $sys/resync_start)" = none ] && ! grep -qE 'replacement|want_' $sys/dev-*/state; do
		[ $SECONDS -lt $end ] || {
			cat /proc/mdstat
			grep . $sys/dev-*/state $sys/resync_start $sys/sync_action
			echo "does not become whole"
			return 1
		}
		read -r -t 0.05 <> <(:) || :
	done
}

# md_halfway: wait until the work of /dev/md0 has come as far as its sync_max allows
md_halfway()
{
	local sys=/sys/block/md0/md end=$((SECONDS + 60)) at
	until read -r at _ <$sys/sync_completed && [ "$at" = "$(cat $sys/sync_max)" ]; do
		[ $SECONDS -lt $end ] || {
			cat /proc/mdstat
			echo "sync_completed is $(cat $sys/sync_completed)"
			return 1
		}
		read -r -t 0.05 <> <(:) || :
	done
}
