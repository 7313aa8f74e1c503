# Shared by tests of a program by a shell script; sourced by it when it has set
#   name, program   as users know it, and the file to run
#   step, SCRATCH   the step's name, and a folder of its own, where it then is
# shellcheck shell=bash disable=SC2154
# shellcheck source=tests/support/sure.sh
. "$(dirname "${BASH_SOURCE[0]}")/sure.sh"
rm -rf "$SCRATCH" && mkdir -p "$SCRATCH" && cd "$SCRATCH"

# expect STATUS ARGUMENT...: runs, output to out and err; STATUS may be several, parted by |.
expect() {
    local status=0
    LC_ALL=$locale "$program" "${@:2}" >out 2>err || status=$?
    [[ "|$1|" == *"|$status|"* ]] || fail "status $status, not $1: $name ${*:2}"
}
# The program's table of options makes help, man page and completion (files of these names then): each option, of which
# there are $1 or more, is in all three.
one_table() {
    local page option
    expect 0 --help
    cp out help
    for page in man completion; do
        expect 0 "--$page"
        cp out "$page"
    done
    local count=0
    for option in $(sed -n 's/^  \(--[a-z-]*\) .*/\1/p' help); do
        has man "${option//-/\\\\-}"
        has completion "$option"
        count=$((count + 1))
    done
    [ $count -ge "$1" ] || fail "few options in --help"
    bash -n completion || fail "the completion is no script"
    expect 0 --version
}
# completes WORD WORDS...: WORD is the first that the completion offers at the end of the words.
completes() {
    # shellcheck disable=SC2034
    local COMP_WORDS=("${@:2}") COMP_CWORD=$(($# - 2))
    # shellcheck disable=SC1091
    . ./completion && "_${name//-/_}" && same "$1 is not completed" "${COMPREPLY[0]}" "$1"
}
