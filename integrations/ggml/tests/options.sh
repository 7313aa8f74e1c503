#!/usr/bin/env bash
# options.sh PROGRAM: what FOVEA_GGML and FOVEA_GGML_ARITHMETIC say, as the backend's line on stderr has it. PROGRAM is
# test-ggml-fovea-options, which loads the backend.
. "$(dirname "$0")/../../../tests/support/sure.sh"
failed=0
check() { # check PATTERN LINES [NAME=VALUE...]: the backend's lines match, and LINES is their number
    local said
    said=$(env -u FOVEA_GGML -u FOVEA_GGML_ARITHMETIC "${@:3}" "$program" 2>&1 | grep '^ggml-fovea: ')
    if ! grep -qE "$1" <<<"$said" || [ "$(wc -l <<<"$said")" != "$2" ]; then
        echo "FAILED: ${*:3}: \"$said\" is not $2 lines with \"$1\""
        failed=1
    fi
}
program=$1
all='computes FLASH_ATTN_EXT, MUL_MAT, .*ROPE$'
usual='computes, where it is faster, FLASH_ATTN_EXT, MUL_MAT, .*ROPE$'
portable='takes nothing: portable code is not faster than ggml; FOVEA_GGML=all takes it all the same$'
"$program" 2>&1 | grep -q "$portable" && usual=$portable # a CPU without kernels
for words in all ALL ' all' 'all ' All, ',all,,' 'all,MUL_MAT'; do
    check "$all" 1 FOVEA_GGML="$words"
done
check "$all" 2 FOVEA_GGML=all,misspelt
check '"misspelt" is not all, none or an operation that is served; it is left out$' 2 FOVEA_GGML='misspelt ,all'
check 'computes MUL_MAT, ADD$' 1 FOVEA_GGML=' add,	Mul_Mat,'
check 'computes MUL_MAT$' 3 FOVEA_GGML=misspelt,MUL_MAT,FLASH_ATTN
for words in '' ' ' , ,,; do
    check "$usual" 1 FOVEA_GGML="$words"
done
check "$usual" 2 FOVEA_GGML=misspelt
check "$usual" 2 FOVEA_GGML_ARITHMETIC=q9
check '"q9" is not exact, q16 or q8; it is left out$' 2 FOVEA_GGML_ARITHMETIC=q9
check '"q8,exact" is not exact, q16 or q8; it is left out$' 2 FOVEA_GGML_ARITHMETIC=q8,exact
check "$usual" 1 FOVEA_GGML_ARITHMETIC=' Exact'
for words in none None ' none,' all,none; do
    check 'takes nothing: FOVEA_GGML says none$' 1 FOVEA_GGML="$words"
done
check "$portable" 1 FOVEA_ISA=scalar
check "$all" 1 FOVEA_ISA=scalar FOVEA_GGML=all
[ $failed = 0 ] && echo passed
exit $failed
