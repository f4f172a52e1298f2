#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 600
# Arrays made and written by us, every level and layout: mdadm calls the superblocks correct, the kernel's md
# assembles them, reads the same bytes, also with as many members left out as the level allows, and its check
# finds no mismatch; what it then writes we read, also degraded.
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
random_file share/first $((32 << 20)) 1
for row in "${arrays[@]}"; do
	read -r name level layout chunk metadata bitmap sizes <<<"$row"
	dir=$share/$name
	# shellcheck disable=SC2086
	make_members "$dir" $sizes
	# shellcheck disable=SC2046
	raidctl create $(create_args "$level" "$layout" "$chunk" "$metadata" "$bitmap") --assume-clean --name=interop \
		"$dir"/m? >"$tmp/create.log" 2>&1 || fail "create $name: $(cat "$tmp/create.log")"
	for m in "$dir"/m?; do
		mdadm --examine "$m" >"$tmp/examine.log" 2>&1
		grep -q 'Checksum : .* correct' "$tmp/examine.log" ||
			fail "$name: mdadm does not call ${m##*/} correct: $(cat "$tmp/examine.log")"
	done
	# shellcheck disable=SC2016
	serve_run "$dir" --run "size=\$(nbdinfo --size \"\$uri\") && head -c \$size '$share/first' >'$dir/model' &&
		nbdcopy '$dir/model' \"\$uri\" && $(write_pieces "$dir/model" 1 60)" >"$tmp/serve.log" 2>&1 ||
		fail "serve $name: $(cat "$tmp/serve.log")"
done

guest()
{
	local row name level layout chunk metadata bitmap sizes set
	for row in "${arrays[@]}"; do
		# shellcheck disable=SC2034
		read -r name level layout chunk metadata bitmap sizes <<<"$row"
		at=$name
		attach "$name"
		for set in $(left_out "$level" "$layout" "${#devices[@]}"); do
			md_without "$set" "$name/model"
		done
		md_try --assemble /dev/md0 "${devices[@]}"
		md_is "$name/model"
		md_check
		pieces /dev/md0 "$name/model" 2 10 512
		detach
	done
}
uml_run 400 guest

for row in "${arrays[@]}"; do
	read -r name level layout chunk metadata bitmap sizes <<<"$row"
	dir=$share/$name
	for set in - $(left_out "$level" "$layout" "$(wc -w <<<"$sizes")"); do
		# shellcheck disable=SC2016,SC2046
		raidd --readonly --array "a:$(comma $(without "$set" "$dir"/m?))" --run "nbdcopy \"\$uri\" '$tmp/back'" \
			>"$tmp/serve.log" 2>&1 || fail "serve $name again, without $set: $(cat "$tmp/serve.log")"
		cmp "$tmp/back" "$dir/model" || fail "$name: we do not read what the kernel wrote, without $set"
		rm "$tmp/back"
	done
done
echo "${#arrays[@]} arrays"
