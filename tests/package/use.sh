#!/usr/bin/env bash
# What somebody does first with a gpurun that is installed: runs a job, builds a program and runs it, opens the manual.
#
#     use.sh SOURCE PREFIX: outside.c is in SOURCE; PREFIX is /usr, or where a tarball was unpacked
#
# The environment says no more than a login shell would, so that nothing of this tree is found by accident.
set -euo pipefail

source=$1 prefix=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

fail() {
    printf 'use.sh: %s\n' "$*" >&2
    exit 1
}

is_said() { # WORDS COMMAND...
    local said
    said=$("${@:2}" 2>&1) || fail "'${*:2}' ended with $?: $said"
    [[ $said == *"$1"* ]] || fail "'${*:2}' does not say '$1': $said"
}

gpurun=$prefix/bin/gpurun
is_said 'gpurun 0.' "$gpurun" --version
is_said '# latency' "$gpurun" -n 2 --device=emulated "$prefix/bin/gpurun-perf" latency --sizes=8 --iterations=2

export PKG_CONFIG_PATH
PKG_CONFIG_PATH=$(dirname "$(find "$prefix/lib" -name gpurun.pc)")
read -ra flags < <(pkg-config --cflags --libs gpurun)
[[ $prefix == /usr ]] || flags+=("-Wl,-rpath,$(pkg-config --variable=libdir gpurun)")
cc "$source/tests/api/install/outside.c" "${flags[@]}" -o outside
is_said 'hello from an outside program' "$gpurun" -n 2 --device=emulated ./outside

if [[ -e $(pkg-config --variable=libdir gpurun)/libgpurun.a ]]; then # as the README says
    read -ra flags < <(pkg-config --cflags --static --libs gpurun)
    cc "$source/tests/api/install/outside.c" "${flags[@]/#-lgpurun/-l:libgpurun.a}" -o alone
    ! ldd alone | grep -q libgpurun || fail 'a program that is linked statically needs libgpurun.so'
    is_said 'hello from an outside program' "$gpurun" -n 2 --device=emulated ./alone
fi

examples=("$prefix"/share/doc/*gpurun*/examples)
if command -v cmake >/dev/null; then
    cp -r "${examples[0]}" examples
    cmake -S examples -B built "-DCMAKE_PREFIX_PATH=$prefix" -DCMAKE_CUDA_COMPILER=NOTFOUND >/dev/null
    cmake --build built --target ring >/dev/null
    is_said 'the token has been at all 4 ranks' "$gpurun" -n 4 --device=emulated built/ring
fi
for page in man1/gpurun.1 man3/gpurun_send.3 man7/gpurun.7; do
    [[ -s $prefix/share/man/$page || -s $prefix/share/man/$page.gz ]] || fail "there is no manual page $page"
done
manual=("$prefix"/share/doc/gpurun*/html/index.html)
[[ -s ${manual[0]} ]] || fail 'there is no manual in HTML'
