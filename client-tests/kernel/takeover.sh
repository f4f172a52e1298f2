# shellcheck shell=bash disable=SC2034,SC2154
# SPDX-License-Identifier: BSD-3-Clause
#
# Work that one side begins and the other side ends: an array to rebuild, to resync, with a half-filled replacement,
# with a member that was away. Sourced after arrays.sh.
#
# arrays=( "NAME LEVEL LAYOUT MEMBERS WORK BITMAP-CHUNK-KiB" ); one more member, the last, is a spare where the
# work needs one.

arrays=()
for row in "mirror 1 - 2" "ten 10 n2 4" "far 10 f2 3" "five 5 left-symmetric 4" "four 4 - 3" "six 6 ddf-N-continue 5" \
	"six6 6 right-asymmetric-6 4"; do
	read -r name level layout n <<<"$row"
	for work in rebuild replace resync readd; do
		bitmap=64
		[ $work = readd ] || [ $((${#arrays[@]} % 2)) -eq 0 ] || bitmap=-
		case $name-$work in
		# The guest's kernel panics when it repairs a level 10; two layouts need not do everything.
		ten-resync | far-resync | far-replace | four-replace | four-resync | six6-replace | six6-readd) continue ;;
		esac
		[[ ! $name-$work =~ ${ARRAYS:-.} ]] || arrays+=("$name-$work $level $layout $n $work $bitmap")
	done
done

# has_spare WORK
has_spare()
{
	[ "$1" = rebuild ] || [ "$1" = replace ]
}

# takeover_members: the members of all arrays, $mib MiB each
takeover_members()
{
	local row name level layout n work bitmap
	for row in "${arrays[@]}"; do
		read -r name level layout n work bitmap <<<"$row"
		! has_spare "$work" || n=$((n + 1))
		# shellcheck disable=SC2046
		make_members "$share/$name" $(yes "$mib" | head -n "$n")
	done
}

# takeover_args LEVEL LAYOUT MEMBERS WORK BITMAP: how both sides create it. What is to be resynced is not known to be clean.
takeover_args()
{
	create_args "$1" "$2" "$([ "$1" = 1 ] && echo - || echo 64)" 1.2 "$5"
	[ "$4" = resync ] || printf ' --assume-clean'
	! has_spare "$4" || printf ' --spare-devices=1'
}

# begin NAME [LINE…]: serve the array $tmp/share/NAME, its array section having these lines too
begin()
{
	local name=$1 member
	shift
	{
		printf 'listen = { "unix:%s" }\narray a {\n\tmembers = { ' "$tmp/$name.sock"
		member=$(printf '"%s", ' "$tmp/share/$name"/m?)
		printf '%s }\n' "${member%, }"
		[ $# -eq 0 ] || printf '\t%s\n' "$@"
		printf '}\n'
	} >"$tmp/$name.conf"
	start_raidd "$name" -c "$tmp/$name.conf"
}

# tell NAME COMMAND WORD…: nbd-raidctl to the daemon of NAME
tell()
{
	local name=$1 command=$2
	shift 2
	raidctl "$command" --control="$tmp/$name.ctl" "$@" >"$tmp/tell.log" 2>&1 ||
		fail "$name: $command $*: $(cat "$tmp/tell.log")"
}
