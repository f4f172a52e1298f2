# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: BSD-3-Clause
#
# Sourced after functions.sh by the tests of nbd-raidctl examine.

# The "label : value" pairs of an --examine text, and the lines of the device table of metadata 0.90 without
# the names, which are guesses of the system it was printed on.
examine_pairs()
{
	sed -nE -e "s/ +\(local to host .*//" -e "s/^ *([A-Z][A-Za-z' ]*) : (.*)/\1=\2/p" \
		-e '/^ *(this|[0-9]+)( +[0-9]+){4} /{s/   [^ ]+$//;s/ +/ /g;s/ $//;p}' | sort
}

# agrees FILE…: examine says all that mdadm says, and beside it only what mdadm has no field for.
agrees()
{
	local m
	for m in "$@"; do
		mdadm --examine "$m" >"$tmp/theirs" || fail "mdadm --examine $m"
		raidctl examine "$m" >"$tmp/ours" || fail "examine $m"
		examine_pairs <"$tmp/theirs" >"$tmp/theirs.pairs"
		[ "$(wc -l <"$tmp/theirs.pairs")" -ge 15 ] || fail "$m: mdadm's text is not understood"
		examine_pairs <"$tmp/ours" | grep -vE '^(Feature|Resync Offset|Bad Blocks|Bitmap|Bitmap Chunk|Bitmap Events)=' >"$tmp/ours.pairs"
		comm -23 "$tmp/theirs.pairs" "$tmp/ours.pairs" >"$tmp/lacks"
		comm -13 "$tmp/theirs.pairs" "$tmp/ours.pairs" | grep '=' >"$tmp/more" || :
		[ ! -s "$tmp/lacks" ] && [ ! -s "$tmp/more" ] || {
			echo "$m: mdadm's:" && cat "$tmp/lacks"
			echo "ours:" && cat "$tmp/more"
			fail "examine and mdadm differ"
		}
	done
}
