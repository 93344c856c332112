#!/usr/bin/env bash
# The program as a user meets it: `.ci/smoke.sh [PROGRAM]`. Without PROGRAM, the release build is made and used.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

program=${1:-}
if [ -z "$program" ]; then
    cargo build --release --locked --bin warpio
    program=${CARGO_TARGET_DIR:-target}/release/warpio
fi
exec python3 .ci/smoke.py "$program"
