#!/bin/sh
# An OCI image where no base image can be pulled: Debian's packages, then deploy/Dockerfile. As root, with mmdebstrap and buildah:
#   sh deploy/image.sh FOLDER && skopeo copy oci:FOLDER:trnbot docker://REGISTRY/trnbot:0.1.0
set -eu
folder=$1
source=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

built() {
  STORAGE_DRIVER=vfs buildah --root "$work/images" --runroot "$work/run" "$@"
}

mmdebstrap --variant=minbase --include=python3,python3-venv,python-is-python3,ca-certificates,passwd \
  "${SUITE:-bookworm}" "$work/base.tar"
printf 'FROM scratch\nADD base.tar /\nENV PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin\n' > "$work/Dockerfile"
built bud --isolation chroot -t localhost/python "$work"

# pip trusts what the machine trusts: a proxy may have a certificate of its own
built bud --isolation chroot -v /etc/ssl/certs:/etc/ssl/certs:ro --build-arg PYTHON=localhost/python \
  -t localhost/trnbot -f "$source/deploy/Dockerfile" "$source"
built push localhost/trnbot "oci:$folder:trnbot"
