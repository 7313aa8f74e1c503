#!/usr/bin/env bash
# assembly_formats.sh SOURCE_DIR: assembles the kernels in assembly for each format of object files that they are written for,
# by clang, which can for any. Skipped (77) without clang.
# shellcheck source=tests/support/sure.sh
. "$(dirname "$0")/support/sure.sh"
source=$1
for name in clang-14 clang; do
    ! command -v $name >/dev/null || clang=${clang:-$name}
done
[ -n "${clang:-}" ] || {
    echo "SKIPPED: no clang to assemble for other systems"
    exit 77
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for target in x86_64-linux-gnu x86_64-apple-darwin x86_64-pc-windows-msvc; do
    for file in "$source"/kernels/*/*.S; do
        "$clang" -target $target -Werror -I"$source/kernels" -c "$file" -o "$work/object.o"
        [ "$(wc -c <"$work/object.o")" -gt 1000 ]
        echo "ok  $target  ${file##*/}"
    done
done
