#!/bin/sh
# The Python tests and the benchmark on a machine with GPUs, whose Python is not the one of the build:
#
#     tests/python/gpu.sh pack BUILD FOLDER                        here: copies what the other machine needs
#     FOLDER/source/tests/python/gpu.sh run FOLDER [RANKS...]      there: builds, runs everything, prints a table last
#
# The other machine needs g++, Python with its headers, PyTorch, NumPy, pytest and hypothesis. The library and the
# launcher come from BUILD. FOLDER/log has what each step printed. DEVICE=emulated tries the script without a GPU.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
[ $# -ge 2 ] || { sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 2; }

pack() {
    rm -rf "$2"
    mkdir -p "$2/runtime/api" "$2/launcher" "$2/include/gpurun"
    cp -a "$1"/runtime/api/libgpurun.so* "$2/runtime/api/"
    rm -rf "$2"/runtime/api/*.p
    cp "$1/launcher/gpurun" "$2/launcher/"
    cp "$1"/include/gpurun/version.h "$root/include/gpurun/gpurun.h" "$2/include/gpurun/"
    strip "$2"/runtime/api/libgpurun.so.*.* "$2/launcher/gpurun"
    nanobind=$(sed -n 's/.*-isystem\([^ ]*nanobind\)\/include.*/\1/p' "$1/build.ninja" | head -1)
    mkdir "$2/nanobind" "$2/source"
    cp -r "$nanobind/include" "$nanobind/src" "$nanobind/ext" "$2/nanobind/"
    (cd "$root" && cp -r --parents runtime/python tests/python examples/python "$2/source")
    du -sh "$2"
}

build() {
    mkdir -p "$package" "$carry/objects"
    cp -r "$root"/runtime/python/gpurun/. "$package/"
    headers=$(python3 -c 'import sysconfig; print(sysconfig.get_paths()["include"])')
    flags="-std=c++20 -O2 -fPIC -fvisibility=hidden -fno-strict-aliasing -DNDEBUG -I$headers -I$carry/include
        -I$root/runtime/python/core -I$carry/nanobind/include -I$carry/nanobind/ext/robin_map/include"
    for source in "$carry"/nanobind/src/nb_combined.cpp "$root"/runtime/python/core/*.cpp; do
        echo "$source"
    done | FLAGS="$flags" OBJECTS="$carry/objects" xargs -P "$(nproc)" -I {} \
        sh -c 'g++ $FLAGS -w -c {} -o "$OBJECTS/$(basename {} .cpp).o"'
    g++ -shared -o "$package/_core$(python3 -c 'import sysconfig; print(sysconfig.get_config_var("EXT_SUFFIX"))')" \
        "$carry"/objects/*.o -L"$carry/runtime/api" -lgpurun -Wl,-rpath,"$carry/runtime/api" -pthread
}

# step NAME COMMAND...: its last line that says something goes into the table.
step() {
    name=$1
    shift
    log="$carry/log/$(echo "$name" | tr -c 'a-zA-Z0-9\n' -)"
    begin=$(date +%s)
    rc=0
    timeout "${STEP_SECONDS:-150}" "$@" >"$log" 2>&1 || rc=$?
    printf '%-34s rc %3d %4d s  %s\n' "$name" "$rc" $(($(date +%s) - begin)) \
        "$(grep -E 'passed|failed|error|Error' "$log" | tail -1 | cut -c1-90)" >>"$carry/table"
    [ "$rc" = 0 ] || { failed=1; echo "== $name: rc $rc"; tail -n 40 "$log"; }
}

run() {
    package=$carry/python/gpurun
    mkdir -p "$carry/log"
    : >"$carry/table"
    failed=0
    [ -n "$(ls "$package"/_core*.so 2>/dev/null)" ] && [ -z "${REBUILD:-}" ] || build
    cp -r "$root"/runtime/python/gpurun/. "$package/"
    export PYTHONPATH="$carry/python" LD_LIBRARY_PATH="$carry/runtime/api${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
    export GPURUN="$carry/launcher/gpurun" PYTHONDONTWRITEBYTECODE=1 GLOO_SOCKET_IFNAME=lo
    tests="python3 -m pytest -x -q -p no:cacheprovider"
    for ranks in "$@"; do
        job="$GPURUN -n $ranks --device=${DEVICE:-cuda} --oversubscribe"
        step "messages, loans, $ranks ranks" $job $tests "$root/tests/python/ranks"
        step "torch on CUDA, $ranks ranks" $job $tests "$root/tests/python/torch_ranks/test_cuda.py"
        step "torch on the CPU, $ranks ranks" $job $tests "$root/tests/python/torch_ranks" --ignore-glob="*test_cuda.py"
    done
    for example in hogwild weights; do
        step "example $example" "$GPURUN" -n 2 --device="${DEVICE:-cuda}" --oversubscribe python3 \
            "$root/examples/python/$example.py"
    done
    STEP_SECONDS=240 step "benchmark, 2 ranks" "$GPURUN" -n 2 --device="${DEVICE:-cuda}" --oversubscribe python3 -m gpurun.bench
    cat "$carry/log/benchmark--2-ranks"
    echo
    python3 -c 'import torch; print("torch", torch.__version__, "on", torch.cuda.device_count(), "GPUs")'
    cat "$carry/table"
    return $failed
}

command=$1
shift
case $command in
pack) pack "$@" ;;
run)
    carry=$(cd "$1" && pwd)
    shift
    [ $# -gt 0 ] || set -- 1 2 3
    run "$@"
    ;;
*) exit 2 ;;
esac
