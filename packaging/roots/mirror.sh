#!/usr/bin/env bash
# mirror.sh: prints where this machine gets Debian's packages from.
set -euo pipefail
sed -n 's/^URIs: *//p; s/^deb \(\[[^]]*\] \)\?\([^ ]*\) .*/\2/p' /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list 2>/dev/null |
    grep -m1 'debian/\?$'
