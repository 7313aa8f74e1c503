# Sourced first by each test that is a shell script, so that nothing passes that was not looked at. The test fails where
# a command fails unasked, a variable is not set, or a command is not there: in a pipe, a condition, or behind "!", too.
# shellcheck shell=bash
set -Eeuo pipefail
trap 'exit 1' TERM
trap 'printf "%s, line %s: status %s\n" "${BASH_SOURCE[0]}" "$LINENO" "$?" >&2' ERR
command_not_found_handle() { # bash calls it in a process of its own
    printf 'the test calls %s, which is not there\n' "$1" >&2
    kill -TERM $$
    exit 127
}
locale=${LC_ALL-} # the user's: programs that are tested have it (program.sh); patterns, sort and printf do not
export LC_ALL=C

fail() {
    printf '%s\n' "$*" >&2
    [ ! -f out ] || head -c 4000 out >&2
    [ ! -f err ] || head -c 4000 err >&2
    exit 1
}
has() { # has FILE PATTERN...: grep -E finds each
    local file=$1 pattern
    for pattern in "${@:2}"; do
        grep -qE -- "$pattern" "$file" || fail "no \"$pattern\" in $file"
    done
}
lacks() { # lacks FILE PATTERN...: grep -E finds none in a file that has something
    local file=$1 pattern status
    [ -s "$file" ] || fail "$file is empty, or not there"
    for pattern in "${@:2}"; do
        status=0
        grep -qE -- "$pattern" "$file" || status=$?
        [ $status = 1 ] || fail "\"$pattern\" in $file, or it cannot be read"
    done
}
same() { # same WORDS A B: two texts are equal, and not empty; else WORDS say what is wrong
    [ -n "$2" ] && [ "$2" = "$3" ] || fail "$1: \"$2\" and \"$3\""
}
differ() { # differ WORDS A B: neither is empty, and they are not equal
    [ -n "$2" ] && [ -n "$3" ] && [ "$2" != "$3" ] || fail "$1: \"$2\" and \"$3\""
}
same_files() { # same_files A B WORDS
    [ -s "$1" ] && cmp "$1" "$2" >&2 || fail "${3:-$1 is not $2}"
}
