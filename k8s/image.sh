#!/bin/sh
# The image of k8s/Dockerfile (stage `cpu`) without Docker and without a base image:
#
#   sh k8s/image.sh ablate:0.2.0-cpu ablate.tar
#
# As root, on Debian 12 or another system that has debootstrap and Python 3.11. pip asks the indexes
# that this machine is set up for. Minutes, and 8 GB in FOLDER, which a second run starts from.
# The file is for any runtime: `ctr images import`, `podman load`, or a registry:
# `skopeo copy docker-archive:ablate.tar docker://REGISTRY/ablate:0.2.0-cpu`.
set -eu
name=$1 out=$2
work=${FOLDER:-${XDG_CACHE_HOME:-$HOME/.cache}/ablate/image}
root=$work/root wheels=$work/wheels
mkdir -p "$wheels"

if [ ! -e "$work/debian" ]; then
  rm -rf "$root"
  debootstrap --variant=minbase \
    --include=python3,python3-venv,ca-certificates,wget,g++,libc6-dev bookworm "$root"
  rm -rf "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/*
  chroot "$root" groupadd --gid 1000 ablate
  chroot "$root" useradd --uid 1000 --gid 1000 --no-create-home --home-dir /work ablate
  chroot "$root" install --directory --owner=1000 --group=1000 /work /store
  chroot "$root" python3 -m venv /opt/venv
  touch "$work/debian"
fi

# The machine's own pip fetches, so that the network and its settings stay out of the image.
[ -e "$work/pip" ] || python3.11 -m venv "$work/pip"
rm -f "$wheels"/ablate_*
"$work/pip/bin/pip" wheel --quiet --constraint constraints.txt --find-links "$wheels" \
  --wheel-dir "$wheels" '.[cluster,all]'
mkdir -p "$root/wheels"
mount --bind "$wheels" "$root/wheels"
trap 'umount "$root/wheels"' EXIT
chroot "$root" /opt/venv/bin/pip install --quiet --no-cache-dir --no-index --find-links /wheels \
  --force-reinstall --no-deps ablate-studies
chroot "$root" /opt/venv/bin/pip install --quiet --no-cache-dir --no-index --find-links /wheels \
  'ablate-studies[cluster,all]'
umount "$root/wheels"
trap - EXIT
rmdir "$root/wheels"
rm -rf "$root/opt/ablate"
mkdir -p "$root/opt/ablate"
cp -R studies "$root/opt/ablate/"
python3.11 k8s/pack_image.py "$name" "$root" "$out"
