#!/usr/bin/env bash
# cuFile on a machine with a GPU and NVIDIA's own library: the column "gpu" of docs/cufile.md, and what the program says.
#
#   .ci/cufile_gpu.sh build TO          where there is a compiler: leaves the programs in TO
#   .ci/cufile_gpu.sh run TO [OUT]      on the GPU machine, in the root of a copy of the repository, as root: prints what
#                                       was seen, and leaves it in OUT (TO/out). Needs no compiler
#
# LIBCUFILE names the library, WORK a folder on a local file system (ext4 or xfs), where these are not found.
# Afterwards, `.ci/cufile_record.py <OUT/scenarios.txt` puts the outcomes into the page.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build() {
    mkdir -p "$1"
    local what executable name
    for what in "-p warpio-tests --test cufile_real" "-p warpio-cli --bin warpio"; do
        # shellcheck disable=SC2086 # several arguments
        executable=$(cargo build $what --tests --message-format json |
            sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | grep -E '/(cufile_real-[0-9a-f]+|warpio)$' | tail -1)
        name=$(basename "$executable")
        strip -o "$1/${name%-*}" "$executable"
    done
    ls -l "$1"
}

find_library() {
    if [ -n "${LIBCUFILE:-}" ]; then echo "$LIBCUFILE"; return; fi
    { ldconfig -p | sed -n 's/.*libcufile\.so\.0 .*=> //p'
      ls /usr/local/cuda*/lib64/libcufile.so.0 /usr/local/cuda*/targets/*/lib/libcufile.so.0
      find / -xdev -name libcufile.so.0 -not -path '/proc/*'; } 2>/dev/null | awk 'NR == 1'
}

# A folder whose file system cuFile knows: not in memory, not an overlay.
find_work() {
    local dir
    for dir in ${WORK:-} "$PWD" /var/tmp /tmp "$HOME"; do
        case $(stat -f -c %T "$dir") in
        ext2/ext3 | xfs) mktemp -d "$dir/cufile.XXXXXX"; return ;;
        esac
    done
    echo "no folder on ext4 or xfs; name one as WORK" >&2
    return 1
}

# What udev would say of the storage that a folder lies on. Leaves a real record alone.
tell_udev() {
    local device record kind=ext4
    device=$(stat -c %d "$1")
    record=/run/udev/data/b$((device >> 8 & 0xfff)):$((device & 0xff | device >> 12 & 0xfff00))
    [ "$(stat -f -c %T "$1")" != xfs ] || kind=xfs
    if [ -e "$record" ]; then echo "$record: there already"; return; fi
    if [ -e /run/udev ]; then made=$record; else made=/run/udev; fi
    mkdir -p /run/udev/data
    printf 'E:ID_FS_TYPE=%s\nE:ID_FS_USAGE=filesystem\n' "$kind" >"$record"
    echo "$record: made"
}

title() { printf '\n=== %s\n' "$*"; }

run() {
    local to out library status
    to=$(realpath "$1") out=$(realpath -m "${2:-$1/out}")
    mkdir -p "$out"
    library=$(find_library)
    [ -f "$library" ] || { echo "no libcufile.so.0; name it as LIBCUFILE" >&2; return 1; }
    work=$(find_work)
    made=
    trap 'rm -rf "$work" ${made:+"$made"}' EXIT
    export WARPIO_CUFILE_LIBRARY=$library CUFILE_LOGFILE_PATH=$out/cufile.log
    echo "library $library, files in $work ($(stat -f -c %T "$work")), kernel $(uname -r)"
    ! command -v nvidia-smi >/dev/null || nvidia-smi --query-gpu=name,driver_version --format=csv,noheader

    if [ ! -e /run/udev ]; then
        title "info without /run/udev"
        "$to/warpio" info >"$out/info-without-udev.txt"
        grep -A40 '^cuFile' "$out/info-without-udev.txt"
        grep -q 'volume /run/udev:/run/udev:ro' "$out/info-without-udev.txt" || echo "!! no word about /run/udev"
    fi
    tell_udev "$work"
    title "info"
    "$to/warpio" info | tee "$out/info.txt" | grep -A60 '^cuFile' | sed '/^$/,$d'
    "$to/warpio" info --json >"$out/info.json"
    python3 -c 'import json, sys; print(json.dumps(json.load(open(sys.argv[1]))["cufile"], indent=1))' "$out/info.json" ||
        cat "$out/info.json"

    title "scenarios: what differs from the record is listed at the end, and is no failure of this script"
    status=0
    WARPIO_TEST_CUDA=real WARPIO_TEST_CUFILE=$library WARPIO_TEST_DIR=$work WARPIO_TEST_RECORD=$PWD/docs/cufile.md \
        "$to/cufile_real" --nocapture --test-threads=1 2>&1 | tee "$out/scenarios.txt" || status=$?
    echo "as recorded: $([ $status -eq 0 ] && echo yes || echo no)"

    title "the program in each mode: the same bytes, however they come"
    head -c 300000000 /dev/urandom >"$work/data.bin"
    local mode cold
    for mode in auto on; do
        for cold in yes no; do
            [ $cold = no ] || "$to/warpio" cache drop "$work/data.bin" >/dev/null
            "$to/warpio" read "$work/data.bin" --device cuda:0 --compat-mode $mode --checksum --json |
                tee -a "$out/read.jsonl"
        done
    done
    [ "$(grep -o '"crc32c":"[^"]*"' "$out/read.jsonl" | sort -u | wc -l)" = 1 ] || { echo "!! other bytes"; return 1; }
    status=0
    "$to/warpio" read "$work/data.bin" --device cuda:0 --compat-mode off --json 2>&1 | tee "$out/read-off.txt" || status=$?
    echo "exit status with --compat-mode off: $status (0 only with GPUDirect Storage)"
    "$to/warpio" bench seq "$work/data.bin" --device cuda:0 --compat-mode auto --rounds 3
    "$to/warpio" bench seq "$work/data.bin" --device cuda:0 --compat-mode auto --rounds 3 --cold
    tail -5 "$out/cufile.log" 2>/dev/null || true
}

case ${1:-} in
build) build "${2:?"usage: $0 build TO"}" ;;
run) run "${2:?"usage: $0 run TO [OUT]"}" "${3:-}" ;;
*) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"; exit 2 ;;
esac
