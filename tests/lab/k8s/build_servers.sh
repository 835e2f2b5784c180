#!/bin/sh
# Build a Kubernetes control plane, and what a node needs, from Debian 12's packages:
#
#   sh tests/lab/k8s/build_servers.sh FOLDER
#
# Leaves etcd, the servers, kubelet and pause in FOLDER/bin. Minutes on idle cores, an hour on busy
# ones, 3 GB of disk meanwhile. Needs apt, dpkg-dev and gcc, but not root: it installs nothing, and
# all that it fetches lies in FOLDER.
set -eu
mkdir -p "$1"
folder=$(cd "$1" && pwd)
work=$folder/build
rm -rf "$work"
mkdir -p "$work/sources" "$work/lists" "$work/cache" "$work/root" "$work/bin"
cd "$work"

# The machine's own sources of packages, with those of source code added.
for file in /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list; do
  [ -r "$file" ] || continue
  sed -e 's/^Types: deb *$/Types: deb deb-src/' -e 's/^deb \(.*\)/&\ndeb-src \1/' "$file" \
    > "sources/debian.${file##*.}"
done
apt() {
  apt-get -qq -o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts="$work/sources" \
    -o Dir::State::Lists="$work/lists" -o Dir::Cache="$work/cache" \
    -o APT::Sandbox::User="$(id -un)" "$@"
}
apt update
apt download etcd-server golang-1.19-go golang-1.19-src golang-github-modern-go-reflect2-dev
for package in *.deb; do dpkg-deb --extract "$package" root; done
mkdir -p go/src/k8s.io
apt source kubernetes
mv kubernetes-*/ go/src/k8s.io/kubernetes
# The sources' own copy of this library crashes under Go 1.18 and later.
newer=github.com/modern-go/reflect2
rm -r "go/src/k8s.io/kubernetes/vendor/$newer"
cp -r "root/usr/share/gocode/src/$newer" "go/src/k8s.io/kubernetes/vendor/$newer"

export GOROOT="$work/root/usr/lib/go-1.19" GOPATH="$work/go" GOCACHE="$folder/gocache" GOFLAGS=''
export GO111MODULE=off CGO_ENABLED=0 PATH="$work/root/usr/lib/go-1.19/bin:$PATH"
cd go/src/k8s.io/kubernetes

# One file of the sources is generated, from the packages whose comments ask for it.
go build -o "$work/openapi-gen" ./vendor/k8s.io/kube-openapi/cmd/openapi-gen
asking=$(grep -rlE '^// *\+k8s:openapi-gen=' --include='*.go' pkg vendor/k8s.io/*/ |
  grep -v -e /code-generator/ -e /sample-apiserver/ | xargs -n1 dirname | sort -u)
"$work/openapi-gen" -i "$(printf 'k8s.io/kubernetes/%s,' $asking | sed 's/,$//')" \
  -p k8s.io/kubernetes/pkg/generated/openapi -O zz_generated.openapi \
  -h vendor/k8s.io/code-generator/hack/boilerplate.go.txt -r "$work/violations"

version=$(dpkg-parsechangelog -S Version | sed 's/.*really//; s/-.*//')
stamp=k8s.io/component-base/version
# Without the clouds' own code, which takes half of the time and which no test asks for.
go build -tags providerless -o "$work/bin/" \
  -ldflags "-s -w -X $stamp.gitMajor=1 -X $stamp.gitMinor=20 -X $stamp.gitVersion=v$version" \
  ./cmd/kube-apiserver ./cmd/kube-controller-manager ./cmd/kube-scheduler ./cmd/kube-proxy \
  ./cmd/kubelet
gcc -Os -static -o "$work/bin/pause" build/pause/linux/pause.c
cp "$work/root/usr/bin/etcd" "$work/bin/"
rm -rf "$folder/bin"
mv "$work/bin" "$folder/bin"
cd /
rm -rf "$work" "$folder/gocache"
