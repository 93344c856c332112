#!/usr/bin/env bash
# Prints where the real libcufile lies, for WARPIO_TEST_CUFILE: installs the public wheel nvidia-cufile into the folder
# given, once. Prints "unavailable" where the wheel cannot be had. It is never part of the repository, and its licence is
# NVIDIA's.
set -euo pipefail
venv=${1:?"usage: $0 VENV"}
version=1.20.0.107

find_library() { find "$venv/lib" -path '*/nvidia/*' -name libcufile.so.0 -print -quit 2>/dev/null; }

[ "$(uname -m)" = x86_64 ] || { echo unavailable; exit; }
"$venv/bin/python" -c 'import pip' 2>/dev/null || python3 -m venv --clear "$venv" >&2
if ! "$venv/bin/pip" install -q --no-deps "nvidia-cufile==$version" >&2; then
    echo unavailable
    exit
fi
library=$(find_library)
[ -n "$library" ] || { echo "$0: the wheel nvidia-cufile $version has no libcufile.so.0" >&2; exit 1; }
echo "$library"
