#!/usr/bin/env bash
# x86_64-linux-gnu.sh ROOT: the smallest Debian, with Python and its venv.
set -euo pipefail
cd "$(dirname "$0")/../.."
cmake/quiet.sh "Making a root of Debian" debootstrap --variant=minbase --include=python3,python3-venv bookworm "$1" \
    "$(packaging/roots/mirror.sh)"
