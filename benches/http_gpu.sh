#!/usr/bin/env bash
# HTTP to GPU beside KvikIO, on a machine that has a GPU, but neither network nor cargo nor nginx.
#
#   benches/http_gpu.sh pack FOLDER        where it is built: puts all that is needed into FOLDER (about 12 MB)
#   benches/http_gpu.sh run FOLDER OUT     there: measures for about four minutes, and writes OUT/http-gpu.jsonl
#   benches/http_gpu.sh host FOLDER OUT    into host memory, beside object_store's own client: OUT/http-host.jsonl
#
# `pack` wants nginx (Debian: nginx-light) and `cargo build --release -p warpio-benches --bin http` done. For KvikIO's
# rows it is given two folders of wheels and the script that measures it, which prints a JSON object a line for
# `http URL BYTES`:
#
#   KVIKIO_BENCH=kvikio_bench.py KVIKIO_2608=FOLDER KVIKIO_2610=FOLDER benches/http_gpu.sh pack FOLDER
#
# `host` compares with what `benches/stock` builds, which `pack` takes along where that is done. It needs no GPU.
#
# `run` needs python3 with cupy for those rows, and leaves them out where they were not packed. Everything runs twice in
# turns, so that a machine that becomes slower does so for all.
set -euo pipefail

SIZE=${SIZE:-$((2 << 30))}
WORKERS=8

pack() {
    local folder=$1 program=${CARGO_TARGET_DIR:-target}/release/http nginx library
    nginx=$(PATH=$PATH:/usr/sbin command -v nginx)
    mkdir -p "$folder/lib"
    cp "$program" "$nginx" "$folder/"
    # All but libc and its loader, which every machine has.
    for library in $(ldd "$nginx" | awk '$2 == "=>" && $1 !~ /^lib(c|m|dl|pthread|rt)\.so/ { print $3 }'); do
        cp -L "$library" "$folder/lib/"
    done
    [ -z "${KVIKIO_BENCH:-}" ] || cp "$KVIKIO_BENCH" "$folder/kvikio_bench.py"
    [ -z "${KVIKIO_2608:-}" ] || cp -r "$KVIKIO_2608" "$folder/2608"
    [ -z "${KVIKIO_2610:-}" ] || cp -r "$KVIKIO_2610" "$folder/2610"
    local stock=${STOCK_TARGET_DIR:-benches/stock/target}/release/stock
    [ ! -x "$stock" ] || cp "$stock" "$folder/"
    cp "${BASH_SOURCE[0]}" "$folder/http_gpu.sh"
    git rev-parse HEAD >"$folder/commit"
    du -sh "$folder"
}

# Starts nginx over $work/www, and waits until it listens.
start_nginx() {
    port=$(python3 -c 'import socket; s = socket.create_server(("127.0.0.1", 0)); print(s.getsockname()[1])')
    local kind paths=""
    for kind in client_body proxy fastcgi uwsgi scgi; do paths+="${kind}_temp_path $work/$kind; "; done
    cat >"$work/nginx.conf" <<CONF
daemon off;
worker_processes $WORKERS;
pid $work/pid;
error_log stderr;
events { worker_connections 512; }
http {
    access_log off;
    default_type application/octet-stream;
    sendfile on;
    tcp_nopush on;
    keepalive_requests 100000;
    $paths
    server { listen 127.0.0.1:$port; root $work/www; }
}
CONF
    local user=()
    [ "$(id -u)" -ne 0 ] || user=(-g "user root;")
    LD_LIBRARY_PATH=$folder/lib "$folder/nginx" -p "$work" -c "$work/nginx.conf" -e stderr "${user[@]}" &
    nginx=$!
    until python3 -c "import socket; socket.create_connection(('127.0.0.1', $port), 1)" 2>/dev/null; do
        kill -0 "$nginx" || { echo "nginx does not start" >&2; exit 1; }
        sleep 0.05
    done
}

# kvikio VERSION [VARIABLE=VALUE…]: its rows, with the settings in them.
kvikio() {
    local version=$1
    shift
    [ -d "$folder/$version" ] && [ -f "$folder/kvikio_bench.py" ] || return 0
    [ -d "$work/$version" ] ||
        python3 -m pip install -q --no-index --no-deps --target "$work/$version" "$folder/$version"/*kvikio*.whl \
            "$folder/$version"/rapids_logger*.whl
    env "$@" PYTHONPATH="$work/$version" python3 "$folder/kvikio_bench.py" http "$url" "$SIZE" |
        python3 -c '
import json, sys
for line in sys.stdin:
    print(json.dumps(json.loads(line) | {"environment": " ".join(sys.argv[1:])}))' "$@" ||
        echo "KvikIO $version $* does not run here" >&2
}

# serve FOLDER OUT: makes the object, and a server of it.
serve() {
    folder=$(realpath "$1")
    work=$(mktemp -d)
    trap 'kill "${nginx:-}" 2>/dev/null; rm -rf "$work"' EXIT
    mkdir -p "$work/www" "$2"
    "$folder/http" make "$work/www/object" --size "$SIZE"
    start_nginx
    url=http://127.0.0.1:$port/object
}

# header COMMAND PEER: what the rows below it were taken with.
header() {
    local driver
    driver=$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null || echo none)
    printf '{"commit": "%s", "command": "benches/http_gpu.sh %s", "machine": "%s cores", "kernel": "%s", ' \
        "$(cat "$folder/commit")" "$1" "$(nproc)" "$(uname -r)"
    printf '"driver": "%s", "cache": "warm", "peer": "%s"}\n' "$driver" "$2"
}

# Five rounds of each in turns, one row a round; of the two rounds that each program makes, the first does not count.
host() {
    local out=$2
    serve "$1" "$out"
    [ -x "$folder/stock" ] || { echo "benches/stock was not built when $folder was packed" >&2; exit 1; }
    {
        header host "object_store 0.14.2 with its own client; hyper; curl"
        for _ in 1 2 3 4 5; do
            WARPIO_DEVICE=host "$folder/http" loopback --url "$url" --size "$SIZE" --rounds 1
            "$folder/stock" --url "$url" --size "$SIZE" --rounds 1
        done
    } | tee "$out/http-host.jsonl"
}

run() {
    local out=$2
    serve "$1" "$out"
    {
        header run "KvikIO 26.08, 26.10"
        for _ in 1 2; do
            "$folder/http" loopback --url "$url" --size "$SIZE" --rounds 7 --only "warpio to"
            "$folder/http" loopback --url "$url" --size "$SIZE" --rounds 5 --only hyper
            kvikio 2608
            kvikio 2610
            kvikio 2610 KVIKIO_REMOTE_IO_BACKEND=MULTI_POLL KVIKIO_REMOTE_IO_NUM_REACTORS=8
        done
        "$folder/http" latency --size "$SIZE" --rounds 5
    } | tee "$out/http-gpu.jsonl"
}

case "${1:-}" in
pack) pack "${2:?the folder to pack into}" ;;
run) run "${2:?the folder that was packed}" "${3:?the folder for the rows}" ;;
host) host "${2:?the folder that was packed}" "${3:?the folder for the rows}" ;;
*)
    sed -n '2,18s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
    exit 2
    ;;
esac
