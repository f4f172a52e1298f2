#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 600
# Arrays made by mdadm and written by the kernel, every level and layout: we read the same bytes, also with as many
# members left out as the level allows, and write others; the kernel reads those, and its check finds no
# mismatch.
# shellcheck source=../functions.sh
. "$(dirname "$0")/../functions.sh"
# shellcheck source=uml.sh
. "$(dirname "$0")/uml.sh"
# shellcheck source=arrays.sh
. "$(dirname "$0")/arrays.sh"
requires_uml
requires_nbdsh
requires nbdcopy --version
requires_build nbd-raidd

share=$tmp/share
mkdir -p "$share"
random_file share/first $((32 << 20)) 3
for row in "${arrays[@]}"; do
	read -r name level layout chunk metadata bitmap sizes <<<"$row"
	# shellcheck disable=SC2086
	make_members "$share/$name" $sizes
done

made()
{
	local row name level layout chunk metadata bitmap sizes
	for row in "${arrays[@]}"; do
		# shellcheck disable=SC2034
		read -r name level layout chunk metadata bitmap sizes <<<"$row"
		at=$name
		attach "$name"
		# shellcheck disable=SC2046
		md_try --create /dev/md0 --run --name=interop \
			$(create_args "$level" "$layout" "$chunk" "$metadata" "$bitmap") --assume-clean \
			--raid-devices=${#devices[@]} "${devices[@]}"
		head -c "$(blockdev --getsize64 /dev/md0)" first | tee "$name/model" |
			dd of=/dev/md0 bs=1M iflag=fullblock oflag=direct status=none
		detach
	done
}

checked()
{
	local row
	for row in "${arrays[@]}"; do
		at=${row%% *}
		attach "$at"
		md_try --assemble /dev/md0 "${devices[@]}"
		md_is "$at/model"
		md_check
		detach
	done
}

uml_run 400 made

for row in "${arrays[@]}"; do
	read -r name level layout chunk metadata bitmap sizes <<<"$row"
	dir=$share/$name
	for set in $(left_out "$level" "$layout" "$(wc -w <<<"$sizes")"); do
		# shellcheck disable=SC2016,SC2046
		raidd --readonly --array "a:$(comma $(without "$set" "$dir"/m?))" --run "nbdcopy \"\$uri\" '$tmp/back'" \
			>"$tmp/serve.log" 2>&1 || fail "serve $name without $set: $(cat "$tmp/serve.log")"
		cmp "$tmp/back" "$dir/model" || fail "$name: we do not read what the kernel wrote, without $set"
		rm "$tmp/back"
	done
	cp "$dir/model" "$dir/model.new"
	serve_run "$dir" --run "nbdcopy \"\$uri\" '$tmp/back' && $(write_pieces "$dir/model.new" 4 60)" \
		>"$tmp/serve.log" 2>&1 || fail "serve $name: $(cat "$tmp/serve.log")"
	cmp "$tmp/back" "$dir/model" || fail "$name: we do not read what the kernel wrote"
	rm "$tmp/back"
	mv "$dir/model.new" "$dir/model"
done

uml_run 400 checked
echo "${#arrays[@]} arrays"
