#!/usr/bin/env bash
# Builds all packages of the present commit into the directory OUT (default dist):
#
#   rollcall-VERSION-OS-ARCH.tar.gz   the static binary, manual pages, documentation, alerts, the licences of all that is in it
#   rollcall_VERSION_ARCH.deb         the same for Debian and Ubuntu, with a unit for systemd
#   rollcall-VERSION-1.ARCH.rpm       the same for systems with rpm
#   rollcall-VERSION-OS-ARCH.image.tar.gz  the container image, for docker load; neither needs Docker to be made
#   *.cdx.json                        SBOMs of the binaries, in the format of CycloneDX
#   SHA256SUMS
#
# TARGETS (default: all) are the systems, such as "linux/amd64 linux/arm64". The same commit, built by the
# same version of Go, gives the same bytes: times are those of the commit, or of SOURCE_DATE_EPOCH. Outside of a git checkout the
# commit is unknown, and times are the beginning of 1980.
set -euo pipefail
cd "$(dirname "$0")/../.."

out=$(mkdir -p "${OUT:-dist}" && cd "${OUT:-dist}" && pwd)
targets=${TARGETS:-linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 freebsd/amd64 freebsd/arm64}
export CGO_ENABLED=0 TZ=UTC LC_ALL=C
umask 022

git() { command git -c safe.directory='*' "$@" 2>/dev/null; }
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct || echo 315532800)}
export SOURCE_DATE_EPOCH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
PATH=$(ci/tools.sh nfpm):$PATH

# A build of a version that is not released yet says which commit it is.
version=$(sed -nE 's/^const release = "(.*)"$/\1/p' cmd/rollcall/version.go)
commit=$(git log -1 --format=%cd.%h --abbrev=12 --date=format:%Y%m%d || echo unknown)
[[ $version != *-dev ]] || version+=.$commit
[ -z "$(git status --porcelain --untracked-files=no || true)" ] || version+=.modified

# binary OS/ARCH FILE builds the binary, without the symbols that only a debugger needs. It does not build
# that of this machine twice.
host=$(go env GOHOSTOS)/$(go env GOHOSTARCH)
binary() {
  if [ "$1" = "$host" ] && [ -e "$work/host" ]; then
    cp "$work/host" "$2"
  else
    GOOS=${1%/*} GOARCH=${1#*/} go build -trimpath -buildvcs=false -ldflags "-s -w $(ci/stamp.sh)" -o "$2" ./cmd/rollcall
  fi
}

# docs DIRECTORY writes the manual pages and the completions of shells.
docs() {
  binary "$host" "$work/host"
  go build -tags manualpages -trimpath -buildvcs=false -ldflags "-s -w $(ci/stamp.sh)" -o "$work/manualpages" ./cmd/rollcall
  "$work/manualpages" man "$1/man"
  mkdir -p "$1/completions"
  for shell in bash zsh fish; do "$work/host" completion "$shell" >"$1/completions/rollcall.$shell"; done
}

# tarball DIRECTORY packs a directory of $work.
tarball() {
  tar -C "$work" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -cf - "$1" | gzip -9n >"$out/$1.tar.gz"
}

# image ARCH DIRECTORY makes the archive of the container image of deploy/Dockerfile: one layer with the binary and an empty /data.
image() {
  local stage=$work/image-$1 name=${2##*/} config layer
  mkdir -p "$stage/root/data" "$stage/$name.image"
  cp "$2/rollcall" "$stage/root/rollcall"
  layer=$stage/$name.image/layer.tar
  tar -C "$stage/root" --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -cf "$layer" rollcall
  tar -C "$stage/root" --mtime="@$SOURCE_DATE_EPOCH" --owner=1000 --group=1000 --numeric-owner -rf "$layer" data
  go -C tools/pinned run ./imageconfig -arch "$1" -version "$version" -created "$SOURCE_DATE_EPOCH" -layer "$layer" ../../deploy/Dockerfile >"$stage/config.json"
  config=$(sha256sum "$stage/config.json" | cut -d ' ' -f 1).json
  mv "$stage/config.json" "$stage/$name.image/$config"
  printf '[{"Config":"%s","RepoTags":["rollcall:%s"],"Layers":["layer.tar"]}]\n' "$config" "$version" >"$stage/$name.image/manifest.json"
  tar -C "$stage/$name.image" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -cf - "$config" layer.tar manifest.json | gzip -9n >"$out/$name.image.tar.gz"
}

# linux ARCH DIRECTORY makes the packages of a directory for Debian and for rpm.
linux() {
  local stage=$work/linux-$1 page packager
  mkdir -p "$stage/man"
  for page in "$2"/man/*; do gzip -9nc "$page" >"$stage/man/${page##*/}.gz"; done
  { cat deploy/packages/copyright; cat "$2/LICENSES.txt"; } >"$stage/copyright"
  # ~ sorts before the end of a version: 0.1.0~dev is older than 0.1.0
  for packager in deb rpm; do
    PACKAGE_ARCH=$1 PACKAGE_VERSION=${version/-/\~} STAGE=$stage DIRECTORY=$2 \
      nfpm package --packager "$packager" --config deploy/packages/nfpm.yaml --target "$out/" >"$work/nfpm" || { cat "$work/nfpm" >&2; return 1; }
  done
}

rm -f -- "$out"/rollcall[-_]*.{tar.gz,deb,rpm,cdx.json} "$out/SHA256SUMS"
docs "$work/docs"
for target in $targets; do
  os=${target%/*} arch=${target#*/}
  name=rollcall-$version-$os-$arch
  directory=$work/$name
  mkdir -p "$directory"
  binary "$target" "$directory/rollcall"
  go -C tools/pinned run ./inventory -version "$version" -sbom "$out/$name.cdx.json" -licences "$directory/LICENSES.txt" "$directory/rollcall"
  cp -r "$work/docs/." deploy/packages/zoo.cfg LICENSE CHANGELOG.md "$directory/"
  cp --parents README.md docs/*.md docs/{commands,guide,performance,recipes}/*.md docs/performance/*.csv deploy/alerts.yml deploy/grafana/rollcall.json "$directory/"
  [ "$os" != linux ] || cp deploy/systemd/rollcall.service deploy/systemd/rollcall.sysusers "$directory/"
  tarball "$name"
  [ "$os" != linux ] || { linux "$arch" "$directory"; image "$arch" "$directory"; }
  echo "$target"
done
cd "$out"
shopt -s nullglob # macOS and FreeBSD have neither deb nor rpm
sha256sum -- *.tar.gz *.deb *.rpm *.cdx.json >SHA256SUMS
cat SHA256SUMS
