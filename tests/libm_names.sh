#!/usr/bin/env bash
# libm_names.sh NM LIBRARY LIBM: which functions of libm a library calls. Results must not depend on the system's libm,
# so only functions that are exact or rounded correctly everywhere may be called, and none of SLEEF. Skipped (77) where
# libm is no shared library of its own.
# shellcheck source=tests/support/sure.sh
. "$(dirname "$0")/support/sure.sh"
nm=$1 library=$2 libm=$3
exact='(ceil|copysign|fabs|floor|fma|fmax|fmin|frexp|ilogb|ldexp|lrint|rint|sqrt)f?'
[ -e "$libm" ] || {
    echo "SKIPPED: no shared libm to read names from"
    exit 77
}
names() {
    "$nm" "$@" | awk '{ sub("@.*", "", $NF); print $NF }' | LC_ALL=C sort -u
}
names -u "$library" >names.asked
names -D --defined-only "$libm" | LC_ALL=C comm -12 - names.asked >names.libm
grep -x frexp names.libm >/dev/null || {
    echo "$library does not call frexp, or its names were not read"
    exit 1
}
grep -E '^_*Sleef_' names.asked >>names.libm || true
if grep -vxE "$exact" names.libm; then
    echo "$library calls these: write them by +, -, *, / and fma, as src/core/elementary.c does"
    exit 1
fi
echo "of libm: $(paste -sd ' ' names.libm)"
