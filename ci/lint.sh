#!/usr/bin/env bash
# Checks the format, runs the linters, of which go vet is one, checks that the modules are tidy, and compares the generated
# code with what proto/rollcall.proto generates. With the argument "tools" it only builds the tools that it needs.
set -euo pipefail
cd "$(dirname "$0")/.."

PATH=$(ci/tools.sh buf protoc-gen-go protoc-gen-go-grpc gofumpt golangci-lint):$PATH
[ "${1:-}" != tools ] || exit 0
fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT
failed=0

unformatted=$(gofumpt -l .)
[ -z "$unformatted" ] || { printf 'gofumpt would change:\n%s\n' "$unformatted"; failed=1; }

golangci-lint run ./... || failed=1
(cd zk && golangci-lint run ./...) || failed=1
(cd client && golangci-lint run ./...) || failed=1
(cd tools/figures && golangci-lint run ./...) || failed=1
(cd integration/observing && golangci-lint run ./...) || failed=1
(cd tools/pinned && golangci-lint run ./...) || failed=1
(cd tools/chart && golangci-lint run ./...) || failed=1
ci/structures.sh vet || failed=1
for module in . zk client tools/figures tools/chart tools/structures integration/observing tools/pinned; do
  go -C "$module" mod tidy -diff || { echo "$module/go.mod is not tidy: go -C $module mod tidy"; failed=1; }
done

buf generate proto --template proto/buf.gen.yaml -o "$fresh"
for file in "$fresh"/*.go proto/*.pb.go; do
  cmp -s "$fresh/${file##*/}" "proto/${file##*/}" || { echo "proto/${file##*/} is not what rollcall.proto says: make proto"; failed=1; }
done
exit $failed
