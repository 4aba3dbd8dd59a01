#!/usr/bin/env bash
# Builds the named tools at the versions that tools/go.mod pins, unless they are
# there already, and prints the folder they are in. A change of tools/ or of Go itself
# makes a new folder, so an old binary is never taken for a new one.
set -euo pipefail
cd "$(dirname "$0")/.."

key=$({ go env GOVERSION; cat tools/go.mod tools/go.sum; } | sha256sum | cut -c 1-16)
dir=$PWD/.tools/$key
mkdir -p "$dir"
for name in "$@"; do
  [ ! -x "$dir/$name" ] || continue
  echo "building $name, once" >&2
  package=$(go -C tools list tool | grep "/$name\$")
  CGO_ENABLED=0 go -C tools build -trimpath -buildvcs=false -o "$dir/" "$package"
done
echo "$dir"
