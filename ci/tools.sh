#!/usr/bin/env bash
# Builds the named tools at the versions in tools/pinned/go.mod, unless they have been built already, and
# prints their directory. The directory's name depends on their sources and versions, and on that of Go, so an
# old binary is never used after one of these has changed.
set -euo pipefail
cd "$(dirname "$0")/.."

key=$({ go env GOVERSION; cat tools/pinned/go.mod tools/pinned/go.sum tools/pinned/{analyzers,protogen}/*.go; } | sha256sum | cut -c 1-16)
dir=$PWD/.tools/$key
mkdir -p "$dir"
for name in "$@"; do
  [ ! -x "$dir/$name" ] || continue
  echo "building $name, once" >&2
  package=$(go -C tools/pinned list tool | grep "/$name\$")
  CGO_ENABLED=0 go -C tools/pinned build -trimpath -buildvcs=false -o "$dir/" "$package"
done
echo "$dir"
