#!/usr/bin/env bash
# aarch64-linux-gnu.sh ROOT: the smallest Debian for 64-bit Arm, with Python and its venv, and qemu to run it (enter.sh). Packages are
# unpacked, not configured: none of them asks for more.
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$1
cmake/quiet.sh "Fetching a root of Debian for Arm" debootstrap --foreign --arch=arm64 --variant=minbase --include=python3,python3-venv \
    bookworm "$root" "$(packaging/roots/mirror.sh)"
for package in "$root"/var/cache/apt/archives/*.deb; do dpkg -x "$package" "$root"; done
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
(cd "$scratch" && apt-get download -qq -o APT::Sandbox::User=root qemu-user-static && dpkg -x qemu-user-static_*.deb .)
cp "$scratch/usr/bin/qemu-aarch64-static" "$root/usr/bin"
