#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# examine tells what mdadm --examine tells, for every metadata version, in text, JSON and KEY=value.
# shellcheck source=functions.sh
. "$(dirname "$0")/functions.sh"
requires mdadm --version
requires jq --version
requires_build nbd-raidctl
for metadata in 1.0 1.1 1.2; do
	mapfile -t m < <(members 4 16M)
	raidctl create --level=10 --layout=o2 --chunk=128 --metadata=$metadata --name=vol "${m[@]}" >"$tmp/create.log" 2>&1 ||
		fail "$(cat "$tmp/create.log")"
	for f in "${m[@]}"; do
		mdadm --examine --export "$f" | sort >"$tmp/theirs"
		raidctl examine --export "$f" | sort >"$tmp/ours"
		while IFS='=' read -r key value; do
			grep -qxF "$key=$value" "$tmp/ours" || fail "$metadata: $key=$value, but $(grep "^$key=" "$tmp/ours")"
		done <"$tmp/theirs"
		raidctl examine --json "$f" | jq -e . >/dev/null || fail "no JSON"
		raidctl examine "$f" >"$tmp/text"
		grep -q correct "$tmp/text" && grep -q "offset=2" "$tmp/text"
	done
done
