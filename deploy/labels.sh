#!/usr/bin/env bash
# Prints the options of docker build that label the image with the version and the commit of bin/rollcall.
# It prints no commit outside of a git checkout.
set -euo pipefail
cd "$(dirname "$0")/.."

label() { printf -- '--label org.opencontainers.image.%s=%s\n' "$1" "$2"; }
label version "$(sed -nE 's/^const release = "(.*)"$/\1/p' cmd/rollcall/version.go)"
stamp=$(ci/stamp.sh)
if [ -n "$stamp" ]; then
  commit=${stamp#*=}
  label revision "${commit%%,*}"
  label created "${commit#*,}"
fi
