#!/usr/bin/env bash
# Installs Debian packages, uses what they hold (use.sh), and removes them without a trace.
#
#     deb.sh SOURCE DEB...
#
# All of that happens in an overlay of this system, which stays as it is. Needs root; exits 77 if no overlay can be made.
set -euo pipefail

if [[ ${1-} != --inside ]]; then
    unshare --mount true 2>/dev/null || exit 77
    room=$(mktemp -d) status=0
    unshare --mount "$0" --inside "$room" "$(readlink -f "$1")" "${@:2}" || status=$?
    rmdir "$room"
    exit "$status"
fi
room=$2 source=$3
shift 3
debs=("$@")

mount -t tmpfs tmpfs "$room" || exit 77
mkdir "$room"/{changes,work,system}
mount -t overlay overlay -o "lowerdir=/,upperdir=$room/changes,workdir=$room/work" "$room/system" || exit 77
mkdir -p "$room/system/mnt"
mount -t tmpfs tmpfs "$room/system/tmp" # jobs leave their user's runtime folder there
for folder in /dev /proc /sys; do mount --rbind "$folder" "$room/system$folder"; done
mkdir "$room/system/mnt/source" "$room/system/mnt/packages"
mount --bind "$source" "$room/system/mnt/source"
cp "${debs[@]}" "$room/system/mnt/packages"

inside() { chroot "$room/system" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 "$@"; }

inside sh -c 'dpkg --install /mnt/packages/*.deb'
inside bash /mnt/source/tests/package/use.sh /mnt/source /usr
for deb in "${debs[@]}"; do dpkg-deb --field "$deb" Package; done | inside xargs dpkg --purge
left=$(find "$room/changes" -path "$room/changes/mnt" -prune -o -path '*/var/lib/dpkg/*' -prune -o \
    ! -type c -iname '*gpurun*' -print) # character devices: what is not there any more
[[ -z $left ]] || {
    printf 'deb.sh: left behind: %s\n' "$left" >&2
    exit 1
}
