#!/usr/bin/env bash
# Makes the release VERSION from the present commit: all packages in dist, built twice with the same bytes, and the tag vVERSION. It pushes
# nothing. It refuses a dirty tree, a version that the sources do not have, a version without a date in CHANGELOG.md, and a tag that is there.
set -euo pipefail
cd "$(dirname "$0")/../.."

refuse() { echo "release: $1" >&2; exit 1; }
version=${1:-}
[[ $version =~ ^[0-9]+\.[0-9]+\.[0-9]+$ ]] || refuse "the version is \"$version\"; it must be three numbers, such as make release VERSION=0.1.0"
[ -z "$(git status --porcelain)" ] || refuse "the tree has changes that are not committed: commit or remove them, git status lists them"
grep -qxF "const release = \"$version\"" cmd/rollcall/version.go || refuse "cmd/rollcall/version.go does not say $version: set release there, and commit it"
grep -qE "^## ${version//./\\.} \([0-9]{4}-[0-9]{2}-[0-9]{2}\)$" CHANGELOG.md || refuse "CHANGELOG.md has no line \"## $version (YEAR-MONTH-DAY)\": write it, and commit it"
! git rev-parse -q --verify "refs/tags/v$version" >/dev/null || refuse "the tag v$version is there already: a release is made once"

again=$(mktemp -d)
trap 'rm -rf "$again"' EXIT
deploy/packages/build.sh
OUT=$again deploy/packages/build.sh >/dev/null
out=$(cd "${OUT:-dist}" && pwd)
cmp "$out/SHA256SUMS" "$again/SHA256SUMS" || refuse "a second build has other bytes"
git tag -a "v$version" -m "Rollcall $version"
echo "release: $out and the tag v$version are made; nothing is pushed"
