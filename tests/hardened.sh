#!/usr/bin/env bash
# hardened.sh PROGRAM...: each was linked as a program at random addresses whose tables cannot be written once it runs, and has checks of
# the stack and of buffers. Skipped (77) where there is no readelf.
# shellcheck source=tests/support/sure.sh
. "$(dirname "$0")/support/sure.sh"
command -v readelf >/dev/null || { echo "SKIPPED: no readelf" && exit 77; }
found=$(mktemp)
trap 'rm -f "$found"' EXIT
for program in "$@"; do
    readelf -W -hld --dyn-syms "$program" >"$found"
    for pattern in '^ *Type: +DYN' '^ *GNU_RELRO' '(BIND_NOW|FLAGS_1.* NOW)' ' __stack_chk_fail@' ' __[a-z]+_chk@'; do
        grep -qE -- "$pattern" "$found" || fail "$program: no \"$pattern\" in what readelf -hld --dyn-syms prints"
    done
done
