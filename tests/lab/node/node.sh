#!/bin/sh
# One Kubernetes node on this machine, apart from it: etcd, kube-apiserver, controllers, scheduler,
# kube-proxy, kubelet and containerd, in mount, network, pid and uts namespaces of their own.
#
#   sh node.sh up BIN      with the programs that tests/lab/k8s/build_servers.sh leaves in BIN
#   sh node.sh in CMD...   a command in it
#   sh node.sh down
#
# As root, on a machine with cgroups of version 1. When `sleep`, pid 1 of the namespace, ends, all
# else does.
set -eu
BASE=${NODE_BASE:-/var/lib/ablate-node}
HIERARCHIES="cpu cpuacct cpuset memory devices freezer blkio pids systemd"
inside() { nsenter -t "$(cat "$BASE/init.pid")" -m -n -p -u -i -- "$@"; }
case $1 in
up)
  BIN=$2
  mkdir -p "$BASE/etc" "$BASE/log"
  if [ -e "$BASE/init.pid" ] && kill -0 "$(cat "$BASE/init.pid")" 2>/dev/null; then
    echo "a node is up in $BASE; end it with: sh $0 down"
    exit 1
  fi
  for each in $HIERARCHIES; do mkdir -p "/sys/fs/cgroup/$each/ablate-node"; done  # all pods' groups
  for each in cpus mems; do
    cat "/sys/fs/cgroup/cpuset/cpuset.$each" > "/sys/fs/cgroup/cpuset/ablate-node/cpuset.$each"
  done
  cp "$(dirname "$0")"/*.sh "$BASE/"
  rm -f "$BASE/ready"
  nohup setsid unshare -m -n -p -u -i --fork --kill-child --mount-proc \
    sh "$BASE/init.sh" "$BASE" "$BIN" > "$BASE/log/init.log" 2>&1 &
  outer=$!
  for _ in $(seq 300); do
    kill -0 $outer 2>/dev/null || { cat "$BASE/log/init.log"; exit 1; }
    pid=$(tr -d ' ' < /proc/$outer/task/$outer/children)
    [ -n "$pid" ] && [ -e "$BASE/ready" ] && break
    sleep 1
  done
  [ -e "$BASE/ready" ] || { cat "$BASE/log/init.log"; exit 1; }
  echo "$pid" > "$BASE/init.pid"
  ;;
in) shift; inside "$@" ;;
down)
  kill -9 "$(cat "$BASE/init.pid")" || true
  sleep 1
  rm -f "$BASE/init.pid"
  rm -rf --one-file-system "$BASE/containerd" "$BASE/kubelet"  # gigabytes; the logs stay
  for each in $HIERARCHIES unified; do
    find "/sys/fs/cgroup/$each/ablate-node" -depth -type d -exec rmdir {} \; 2>/dev/null || true
  done
  ;;
esac
