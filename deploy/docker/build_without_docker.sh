#!/bin/sh
# Build the image where there is neither a docker engine nor a registry, and try it read-only and
# without root: as root, with Debian's buildah and debootstrap. The base is Debian's own Python 3.11
# under the name that the Dockerfile gives it.
#   deploy/docker/build_without_docker.sh FOLDER        (from the project's root; 2 GB)
# A package index of one's own, or its certificate: BUILD_OPTIONS="-v /etc/pip.conf:/etc/pip.conf:ro".
set -eu
folder=$(realpath -m "${1:?a folder}")
in_store() { command="$1"; shift; buildah --root "$folder/store" --runroot "$folder/run" --storage-driver vfs "$command" "$@"; }

mkdir -p "$folder"
debootstrap --variant=minbase --include=python3,python3-venv,python3-pip,ca-certificates \
  bookworm "$folder/base" >"$folder/debootstrap.log"
ln -s /usr/bin/python3 "$folder/base/usr/local/bin/python"
container=$(in_store from scratch)
cp -a "$folder/base/." "$(in_store mount "$container")/"
in_store commit -q "$container" docker.io/library/python:3.11-slim-bookworm

# shellcheck disable=SC2086 - several options
in_store bud --isolation chroot --pull-never --network host ${BUILD_OPTIONS:-} \
  -f deploy/docker/Dockerfile -t ragmonitor-demo:local .

root=$(in_store mount "$(in_store from --pull-never localhost/ragmonitor-demo:local)")
# As compose.yml runs it: nothing can be written but /tmp and the state's volume.
unshare -m sh -eu -c '
mkdir -p "$1/image"
mount --bind "$2" "$1/image" && mount -o remount,ro,bind "$1/image"
mount -t tmpfs none "$1/image/tmp"
mount -t tmpfs -o uid=10001,gid=10001 none "$1/image/var/lib/ragmonitor"
mount -t proc none "$1/image/proc" && mount --bind /dev "$1/image/dev"
exec chroot --userspec=10001:10001 "$1/image" env -i PATH=/opt/ragmonitor/bin:/usr/bin:/bin \
  RAGMONITOR_STATE=/var/lib/ragmonitor sh -eu -c "
    cd /tmp
    ! touch /opt/x 2>/dev/null
    ragmonitor --version
    ragmonitor worker --help >worker.txt
    ragmonitor demo --seconds 40 >demo.txt & demo=\$!
    sleep 30
    python -c \"import urllib.request as u; print(u.urlopen(\\\"http://127.0.0.1:7247/metrics\\\", timeout=4).status)\"
    wait \$demo
    tail -n 2 demo.txt
  "
' sh "$folder" "$root"
