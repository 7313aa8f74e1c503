#!/usr/bin/env bash
# source.sh PACKAGE: unpacks the source of a Debian package, with Debian's patches, into build/packaging/source/PACKAGE. Does nothing
# where it is there.
set -euo pipefail
cd "$(dirname "$0")/.."
package=${1:?usage: source.sh PACKAGE}
mkdir -p build/packaging/source
cd build/packaging/source
[ ! -d "$package" ] || exit 0
apt=$PWD/.apt
mkdir -p "$apt/lists/partial"
# The sources of this machine's release, without security updates, whose older files go away. Kept apart from the machine's own lists.
listed=/etc/apt/sources.list.d/debian.sources
if [ -e $listed ]; then
    awk 'BEGIN { RS = ""; ORS = "\n\n" } !/security/ { sub(/Types: deb/, "Types: deb-src"); print }' $listed >"$apt/deb-src.sources"
else
    sed '/security/d; s/^deb /deb-src /' /etc/apt/sources.list >"$apt/deb-src.list"
fi
get=(apt-get -q -o Dir::Etc::sourcelist="$(echo "$apt"/deb-src.*)" -o Dir::Etc::sourceparts=- -o Dir::State::lists="$apt/lists")
rm -rf "$apt/new"
mkdir "$apt/new"
{ compgen -G "$apt/lists/*_Sources" || "${get[@]}" update; } >"$apt/log" 2>&1 &&
    (cd "$apt/new" && "${get[@]}" source "$package") >>"$apt/log" 2>&1 || { tail -n 20 "$apt/log" >&2 && exit 1; }
mv "$apt"/new/*/ "$package"
