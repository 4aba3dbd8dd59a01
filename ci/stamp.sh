#!/usr/bin/env bash
# Prints the linker's flag that puts the commit and its date into the binary, for "rollcall version" and
# the four-letter command srvr. It prints nothing outside of a git checkout. The checkout may belong to
# another user.
set -euo pipefail
cd "$(dirname "$0")/.."

git() { command git -c safe.directory='*' "$@" 2>/dev/null; }
last=$(git log -1 --format=%H,%cI) || exit 0
[ -z "$(git status --porcelain --untracked-files=no)" ] || last=${last/,/-modified,}
echo "-X main.stamp=$last"
