#!/usr/bin/env bash
# Puts the faults of tests/faults/table into a copy of this tree, one at a time, and says which of them tests catch.
#   tests/faults/run.sh [NAME...]   those that are named, or all: an hour
# The copy is build/faults, with changes that are not committed; new files must be known to git (git add -N). A fault is
# found by its file's name and its line, wherever they are. Each line of output begins with caught, missed, gone (the
# table's line is not in the tree), unbuilt, or absent (no such test here). Exit status 1: another result than the table's.
# PYTHON is an interpreter with what python/tests need; GGML=ON builds the ggml backend, too.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
tree=$root/build/faults
log=$root/build/faults.log
python=${PYTHON:-$root/build/venv/torch/bin/python}
export CCACHE_BASEDIR=$tree PYTHONPATH=$tree/build/python

copy() {
    [ -d "$tree" ] || git clone --quiet --shared --no-checkout "$root" "$tree"
    git -C "$tree" fetch --quiet "$root" HEAD
    git -C "$tree" checkout --quiet --force --detach FETCH_HEAD
    git -C "$tree" clean --quiet --force -d -e /build
    git -C "$root" diff --binary HEAD >"$log"
    [ ! -s "$log" ] || git -C "$tree" apply "$log"
    mkdir -p "$tree/build"
    for given in models ggml; do
        [ ! -e "$root/build/$given" ] || ln -sfn "$root/build/$given" "$tree/build/$given"
    done
}

# build TEST...: what the tests need. NAME is ctest's, of target test-NAME or, as NAME:TARGET, of another; with .py in it,
# a path for pytest.
build() {
    local targets=() test
    cd "$tree"
    for test; do
        case $test in
        *.py*)
            [ -d build/python ] || cmake -S python -B build/python -G Ninja
            cmake --build build/python ;;
        *:*) targets+=("${test#*:}") ;;
        *) targets+=("test-${test%%.*}") ;;
        esac
    done
    [ -d build/test ] || cmake --preset test -DFOVEA_GGML="${GGML:-OFF}"
    [ ${#targets[@]} = 0 ] || cmake --build build/test -j2 --target "${targets[@]}"
}

# run TEST: 0 if it passes, 77 if there is none
run() {
    cd "$tree"
    case $1 in
    *.py*) "$python" -m pytest -q -x -p no:cacheprovider "$1" ;;
    *)
        local name="^${1%:*}\$"
        ctest --preset test -R "$name" -N | grep -q 'Total Tests: 0' && return 77
        ctest --preset test -R "$name" --timeout 300 --stop-on-failure ;;
    esac
}

# The one file of a name that has a line, which must be there once.
find_file() {
    local path found=()
    while IFS= read -r path; do
        if [ "$(grep -cF -- "$2" "$tree/$path")" = 1 ]; then
            found+=("$path")
        fi
    done < <(git -C "$tree" ls-files -- "$1" "*/$1")
    [ ${#found[@]} = 1 ] && echo "${found[0]}"
}

declare -A passes
different=0
# fault NAME FILE RESULT OLD NEW TEST...
fault() {
    local name=$1 file=$2 expected=$3 old=$4 new=$5 result=missed by= path test text
    shift 5
    if ! path=$(find_file "$file" "$old"); then
        result=gone
    elif ! (build "$@") >"$log" 2>&1; then
        result=unbuilt
    else
        for test; do # a test that fails without the fault says nothing
            if [ -z "${passes[$test]:-}" ]; then
                passes[$test]=0
                (run "$test") >>"$log" 2>&1 || passes[$test]=$?
            fi
            [ "${passes[$test]}" = 0 ] || by+=" ($test does not pass without it)"
        done
        text=$(cat "$tree/$path" && echo .)
        text=${text%.}
        printf %s "${text/"$old"/"$new"}" >"$tree/$path"
        if ! (build "$@") >"$log" 2>&1; then
            result=unbuilt
        else
            for test; do
                [ "${passes[$test]}" = 0 ] || continue
                (run "$test") >>"$log" 2>&1 || { result=caught by=" by ${test%:*}"; break; }
            done
        fi
        printf %s "$text" >"$tree/$path"
        [ $result != missed ] || [[ $by != *"does not pass"* ]] || result=absent
    fi
    [ $result = "$expected" ] || different=1
    printf '%-8s %s%s%s\n' $result "$name" "$by" "$([ $result = "$expected" ] || echo "; the table says $expected")"
}

copy
[ $# = 0 ] || for name; do
    grep -q "^$name " "$here/table" || { echo "run.sh: no fault $name in $here/table" >&2; exit 2; }
done
while IFS= read -r line <&3; do
    case $line in
    '#'* | '') ;;
    '- '*) old=${line#- } ;;
    '+ '*) # shellcheck disable=SC2086 # words of the first line
        set -f
        [ $# != 0 ] && [[ " $* " != *" ${head%% *} "* ]] || fault_words=$head
        if [ -n "${fault_words:-}" ]; then
            read -r -a words <<<"$fault_words"
            fault "${words[0]}" "${words[1]}" "${words[2]}" "$old" "${line#+ }" "${words[@]:3}"
        fi
        fault_words=
        set +f ;;
    *) head=$line ;;
    esac
done 3<"$here/table"
exit $different
