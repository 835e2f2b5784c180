#!/bin/sh
# servers.sh BASE BIN IP: write the configurations of the node's servers, and start them.
set -eu
BASE=$1 BIN=$2 IP=$3
etc=$BASE/etc log=$BASE/log
TOKEN=$(od -An -v -N 16 -tx1 /dev/urandom | tr -d ' \n')
echo "$TOKEN,tester,tester,system:masters" > "$etc/tokens"
[ -e "$etc/key" ] || openssl genrsa -out "$etc/key" 2048 2>/dev/null
cat > "$etc/kubeconfig" <<END
apiVersion: v1
kind: Config
clusters: [{name: node, cluster: {server: "https://$IP:6443", insecure-skip-tls-verify: true}}]
users: [{name: node, user: {token: $TOKEN}}]
contexts: [{name: node, context: {cluster: node, user: node}}]
current-context: node
END
start() { name=$1; shift; nohup "$@" > "$log/$name.log" 2>&1 & echo $! > "$BASE/run/$name.pid"; }
start etcd "$BIN/etcd" --data-dir "$BASE/run/etcd" --listen-client-urls http://127.0.0.1:2379 \
  --advertise-client-urls http://127.0.0.1:2379 --listen-peer-urls http://127.0.0.1:2380 \
  --initial-advertise-peer-urls http://127.0.0.1:2380 --initial-cluster default=http://127.0.0.1:2380
start kube-apiserver "$BIN/kube-apiserver" --etcd-servers=http://127.0.0.1:2379 --bind-address=0.0.0.0 \
  --advertise-address="$IP" --secure-port=6443 --cert-dir="$etc/certificates" --token-auth-file="$etc/tokens" \
  --authorization-mode=RBAC --service-cluster-ip-range=10.96.0.0/16 --allow-privileged=true \
  --service-account-issuer=test --service-account-key-file="$etc/key" \
  --service-account-signing-key-file="$etc/key" --kubelet-preferred-address-types=InternalIP
k() { kubectl --kubeconfig "$etc/kubeconfig" "$@"; }
n=0; until k get --raw /readyz > /dev/null 2>&1; do n=$((n + 1)); [ $n -lt 300 ]; sleep 1; done
start kube-controller-manager "$BIN/kube-controller-manager" --kubeconfig="$etc/kubeconfig" --leader-elect=false \
  --use-service-account-credentials=false --service-account-private-key-file="$etc/key"
start kube-scheduler "$BIN/kube-scheduler" --kubeconfig="$etc/kubeconfig" --leader-elect=false
mkdir -p "$etc/cni"
cat > "$etc/cni/10-pods.conflist" <<END
{"cniVersion": "0.4.0", "name": "pods", "plugins": [
  {"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": false, "hairpinMode": true,
   "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.200.0.0/24"}]], "dataDir": "$BASE/run/ipam",
            "routes": [{"dst": "0.0.0.0/0"}]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}]}
END
cat > "$etc/containerd.toml" <<END
version = 2
root = "$BASE/containerd"
state = "$BASE/run/containerd"
oom_score = 0
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.aufs"]
[grpc]
  address = "$BASE/run/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:1"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "$etc/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
END
start containerd containerd --config "$etc/containerd.toml"
cat > "$etc/kubelet.yaml" <<END
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: $IP
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
cgroupDriver: cgroupfs
cgroupRoot: /ablate-node
clusterDNS: ["$IP"]
clusterDomain: cluster.local
failSwapOn: false
oomScoreAdj: 0
resolvConf: ""
hairpinMode: none
evictionHard: {memory.available: 100Mi, nodefs.available: 1Gi}
evictionPressureTransitionPeriod: 10s
imageGCHighThresholdPercent: 99
serverTLSBootstrap: false
END
[ -z "${KUBELET_MORE:-}" ] || echo "$KUBELET_MORE" >> "$etc/kubelet.yaml"
n=0; until [ -S "$BASE/run/containerd.sock" ]; do n=$((n + 1)); [ $n -lt 60 ]; sleep 1; done
# A kubelet that ends is started again, as by systemd, with the configuration of then.
again='while :; do "$@" || true; sleep 1; done'
start kubelet sh -c "$again" kubelet "$BIN/kubelet" --config="$etc/kubelet.yaml" --kubeconfig="$etc/kubeconfig" --root-dir="$BASE/kubelet" \
  --cert-dir="$etc/kubelet-certificates" --hostname-override=ablate-node --node-ip="$IP" \
  ${KUBELET_FLAGS---container-runtime=remote --container-runtime-endpoint=unix://$BASE/run/containerd.sock}
start kube-proxy "$BIN/kube-proxy" --kubeconfig="$etc/kubeconfig" --hostname-override=ablate-node \
  --proxy-mode=iptables --conntrack-max-per-core=0 --conntrack-tcp-timeout-established=0 \
  --conntrack-tcp-timeout-close-wait=0 --oom-score-adj=0 --bind-address="$IP"
