# What tests of a program by a shell script have in common; sourced by test.sh of tune/ and examples/inspect/, which
# sets
#   name, program   as users know it, and the file to run
#   step, SCRATCH   the step's name, and a folder of its own, where it then is
# shellcheck shell=bash disable=SC2154
set -uo pipefail
rm -rf "$SCRATCH" && mkdir -p "$SCRATCH" && cd "$SCRATCH" || exit

fail() {
    printf '%s\n' "$*" >&2
    [ ! -f out ] || head -c 4000 out err >&2
    exit 1
}
# expect STATUS ARGUMENT...: runs, output to out and err; STATUS may be several, parted by |.
expect() {
    local status=0
    "$program" "${@:2}" >out 2>err || status=$?
    [[ "|$1|" == *"|$status|"* ]] || fail "status $status, not $1: $name ${*:2}"
}
has() { # has FILE PATTERN...: grep -E finds each
    local file=$1 pattern
    for pattern in "${@:2}"; do
        grep -qE -- "$pattern" "$file" || fail "no \"$pattern\" in $file"
    done
}
# The program's table of options makes help, man page and completion (files of these names then): each option, of which
# there are $1 or more, is in all three.
one_table() {
    local page option
    expect 0 --help
    cp out help
    for page in man completion; do
        expect 0 "$page"
        cp out "$page"
    done
    for option in $(sed -n 's/^  \(--[a-z-]*\) .*/\1/p' help); do
        has man "$(printf '%s' "$option" | sed 's/-/\\\\-/g')"
        has completion "$option"
    done
    [ "$(grep -c '^  --' help)" -ge "$1" ] || fail "few options in --help"
    bash -n completion || fail "the completion is no script"
    expect 0 --version
}
# completes WORD WORDS...: WORD is the first that the completion offers at the end of the words.
completes() {
    # shellcheck disable=SC2034
    local COMP_WORDS=("${@:2}") COMP_CWORD=$(($# - 2))
    # shellcheck disable=SC1091
    . ./completion && "_${name//-/_}" && [ "${COMPREPLY[0]}" = "$1" ] || fail "$1 is not completed"
}
