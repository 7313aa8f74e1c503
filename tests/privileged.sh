#!/usr/bin/env bash
# privileged.sh PROGRAM: a program with more rights than who started it (set-user-ID) does not read the library's variables: no log, and no
# file that FOVEA_LOG_SHAPES names. PROGRAM uses the default context. Skipped (77) where this is not root, or such programs do not work.
# shellcheck source=tests/support/sure.sh
. "$(dirname "$0")/support/sure.sh"
[ "$(id -u)" = 0 ] && command -v setpriv >/dev/null || { echo "SKIPPED: not root, or no setpriv" && exit 77; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
chmod 755 "$folder"
cp "$1" "$folder/program"
run() { # run PROGRAM: as nobody
    setpriv --reuid=65534 --regid=65534 --clear-groups env FOVEA_DEBUG=1 FOVEA_LOG_SHAPES="$folder/shapes" "$1" \
        >"$folder/out" 2>"$folder/err"
}
run "$folder/program"
has "$folder/err" '^fovea '
cp "$(command -v id)" "$folder/id"
chmod u+s "$folder/id" "$folder/program"
run "$folder/id"
grep -q 'euid=0' "$folder/out" || { echo "SKIPPED: set-user-ID has no effect here" && exit 77; }
run "$folder/program"
[ -s "$folder/out" ] || fail "the program prints nothing"
[ ! -s "$folder/err" ] && [ ! -e "$folder/shapes" ] || fail "variables had an effect: $(cat "$folder/err")"
