#!/bin/sh
# pid 1 of the node's namespaces: init.sh BASE BIN
set -eu
BASE=$1 BIN=$2 IP=10.123.0.1
export PATH="$BIN:/usr/sbin:/usr/bin:/sbin:/bin"
mount --make-rshared /  # the kubelet wants shared propagation of its own folder
mkdir -p "$BASE/run"
mount -t tmpfs tmpfs "$BASE/run"
hostname ablate-node
ip link set lo up
ip link add node0 type veth peer name node0p  # this kernel may have no dummy devices
ip addr add "$IP/32" dev node0
ip link set node0p up
ip link set node0 up
ip route add default dev node0
sysctl -qw net.ipv4.ip_forward=1
# What a kubelet would set for the whole machine: it reads the values that it wants, and sets none.
mkdir -p "$BASE/sysctl"
for pair in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 \
  kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000; do
  file=$BASE/sysctl/$(echo "${pair%=*}" | tr / .)
  echo "${pair#*=}" > "$file"
  mount --bind "$file" "/proc/sys/${pair%=*}"
done
sh "$BASE/servers.sh" "$BASE" "$BIN" "$IP"
echo ready > "$BASE/ready"
exec sleep infinity
