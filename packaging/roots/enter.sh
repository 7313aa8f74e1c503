#!/usr/bin/env bash
# enter.sh ROOT COMMAND...: runs a command with ROOT as its file system, in a mount namespace of its own. A root that has
# /usr/bin/qemu-aarch64-static is one for 64-bit Arm: there the kernel is told of qemu, in a user namespace of its own.
set -euo pipefail
root=${1:?usage: enter.sh ROOT COMMAND...}
shift
inside='mkdir -p "$0/proc" "$0/dev" "$0/tmp"; mount --rbind /proc "$0/proc"; mount --rbind /dev "$0/dev"'
emulator=/usr/bin/qemu-aarch64-static
if [ ! -e "$root$emulator" ]; then
    exec unshare --mount sh -euc "$inside"'; exec chroot "$0" "$@"' "$root" "$@"
fi
# An ELF header of 64-bit Arm, and which of its bits count.
elf='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
exec unshare --user --map-root-user --mount bash -euc "
    $inside
    mount -t binfmt_misc none /proc/sys/fs/binfmt_misc
    printf '%s' ':aarch64:M::$elf:$mask:$root$emulator:F' >/proc/sys/fs/binfmt_misc/register
    exec chroot \"\$0\" \"\$@\"" "$root" "$@"
