#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 600
# Arrays made and written by us, every level, layout and metadata version: mdadm calls the superblocks correct,
# the kernel's md assembles them, reads the same bytes, its check finds no mismatch; what it then
# writes we read.
# shellcheck source=../functions.sh
. "$(dirname "$0")/../functions.sh"
# shellcheck source=uml.sh
. "$(dirname "$0")/uml.sh"
# shellcheck source=arrays.sh
. "$(dirname "$0")/arrays.sh"
requires_uml
requires nbdcopy --version
requires nbdinfo --version
requires_build nbd-raidd nbd-raidctl

share=$tmp/share
mkdir -p "$share"
random_file share/first $((32 << 20)) 1
random_file share/second $((32 << 20)) 2
for row in "${arrays[@]}"; do
	read -r name level layout chunk metadata sizes <<<"$row"
	dir=$share/$name
	# shellcheck disable=SC2086
	make_members "$dir" $sizes
	# shellcheck disable=SC2046
	raidctl create $(create_args "$level" "$layout" "$chunk" "$metadata") --name=interop "$dir"/m? \
		>"$tmp/create.log" 2>&1 || fail "create $name: $(cat "$tmp/create.log")"
	for m in "$dir"/m?; do
		mdadm --examine "$m" >"$tmp/examine.log" 2>&1
		grep -q 'Checksum : .* correct' "$tmp/examine.log" ||
			fail "$name: mdadm does not call ${m##*/} correct: $(cat "$tmp/examine.log")"
	done
	# shellcheck disable=SC2016
	serve_run "$dir" --run "size=\$(nbdinfo --size \"\$uri\") && head -c \$size '$share/first' >'$dir/model' &&
		nbdcopy '$dir/model' \"\$uri\" && echo \$size" >"$tmp/serve.log" 2>&1 ||
		fail "serve $name: $(cat "$tmp/serve.log")"
	overlay_file "$dir/model" "$share/second"
done

guest()
{
	local row name
	for row in "${arrays[@]}"; do
		name=${row%% *}
		attach "$name"
		mdadm --assemble --readonly /dev/md0 "${devices[@]}" >/run/log 2>&1 || {
			cat /run/log
			echo "$name: the kernel does not assemble it"
			return 1
		}
		head -c "$(blockdev --getsize64 /dev/md0)" first | cmp - /dev/md0 || {
			echo "$name: the kernel reads other bytes"
			return 1
		}
		mdadm --readwrite /dev/md0 >/run/log 2>&1
		md_check || {
			echo "$name: the kernel's check"
			return 1
		}
		md_overlay second
		cmp "$name/model" /dev/md0 || {
			echo "$name: model"
			return 1
		}
		detach
	done
}
eval "guest_arrays() { $(declare -p arrays overlay_pieces | sed 's/^declare -a /local -a /'); guest; }"
uml_run 400 guest_arrays guest attach detach md_check md_overlay

for row in "${arrays[@]}"; do
	name=${row%% *}
	dir=$share/$name
	# shellcheck disable=SC2016
	serve_run "$dir" --run "nbdcopy \"\$uri\" '$tmp/back'" >"$tmp/serve.log" 2>&1 ||
		fail "serve $name again: $(cat "$tmp/serve.log")"
	cmp "$tmp/back" "$dir/model" || fail "$name: we do not read what the kernel wrote"
	rm "$tmp/back"
done
echo "${#arrays[@]} arrays"
