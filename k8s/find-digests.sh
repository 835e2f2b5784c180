#!/bin/sh
# Fill in the digest of Postgres' image, which no pod of overlays/kuberay and overlays/kueue starts
# without, in k8s/components/images/kustomization.yaml:
#
#   sh k8s/find-digests.sh
#
# It asks the registry through skopeo, or else `docker buildx`; neither pulls anything. The digest is
# that of the list of all architectures. A mirror's image: POSTGRES=registry.example/postgres:17-bookworm
set -eu
image=${POSTGRES:-postgres:17-bookworm}
file=$(dirname "$0")/components/images/kustomization.yaml
if command -v skopeo > /dev/null; then
  digest=$(skopeo inspect --format '{{.Digest}}' "docker://$image")
else
  digest=$(docker buildx imagetools inspect "$image" --format '{{.Manifest.Digest}}')
fi
if ! printf '%s\n' "$digest" | grep -Eqx 'sha256:[0-9a-f]{64}'; then
  echo "find-digests.sh: the registry gave no digest of $image, but '$digest'." >&2
  exit 1
fi
sed "/- name: postgres/,\$ {s|newName: .*|newName: ${image%:*}|; s|digest: .*|digest: $digest|}" "$file" > "$file.new"
mv "$file.new" "$file"
