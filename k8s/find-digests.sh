#!/bin/sh
# Prints k8s/components/digests/kustomization.yaml with the digests that the images of others have now.
#
#   sh k8s/find-digests.sh > digests.yaml
#   mv digests.yaml k8s/components/digests/kustomization.yaml
#
# It asks the registry through `docker buildx imagetools inspect`, which pulls nothing. A digest is that
# of the list of all architectures. For a mirror: MIRROR=registry.example/ sh k8s/find-digests.sh
set -eu
IMAGES='postgres:17-bookworm redis:7.2-bookworm chrislusf/seaweedfs:3.97'

found=''
for image in $IMAGES; do
  digest=$(docker buildx imagetools inspect "${MIRROR-}$image" --format '{{.Manifest.Digest}}')
  if ! printf '%s\n' "$digest" | grep -Eqx 'sha256:[0-9a-f]{64}'; then
    echo "find-digests.sh: the registry gave no digest of ${MIRROR-}$image, but '$digest'." >&2
    exit 1
  fi
  found="$found  - name: ${image%:*}  # ${image##*:}
    digest: $digest
"
  if [ -n "${MIRROR-}" ]; then
    found="$found    newName: $MIRROR${image%:*}
"
  fi
done
printf '%s\n' '# Written by k8s/find-digests.sh.' '---' \
  'apiVersion: kustomize.config.k8s.io/v1alpha1' 'kind: Component' 'images:'
printf '%s' "$found"
