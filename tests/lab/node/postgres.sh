#!/bin/sh
# An image in the place of Docker's `postgres`, of Debian 12's packages: postgres.sh NAME OUT.tar
set -eu
name=$1 out=$2 here=$(dirname "$0")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
mkdir -p "$root/usr/sbin"
printf '#!/bin/sh\nexit 101\n' > "$root/usr/sbin/policy-rc.d"  # start no server
chmod +x "$root/usr/sbin/policy-rc.d"
debootstrap --variant=minbase --include=postgresql bookworm "$root" > "$work/log" 2>&1 ||
  { tail -20 "$work/log" >&2; exit 1; }
rm -rf "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/* "$root"/var/lib/postgresql/*
chroot "$root" groupmod --gid 999 postgres
chroot "$root" usermod --uid 999 --gid 999 postgres
chroot "$root" sh -c 'ln -s /usr/lib/postgresql/*/bin/* /usr/local/bin/'  # not Debian's wrappers
install -m 0755 "$here/postgres-entry.sh" "$root/usr/local/bin/"
python3 "$here/../../../k8s/pack_image.py" "$name" "$root" "$out" /usr/local/bin/postgres-entry.sh
