#!/usr/bin/env bash
# Packs the Helm chart into OUT (default dist), as helm package does: rollcall-VERSION.tgz. The same commit gives the same bytes. Helm is
# not needed. Links in the chart become the files that they name.
set -euo pipefail
cd "$(dirname "$0")/../.."
export TZ=UTC LC_ALL=C
umask 022
out=$(mkdir -p "${OUT:-dist}" && cd "${OUT:-dist}" && pwd)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -c safe.directory='*' log -1 --format=%ct 2>/dev/null || echo 315532800)}
version=$(sed -nE 's/^version: (.*)$/\1/p' deploy/chart/Chart.yaml)
tar -C deploy --dereference --transform 's|^chart|rollcall|' --sort=name --mtime="@$SOURCE_DATE_EPOCH" --mode=u=rwX,go=rX \
  --owner=0 --group=0 --numeric-owner -cf - chart | gzip -9n >"$out/rollcall-$version.tgz"
echo "$out/rollcall-$version.tgz"
