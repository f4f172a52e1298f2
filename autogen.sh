#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Makes ./configure, after a look at the packages that the project needs.
#
#   ./autogen.sh                      names the missing Debian packages and stops, or makes configure
#   ./autogen.sh --install            installs what is missing first (as root, or through sudo)
#   ./autogen.sh [--install] GROUP…   looks at these groups of conf/debian-packages instead of "build"
#
# configure is optional: `make` alone builds with the defaults.

set -eu
cd "$(dirname "$0")"
list=conf/debian-packages

install=
groups=
for arg; do
	case $arg in
	--install) install=1 ;;
	-h | --help)
		sed -n '4,11s/^# \{0,1\}//p' "$0"
		exit 0
		;;
	-*)
		echo "autogen.sh: unknown option $arg (see --help)" >&2
		exit 2
		;;
	*)
		if ! grep -q "^${arg}[[:space:]]" $list; then
			echo "autogen.sh: no group '$arg' in $list" >&2
			exit 2
		fi
		groups="$groups $arg"
		;;
	esac
done

# Names of the packages in the groups asked for that dpkg does not have installed.
missing_packages() {
	awk -v groups="${groups:-build}" '
		BEGIN { n = split(groups, g); for (i = 1; i <= n; i++) want[g[i]] = 1 }
		/^#/ || NF < 2 { next }
		want[$1] && !seen[$2]++ { print $2 }' $list |
		while read -r package; do
			status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || :)
			[ "$status" = installed ] || echo "$package"
		done | tr '\n' ' '
}

if command -v dpkg-query >/dev/null; then
	missing=$(missing_packages)
	if [ -n "$missing" ] && [ -n "$install" ]; then
		sudo=
		if [ "$(id -u)" != 0 ]; then
			if ! command -v sudo >/dev/null; then
				echo "autogen.sh: not root and no sudo; as root run: apt-get install $missing" >&2
				exit 1
			fi
			sudo='sudo'
		fi
		echo "autogen.sh: installing $missing"
		# Not root's environment but the command's: sudo drops it otherwise.
		$sudo env DEBIAN_FRONTEND=noninteractive apt-get -q -y update
		# shellcheck disable=SC2086 # a list of words
		$sudo env DEBIAN_FRONTEND=noninteractive apt-get -q -y install \
			--no-install-recommends $missing </dev/null
		missing=$(missing_packages)
	fi
	if [ -n "$missing" ]; then
		echo "autogen.sh: missing Debian packages: $missing" >&2
		echo "autogen.sh: install them, or let autogen.sh do it: ./autogen.sh --install$groups" >&2
		exit 1
	fi
else
	echo "autogen.sh: not a Debian system, packages not looked at; configure checks the libraries"
fi

if [ -z "$(find configure -newer configure.ac 2>/dev/null)" ]; then
	if ! command -v autoconf >/dev/null; then
		echo "autogen.sh: autoconf not found" >&2
		exit 1
	fi
	autoconf -o configure configure.ac
	rm -rf autom4te.cache
	echo "autogen.sh: made configure; go on with ./configure (optional) and make"
fi
