#!/bin/sh
# check_circles.sh NM [-h FOLDER] OBJECT...: fails where object files need each other's symbols in a circle, or folders
# of one folder. With -h also where files of FOLDER include each other's headers in a circle; x.h is part of x.c.
# tsort orders pairs of "what needs, what has", and names what is in circles, in which there is no order.
set -eu
export LC_ALL=C
nm=$1
shift
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
status=0
if [ "$1" = -h ]; then
    grep '^#include "[^/]*\.h"' "$2"/*.[ch] | sed 's|^.*/||; s|\.[ch]:#include "|.c |; s|\.h"$|.c|' |
        while read -r needs has; do
            [ ! -f "$2/$has" ] || echo "$needs.o $has.o"
        done >"$scratch/files"
    shift 2
fi
"$nm" -A -P -g "$@" >"$scratch/symbols"
[ -s "$scratch/symbols" ] || { echo "no symbols in: $*" >&2 && exit 2; }
awk -v files="$scratch/files" -v folders="$scratch/folders" '
    function folder(file) { return match(file, ".*/") ? substr(file, 1, RLENGTH - 1) : "" }
    function above(name) { sub("/.*", "", name); return name }
    { sub(/^.*\/CMakeFiles\/[^\/]*[.]dir\/([.]\/)?/, ""); sub(/:$/, "", $1) }
    $3 == "U" { needs[$1 " " $2]; next }
    { has[$2] = $1 }
    END {
        for (need in needs) {
            split(need, part, " ")
            if (!(part[2] in has))
                continue
            print part[1], has[part[2]] >>files
            needing = folder(part[1])
            having = folder(has[part[2]])
            if (needing != having && above(needing) == above(having))
                print needing, having >>folders
        }
    }' "$scratch/symbols"
for kind in files folders; do
    [ ! -e "$scratch/$kind" ] || tsort "$scratch/$kind" >/dev/null 2>"$scratch/circles" || {
        echo "these $kind need each other: move what they share below them:" \
            "$(sed '1d; /contains a loop/,$d; s/^tsort: //' "$scratch/circles" | paste -sd ' ' -)" >&2
        status=1
    }
done
exit $status
