#!/bin/sh
# check_circles.sh NM FOLDER...: fails where object files below a folder need each other's symbols in a circle.
# tsort orders pairs of "the file that needs, the file that has", and names the files of circles, in which there is no order.
set -eu
export LC_ALL=C
nm=$1
shift
status=0
for folder; do
    [ -n "$(find "$folder" -name '*.o')" ] || exit 2
    circle=$(cd "$folder" && find . -name '*.o' -exec "$nm" -A -P -g {} + | awk '
        $3 == "U" { needs[substr($1, 3, length($1) - 3) " " $2]; next }
        { has[$2] = substr($1, 3, length($1) - 3) }
        END {
            for (need in needs) {
                split(need, part, " ")
                if (part[2] in has)
                    print part[1], has[part[2]]
            }
        }' | tsort 2>&1 >/dev/null | sed '1d; /contains a loop/,$d; s/^tsort: //' | paste -sd ' ' -) || true
    if [ -n "$circle" ]; then
        echo "$folder: these files need each other: move what they share to a file below them:" "$circle" >&2
        status=1
    fi
done
exit $status
