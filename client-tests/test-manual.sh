#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The manual of each program names every option that its --help names, and no other; nbd-raidctl's names
# every command.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"
requires_build nbd-raidd nbd-raidctl

# The long options in a text, one a line.
options()
{
	grep -oE -- '(^|[^-[:alnum:]])--[a-z][a-z0-9-]+' | grep -oE -- '--[a-z0-9-]+' | sort -u
}

# What the text describes: the items of its lists.
items()
{
	grep -E '^=item ' "$top/conf/$1.pod"
}

for program in nbd-raidd nbd-raidctl; do
	"$BUILD/$program" --help >"$tmp/help"
	options <"$tmp/help" >"$tmp/in-help"
	items "$program.8" | options >"$tmp/in-manual"
	comm -23 "$tmp/in-help" "$tmp/in-manual" >"$tmp/missing"
	[ ! -s "$tmp/missing" ] || fail "$program.8 does not describe: $(tr '\n' ' ' <"$tmp/missing")"
done

# The daemon's help is complete; raidctl's shows the commands, with the options that matter most.
"$BUILD/nbd-raidd" --help | options >"$tmp/in-help"
items nbd-raidd.8 | options | comm -13 "$tmp/in-help" - >"$tmp/unknown"
[ ! -s "$tmp/unknown" ] || fail "nbd-raidd --help does not know: $(tr '\n' ' ' <"$tmp/unknown")"

"$BUILD/nbd-raidctl" --help | sed -n 's/^  \([a-z][a-z-]*\) .*/\1/p' | while read -r command; do
	grep -qE "^=(item|head2) .*\b$command\b" "$top/conf/nbd-raidctl.8.pod" ||
		fail "nbd-raidctl.8 does not describe the command $command"
done
