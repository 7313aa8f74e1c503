#!/usr/bin/env bash
# keep.sh INCLUDE: prints the whole interface as one C header without comments, to keep beside kept.c as VERSION/fovea/fovea.h
# before the next version is made. INCLUDE is the folder with fovea/.
set -euo pipefail
cd "${1:?usage: keep.sh INCLUDE}/fovea"

declare -A printed
print() { # print HEADER: the headers that it includes, then its own lines
    [ -z "${printed[$1]:-}" ] || return 0
    printed[$1]=1
    local header
    for header in $(sed -n 's/^#include "\(.*\)"/\1/p' "$1"); do print "$header"; done
    "${CC:-gcc}" -fpreprocessed -dD -E -P -w "$1" |
        awk '/^#if(def __cplusplus| defined)/ { skip = 1 } !skip && !/^#(include "|endif|(define|ifndef) FOVEA_([A-Z_]+_H|API))/
            /^#endif/ { skip = 0 }' | sed 's/^FOVEA_API //'
}
printf '/* Made by keep.sh. */\n#ifndef FOVEA_FOVEA_H\n#define FOVEA_FOVEA_H\n'
print fovea.h
printf '#endif\n'
