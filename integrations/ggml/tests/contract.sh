#!/usr/bin/env bash
# contract.sh COMPILE_COMMANDS: every file of the backend is compiled with -ffp-contract=off, and no flag behind it says
# otherwise: formulas of elementwise.h would depend on the compiler and the CPU that it compiles for.
. "$(dirname "$0")/../../../tests/support/sure.sh"
files=$(ls "$(dirname "$0")"/../*.c | grep -vcE '/(bench|tune)[^/]*$')
commands=$(grep '"command": .*/ggml-fovea\.dir/' "$1")
bad=$(grep -vE -- '-ffp-contract=off' <<<"$commands" || true)$(grep -E -- '-ffp-contract=off.* (-ffp-contract=(on|fast)|-ffast-math)' \
    <<<"$commands" || true)
[ "$(wc -l <<<"$commands")" = "$files" ] || { echo "FAILED: $(wc -l <<<"$commands") commands for $files files" && exit 1; }
[ -z "$bad" ] || { echo "FAILED: formulas may be contracted: $bad" && exit 1; }
echo "passed: $files files"
