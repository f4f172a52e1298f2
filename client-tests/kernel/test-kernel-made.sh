#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 600
# Arrays made by mdadm and written by the kernel, every level, layout and metadata version: we read the same
# bytes and write others; the kernel reads those, and its check finds no mismatch.
# shellcheck source=../functions.sh
. "$(dirname "$0")/../functions.sh"
# shellcheck source=uml.sh
. "$(dirname "$0")/uml.sh"
# shellcheck source=arrays.sh
. "$(dirname "$0")/arrays.sh"
requires_uml
requires qemu-io --version
requires nbdcopy --version
requires_build nbd-raidd

share=$tmp/share
mkdir -p "$share"
random_file share/first $((32 << 20)) 3
random_file share/second $((32 << 20)) 4
for row in "${arrays[@]}"; do
	read -r name level layout chunk metadata sizes <<<"$row"
	# shellcheck disable=SC2086
	make_members "$share/$name" $sizes
done

made()
{
	local row name level layout chunk metadata sizes
	for row in "${arrays[@]}"; do
		read -r name level layout chunk metadata sizes <<<"$row"
		attach "$name"
		# shellcheck disable=SC2046
		mdadm --create /dev/md0 --run --name=interop $(create_args "$level" "$layout" "$chunk" "$metadata") \
			--raid-devices=${#devices[@]} "${devices[@]}" >/run/log 2>&1 || {
			cat /run/log
			echo "$name: mdadm does not make it"
			return 1
		}
		head -c "$(blockdev --getsize64 /dev/md0)" first | tee "$name/model" |
			dd of=/dev/md0 bs=1M iflag=fullblock oflag=direct status=none
		detach
	done
}

checked()
{
	local row name
	for row in "${arrays[@]}"; do
		name=${row%% *}
		attach "$name"
		mdadm --assemble /dev/md0 "${devices[@]}" >/run/log 2>&1 || {
			cat /run/log
			echo "$name: the kernel does not assemble it again"
			return 1
		}
		cmp "$name/model" /dev/md0 || {
			echo "$name: the kernel does not read what we wrote"
			return 1
		}
		md_check || {
			echo "$name: the kernel's check"
			return 1
		}
		detach
	done
}

with_arrays="$(declare -p arrays overlay_pieces | sed 's/^declare -a /local -a /')"
eval "guest_made() { $with_arrays; made; }"
eval "guest_checked() { $with_arrays; checked; }"
uml_run 400 guest_made made attach detach create_args

for row in "${arrays[@]}"; do
	name=${row%% *}
	dir=$share/$name
	commands=()
	for piece in "${overlay_pieces[@]}"; do
		read -r offset length <<<"$piece"
		dd if="$share/second" of="$dir/piece-$offset" bs=512 skip=$((offset / 512)) \
			count=$((length / 512)) status=none
		commands+=("-c 'write -s $dir/piece-$offset $offset $length'")
	done
	serve_run "$dir" --run "nbdcopy \"\$uri\" '$tmp/back' &&
		qemu-io -f raw \"\$uri\" ${commands[*]}" >"$tmp/serve.log" 2>&1 ||
		fail "serve $name: $(cat "$tmp/serve.log")"
	cmp "$tmp/back" "$dir/model" || fail "$name: we do not read what the kernel wrote"
	rm "$tmp/back"
	overlay_file "$dir/model" "$share/second"
done

uml_run 400 guest_checked checked attach detach md_check
echo "${#arrays[@]} arrays"
