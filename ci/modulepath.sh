#!/usr/bin/env bash
# Gives the modules of this tree another path, such as where they are published:
#
#   ci/modulepath.sh github.com/example/rollcall
#
# The client becomes github.com/example/rollcall/client, and so on. It changes imports, the go.mod files and the
# commands that name packages, and leaves the rest of the tree alone. Commit what it changed. ci/publish-as.sh does that, and makes tags.
set -euo pipefail
cd "$(dirname "$0")/.."

new=${1:-}
[[ $new =~ ^[A-Za-z0-9.~_-]+(/[A-Za-z0-9.~_-]+)*$ ]] || {
  echo "usage: ci/modulepath.sh PATH, such as github.com/example/rollcall" >&2
  exit 2
}
old=$(sed -n 's/^module //p' go.mod)

files() { find . -path './.?*' -prune -o -path ./bin -prune -o -path ./dist -prune -o -type f \( "$@" \) -print0; }
changed() { xargs -0 env OLD="$old" NEW="$new" perl -pi -e "$1"; }

# Imports: a line of its own, or after the word import. The names of packages in strings, such as "PATH/cmd/rollcall",
# begin with a directory of the tree.
files -name '*.go' | changed 's{^(\s*(?:import )?(?:[\w.]+ )?)"\Q$ENV{OLD}\E(?=[/"])}{$1"$ENV{NEW}} if m{^\s*(?:import )?(?:[\w.]+ )?"[^"]*"\s*(?://.*)?$};
  s{"\Q$ENV{OLD}\E/(?=(client|zk|zk/kerberos)/\.\.\."|client/examples/|cmd/rollcall"|")}{"$ENV{NEW}/}g'
# The commands of the guide.
files -path './docs/guide/*.md' | changed 's{(?<=-replace )\Q$ENV{OLD}\E/}{$ENV{NEW}/}g'
files -name go.mod | changed 's{(^|\s)\Q$ENV{OLD}\E(?=(/\S+)?(\s|$))}{$1$ENV{NEW}}g'
files -path './ci/*.sh' -o -path './lab/bench/*.sh' -o -name Makefile | changed 's{(?<![\w./-])\Q$ENV{OLD}\E/(?=client|zk|integration|cmd/)}{$ENV{NEW}/}g'
