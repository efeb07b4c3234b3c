#!/usr/bin/env bash
# Unpacks an archive in one folder, moves it to another, and uses it there (use.sh).
#
#     tarball.sh SOURCE ARCHIVE
set -euo pipefail

source=$(readlink -f "$1") archive=$(readlink -f "$2")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
fail() {
    printf 'tarball.sh: %s\n' "$*" >&2
    exit 1
}
in_login_shell() { env -i PATH=/usr/bin:/bin HOME="$folder" "$@"; }

mkdir "$folder/first place"
tar -C "$folder/first place" -xzf "$archive"
cd "$folder/first place"/gpurun-*
in_login_shell bin/gpurun -n 2 --device=emulated share/doc/gpurun/examples/ring

for file in bin/gpurun bin/gpurun-perf lib/libgpurun.so share/doc/gpurun/examples/ring; do
    libraries=$(in_login_shell ldd "$file")
    [[ $libraries != *'not found'* ]] || fail "$file does not find all its libraries: $libraries"
    for name in libgpurun libhwloc libstdc++; do
        outside=$(grep "$name" <<<"$libraries" | grep -v "=> $PWD/" || true)
        [[ -z $outside ]] || fail "$file takes a library from somewhere else: $outside"
    done
done

cd "$folder"
mv "first place"/gpurun-* second
in_login_shell bash "$source/tests/package/use.sh" "$source" "$folder/second"
