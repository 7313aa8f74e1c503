#!/usr/bin/env bash
# report.sh BUILD: one text file with what this machine is and how fast Fovea is on it, BUILD/report.txt, which can be
# sent to others: CPU, cores, caches, compiler, the example of `make run`, how speed grows with threads and nodes (scaling.sh), and
# fovea-bench's default set on each tier. Nothing else of the machine is in it, no name and no address.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
build=$1
report=$build/report.txt
cache() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt"; }

{
    echo "fovea $(sed -n 's/.*FOVEA_VERSION_STRING "\(.*\)"/\1/p' include/fovea/types.h) $(git rev-parse --short HEAD 2>/dev/null)"
    date -u +%Y-%m-%d
    uname -srm
    echo "compiler: $("$(cache CMAKE_C_COMPILER)" --version | head -1)"
    echo
    FOVEA_DEBUG=1 "$build/examples/fovea-minilm" --verbose 2>&1
    echo
    if command -v lscpu >/dev/null; then
        LC_ALL=C lscpu | grep -E '^(Architecture|CPU\(s\)|Vendor|Model|Thread|Core|Socket|CPU max|L[123]|Flags)'
    else
        sysctl -a 2>/dev/null | grep -E '^(hw\.(perflevel|cpu|ncpu|l[123]|optional\.arm)|machdep\.cpu)'
    fi
    echo
    bench/scaling.sh "$build"
    echo
    "$build/bench/fovea-bench" --repetitions "${REPETITIONS:-3}" --filter "${FILTER:-.}" 2>&1
} | tee "$report"
echo "This is $report now."
