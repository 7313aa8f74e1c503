#!/usr/bin/env bash
# usage.sh NAME PROGRAM: the command line of a program, as that of all programs here: --help and --version end with 0;
# wrong usage ends with 2, after one line on standard error that names the program, and nothing on standard output;
# output that a full disk loses ends with 1, or the status of failure that --help names (4), and such a line.
# Run by ctest (fovea_test_usage() in cmake/FoveaTest.cmake), which sets SCRATCH, a folder of its own.
step=usage name=$1 program=$2
. "$(dirname "$0")/support/program.sh"

refused() { # refused PATTERN ARGUMENT...: wrong usage, with a line that begins with the program's name
    expect 2 "${@:2}"
    [ ! -s out ] || fail "wrong usage, and something on standard output: $name ${*:2}"
    [ "$(wc -l <err)" = 1 ] || fail "not one line for: $name ${*:2}"
    has err "^$name[ :].*$1"
}
# Each option of a help page that takes an argument, with no value after it.
lacking() { # lacking COMMAND...
    local option options=0
    for option in $(sed -nE 's/^  (-[a-z-]+) [A-Z].*/\1/p' page); do
        refused " needs " "$@" "$option"
        options=$((options + 1))
    done
    same "options that take a value" $options "$(grep -cE '^ +-+[^ ]+ [[:upper:]]' page || true)"
}

expect 0 --help
cp out page
has page '^usage: ' '^options$' '^exit status$' '^  2    wrong usage' '--help, --version'
[ ! -s err ] || fail "--help writes to standard error"
[ "$(sed -n '/^exit status/q; p' page | wc -L)" -le 120 ] || fail "--help has long lines"
expect 0 --version
has out "^$name [0-9]+[.][0-9]+[.][0-9]+$"
expect 0 --man
has out '^[.]SH OPTIONS$' "^${name//-/\\\\-} "
expect 0 --completion
bash -n out || fail "the completion is no script"
if [ -c /dev/full ]; then
    failure=$(sed -n 's/^  \([0-9]*\) *failure$/\1/p; s/^  \([0-9]*\) *something failed$/\1/p' page)
    status=0
    "$program" --help >/dev/full 2>err || status=$?
    [ $status = "${failure:-1}" ] || fail "status not ${failure:-1} although --help was lost on a full disk: $name"
    [ "$(wc -l <err)" = 1 ] || fail "not one line for lost output: $name"
    has err "^$name: standard output was not written completely"
fi
refused 'no (option|command) --no-such-option' --no-such-option
commands=$(sed -n '/^commands$/,/^$/s/^  \([a-z]*\)\( .*\)*$/\1/p' page)
if [ -z "$commands" ]; then
    lacking
    grep -qE '^usage: .*\]\.\.\. \[?[A-Z]' page || refused 'takes no argument no-such-word' no-such-word
else
    refused 'no command no-such-command' no-such-command
fi
for command in $commands; do
    expect 0 "$command" --help
    cp out page
    has page "^usage: $name $command" '^exit status$'
    refused 'no option --no-such-option' "$command" --no-such-option
    lacking "$command"
done
