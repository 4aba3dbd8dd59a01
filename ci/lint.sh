#!/usr/bin/env bash
# Checks the format, runs the linters (go vet, errcheck, errorlint, ineffassign, staticcheck), checks that the modules are tidy,
# and compares the generated code with what proto/rollcall.proto generates. With the argument "tools" it only builds the tools
# that it needs. staticcheck reads the source of all dependencies: with "all" it also checks the modules of tools, whose
# dependencies are large.
set -euo pipefail
cd "$(dirname "$0")/.."

tools=$(ci/tools.sh analyzers protogen protoc-gen-go protoc-gen-go-grpc gofumpt staticcheck)
[ "${1:-}" != tools ] || exit 0
PATH=$tools:$PATH
fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT
failed=0

unformatted=$(gofumpt -l .)
[ -z "$unformatted" ] || { printf 'gofumpt would change:\n%s\n' "$unformatted"; failed=1; }

# All checks but the quick fixes, which are a matter of taste, and the exact forms of doc comments.
checks() { staticcheck -checks "all,-QF*,-ST1020,-ST1021,-ST1022" "$@"; }

own="./... rollcall/client/... rollcall/zk/... rollcall/zk/kerberos/..."
go vet $own && go vet -vettool="$tools/analyzers" $own && checks $own || failed=1
# The modules of tools and client/otel are vetted with the flags of ci/tools.sh and of their tests: what all of them need is compiled once.
vet_tools() { CGO_ENABLED=0 go -C "$module" vet -trimpath "$@" ./...; }
for module in client/otel tools/figures tools/chart tools/pinned integration/observing integration/bucket integration/kubernetes; do
  vet_tools && vet_tools -vettool="$tools/analyzers" || failed=1
  [ "${1:-}" != all ] || (cd "$module" && checks ./...) || failed=1
done
ci/structures.sh vet || failed=1
for module in . zk zk/kerberos client client/otel tools/figures tools/chart tools/structures integration/observing integration/bucket integration/kubernetes integration/kubernetes/controlplane tools/pinned; do
  go -C "$module" mod tidy -diff || { echo "$module/go.mod is not tidy: go -C $module mod tidy"; failed=1; }
done

protogen proto/rollcall.proto "$fresh" protoc-gen-go protoc-gen-go-grpc
for file in "$fresh"/*.go proto/*.pb.go; do
  cmp -s "$fresh/${file##*/}" "proto/${file##*/}" || { echo "proto/${file##*/} is not what rollcall.proto says: make proto"; failed=1; }
done
exit $failed
