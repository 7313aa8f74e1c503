#!/usr/bin/env bash
# test_gguf.sh PYTHON PROGRAM: test_gguf.py by that Python if it is there, else by python3.
# shellcheck source=tests/support/sure.sh
. "$(dirname "$0")/../../tests/support/sure.sh"
[ -x "$1" ] || set -- python3 "$2"
exec "$1" "$(dirname "$0")/test_gguf.py" "$2"
