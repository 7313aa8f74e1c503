#!/bin/sh
# check_circles.sh NM FOLDER...: fails where object files below a folder need each other's symbols in a circle.
# tsort orders pairs of "the file that needs, the file that has", and names the files of circles, in which there is no order.
set -eu
export LC_ALL=C
nm=$1
shift
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
status=0
for folder; do
    (cd "$folder" && find . -name '*.o' -exec "$nm" -A -P -g {} +) >"$scratch/symbols"
    [ -s "$scratch/symbols" ] || { echo "$folder has no object files with symbols" >&2 && exit 2; }
    awk '
        $3 == "U" { needs[substr($1, 3, length($1) - 3) " " $2]; next }
        { has[$2] = substr($1, 3, length($1) - 3) }
        END {
            for (need in needs) {
                split(need, part, " ")
                if (part[2] in has)
                    print part[1], has[part[2]]
            }
        }' "$scratch/symbols" >"$scratch/pairs"
    tsort "$scratch/pairs" >/dev/null 2>"$scratch/circles" || {
        echo "$folder: these files need each other: move what they share to a file below them:" \
            "$(sed '1d; /contains a loop/,$d; s/^tsort: //' "$scratch/circles" | paste -sd ' ' -)" >&2
        status=1
    }
done
exit $status
