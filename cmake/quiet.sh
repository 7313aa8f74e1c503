#!/usr/bin/env bash
# quiet.sh TITLE COMMAND...: runs a command and shows one line of progress instead of its output, which goes to a log,
# build/log/TITLE.txt (LOGS names another folder). On a terminal the line is rewritten: steps done, steps in all, time
# left. Elsewhere it is printed once, at the first step, so a command that has nothing to do prints nothing. Steps are
# ninja's "[3/20]" and the packages that apt-get gets, unpacks and sets up. If the command fails: the end of the log,
# its path, and the command's exit status.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
title=$1
shift
logs=${LOGS:-build/log}
log=$logs/${title// /-}.txt
mkdir -p "$logs"
[ -t 2 ] && terminal=yes || terminal=''
begin=$SECONDS

follow() {
    local line shown='' done=0 all=0
    [ -z "$terminal" ] || printf '%s ...' "$title" >&2
    while IFS= read -r line; do
        printf '%s\n' "$line"
        if [[ $line =~ ^\[([0-9]+)/([0-9]+)\] ]]; then
            done=${BASH_REMATCH[1]} all=${BASH_REMATCH[2]}
        elif [[ $line =~ ^([0-9]+)' upgraded, '([0-9]+)' newly installed' ]]; then
            done=0 all=$((3 * (BASH_REMATCH[1] + BASH_REMATCH[2])))
        elif [[ $line =~ ^(Get:[0-9]|Unpacking |Setting up ) ]]; then
            ((done < all)) && ((done += 1))
        fi
        ((done > 0 && all > 0)) || continue
        if [ -n "$terminal" ]; then
            local left=$(((SECONDS - begin) * (all - done) / done))
            printf '\r\033[K%s: %d of %d, %d:%02d left' "$title" "$done" "$all" $((left / 60)) $((left % 60)) >&2
        elif [ -z "$shown" ]; then
            shown=yes
            printf '%s: %d steps, log in %s\n' "$title" "$all" "$log" >&2
        fi
    done >"$log"
    [ -z "$terminal" ] || printf '\r\033[K' >&2
}

"$@" 2>&1 | follow
status=${PIPESTATUS[0]}
[ "$status" = 0 ] || {
    tail -n 30 "$log"
    echo "$title failed (status $status); all of its output is in $log"
} >&2
exit "$status"
