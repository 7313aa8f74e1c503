#!/usr/bin/env bash
# Puts the faults of tests/faults/table into a copy of this tree, one at a time, and says which of them tests catch.
#   tests/faults/run.sh [NAME|FOLDER...]   those that are named or in files of a folder, as src/cache; or all: an hour
#   tests/faults/run.sh --check            says which lines are no longer in the tree, or not once
# The copy is build/faults, with changes that are not committed; new files must be known to git (git add -N). A fault is
# found by its file's name and its line, wherever they are. Each line of output begins with caught, missed, gone (the
# table's line is not in the tree), unbuilt, or absent (no such test here). Exit status 1: another result than the
# table's; a last line names those that were caught when the table was written and are not now.
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

# build TEST...: what the tests need. NAME is ctest's, of target test-NAME or, as NAME:TARGET,TARGET, of others; with .py
# in it, a path for pytest.
build() {
    local targets=() others test
    cd "$tree"
    for test; do
        case $test in
        *.py*)
            [ -d build/python ] || cmake -S python -B build/python -G Ninja
            cmake --build build/python ;;
        *:*)
            IFS=, read -r -a others <<<"${test#*:}"
            targets+=("${others[@]}") ;;
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
lost=

# asked NAME [PATH]: is the fault to run? One without a path may have been in any folder.
asked() {
    local word
    [ ${#wanted[@]} != 0 ] || return 0
    for word in "${wanted[@]}"; do
        if [ "$word" = "$1" ] || { [ -d "$root/$word" ] && [[ -z $2 || $2 == "${word%/}"/* ]]; }; then
            return 0
        fi
    done
    return 1
}

# try PATH OLD NEW TEST...: sets result and by. A test that does not pass without the fault says nothing.
try() {
    local path=$1 old=$2 new=$3 first=() test text
    shift 3
    for test; do
        [ -n "${passes[$test]:-}" ] || first+=("$test")
    done
    if [ ${#first[@]} != 0 ]; then
        (build "${first[@]}") >"$log" 2>&1 || { result=unbuilt && return; }
    fi
    for test in "${first[@]}"; do
        passes[$test]=0
        (run "$test") >>"$log" 2>&1 || passes[$test]=$?
    done
    text=$(cat "$tree/$path" && echo .)
    text=${text%.}
    printf %s "${text/"$old"/"$new"}" >"$tree/$path"
    result=missed
    (build "$@") >"$log" 2>&1 || result=unbuilt
    for test; do
        if [ "${passes[$test]}" != 0 ]; then
            by+=" ($test does not pass without it)"
            [ $result != missed ] || result=absent
        elif [ $result != unbuilt ] && ! (run "$test") >>"$log" 2>&1; then
            result=caught by=" by ${test%:*}"
            break
        fi
    done
    printf %s "$text" >"$tree/$path"
}

# fault NAME FILE RESULT OLD NEW TEST...
fault() {
    local name=$1 expected=$3 result=gone path by=''
    path=$(find_file "$2" "$4") || path=
    asked "$name" "$path" || return 0
    if [ -n "$checking" ]; then
        [ -n "$path" ] || { different=1 && echo "gone     $name: $2 has no such line, or more than one: $4"; }
        return 0
    fi
    [ -z "$path" ] || try "$path" "${@:4}"
    [ $result = "$expected" ] || different=1
    [ "$expected" != caught ] || [ $result = caught ] || lost+=" $name"
    printf '%-8s %s%s%s\n' $result "$name" "$by" "$([ $result = "$expected" ] || echo "; the table says $expected")"
}

checking=
[ "${1:-}" != --check ] || { checking=1; shift; tree=$root; }
if [ -n "$checking" ] && ! git -C "$root" rev-parse --git-dir >/dev/null 2>&1; then
    echo 'SKIPPED: this is no checkout of git'
    exit 77
fi
wanted=("$@")
for word; do
    [ -d "$root/$word" ] || grep -q "^$word " "$here/table" || {
        echo "run.sh: $word is no folder of this tree, and no fault in $here/table" >&2
        exit 2
    }
done
[ -n "$checking" ] || copy
while IFS= read -r line <&3; do
    case $line in
    '#'* | '') ;;
    '- '*) old=${line#- } ;;
    '+ '*)
        read -r -a words <<<"$head"
        fault "${words[@]:0:3}" "$old" "${line#+ }" "${words[@]:3}" ;;
    *) head=$line ;;
    esac
done 3<"$here/table"
[ -z "$lost" ] || echo "caught before, not now:$lost"
exit $different
