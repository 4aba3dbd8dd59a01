#!/usr/bin/env bash
# Writes the tree as its owner publishes it, and proves that others can use it:
#
#   ci/publish-as.sh github.com/owner/rollcall DIRECTORY [VERSION]
#
# DIRECTORY, which must be empty or missing, gets
#
#   tree    a git repository with the tree under that path: one commit, and a tag for each module. No module that others use
#           replaces another one, so that "go install PATH/cmd/rollcall@v0.1.0" and "go get PATH/client@v0.1.0" work
#   proxy   those modules as a module proxy of files
#
# VERSION is without the v; the default is that of cmd/rollcall/version.go, without -dev. The commit and the zips have the time of the
# present commit, and so the same bytes whenever they are made.
#
# The proof is a stranger's: in empty directories, with the proxy of files, the binary is installed and started, and a program with the
# client is built and takes a lock. Modules of others come from this machine's module cache.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD

refuse() { echo "publish-as: $1" >&2; exit 2; }
path=${1:-} out=${2:-} version=${3:-$(sed -nE 's/^const release = "([0-9.]+)(-dev)?"$/\1/p' cmd/rollcall/version.go)}
[[ $path =~ ^[a-z0-9-]+(\.[a-z0-9-]+)+(/[A-Za-z0-9._~-]+)+$ ]] ||
  refuse "MODULE is \"$path\"; it must begin with a host, as in make publish-as MODULE=github.com/owner/rollcall OUT=directory"
[ -n "$out" ] || refuse "OUT is missing; it must be a directory, as in make publish-as MODULE=$path OUT=directory"
[[ $version =~ ^[0-9]+\.[0-9]+\.[0-9]+$ ]] || refuse "the version is \"$version\"; it must be three numbers, such as 0.1.0"
[ -z "$(ls -A "$out" 2>/dev/null)" ] || refuse "$out is not empty: name another directory"
mkdir -p "$out"
out=$(cd "$out" && pwd)
work=$(mktemp -d) server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null || true; rm -rf "$work"' EXIT

git() { command git -c safe.directory='*' "$@"; }
when=$(TZ=UTC git log -1 --format=%cd --date=format-local:%Y-%m-%dT%H:%M:%SZ)

# published are the directories of the modules that others use. Each one comes after those that it requires.
published="zk zk/kerberos client client/otel ."
module() { [ "$1" = . ] && echo "$path" || echo "$path/$1"; }

# write_tree copies the files of this tree and gives their modules the path. Modules for the work on the project still replace the
# others, because nobody installs them.
write_tree() {
  local dir required file
  mkdir "$out/tree"
  git ls-files -z --cached --others --exclude-standard | perl -0ne 'chomp; print "$_\0" if -e || -l' | tar --null -T - -cf - | tar -C "$out/tree" -xf -
  cd "$out/tree"
  ci/modulepath.sh "$path"
  while IFS= read -r -d '' file; do
    for dir in $published; do
      required=$(module "$dir")
      if grep -qE "^(require )?[[:space:]]*$required v" "$file"; then go mod edit -require="$required@v$version" "$file"; fi
    done
  done < <(find . -name go.mod -not -path '*/testdata/*' -print0)
  for dir in $published; do
    for required in $published; do go mod edit -dropreplace="$(module "$required")" "$dir/go.mod"; done
    (cd "$dir" && sed -i '/^\/\/ The modules of this tree\.$/d' go.mod && go mod edit -fmt go.mod)
  done
  cd "$root"
}

# write_proxy makes the zips of the modules, and writes the sum of each into the go.sum of those that require it.
write_proxy() {
  local dir name other
  (cd tools/pinned && CGO_ENABLED=0 go build -trimpath -buildvcs=false -o "$work/modulezip" ./modulezip)
  for dir in $published; do
    name=$(module "$dir")
    "$work/modulezip" -proxy "$out/proxy" -path "$name" -version "v$version" -time "$when" "$out/tree/$dir" >"$work/sums"
    for other in $published; do
      grep -qE "^(require )?[[:space:]]*$name v" "$out/tree/$other/go.mod" || continue
      touch "$out/tree/$other/go.sum"
      LC_ALL=C sort -o "$out/tree/$other/go.sum" "$out/tree/$other/go.sum" "$work/sums"
    done
  done
}

# write_tags commits the tree, with a tag for each module.
write_tags() {
  local dir prefix
  export GIT_AUTHOR_DATE=$when GIT_COMMITTER_DATE=$when
  export GIT_AUTHOR_NAME=Rollcall GIT_COMMITTER_NAME=Rollcall GIT_AUTHOR_EMAIL=rollcall@localhost GIT_COMMITTER_EMAIL=rollcall@localhost
  git init -q -b main "$out/tree"
  git -C "$out/tree" add -A
  git -C "$out/tree" commit -qm "Rollcall $version as $path"
  for dir in $published; do
    prefix=$dir/
    git -C "$out/tree" tag -a "${prefix#./}v$version" -m "Rollcall $version"
  done
}

# stranger sets up a machine that has neither this tree nor its modules, and no network. The go.sum of this tree has checked the modules
# of others in this machine's cache.
stranger() {
  local cache
  cache=$(go env GOMODCACHE)
  go list -deps ./cmd/rollcall >/dev/null # all that the binary needs is in the cache
  export GOPROXY="file://$out/proxy,file://$cache/cache/download,off" GOMODCACHE=$work/cache GOSUMDB=off GOWORK=off
  export GOFLAGS='-modcacherw -trimpath' GOBIN=$work/bin CGO_ENABLED=0
}

# prove_binary installs and starts the binary, and sets hosts to its address.
prove_binary() {
  (cd "$work" && go install "$path/cmd/rollcall@v$version") 2>"$work/install" || { cat "$work/install" >&2; return 1; }
  "$work/bin/rollcall" version
  printf 'dataDir=%s\nclientPortAddress=127.0.0.1\nclientPort=0\nadmin.enableServer=false\n' "$work/data" >"$work/zoo.cfg"
  mkdir "$work/data"
  "$work/bin/rollcall" serve "$work/zoo.cfg" >"$work/log" 2>&1 &
  server=$!
  for _ in $(seq 300); do
    grep -q 'clients are served' "$work/log" && break
    kill -0 "$server" 2>/dev/null || break
    sleep 0.1
  done
  hosts=$(sed -nE 's/.*msg="member starts".* clients=([0-9.:]+) .*/\1/p' "$work/log")
  grep -q 'clients are served' "$work/log" && [ -n "$hosts" ] || { cat "$work/log" >&2; echo "publish-as: the installed binary serves no client" >&2; return 1; }
}

# prove_client builds a program outside of the tree, which takes a lock from that server.
prove_client() {
  mkdir "$work/program"
  cat >"$work/program/main.go" <<EOF
// Command stranger takes a lock.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"$path/client"
	"$path/client/lock"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := client.Dial(ctx, os.Args[1], client.Config{})
	if err != nil {
		log.Fatal(err)
	}
	right, err := lock.NewMutex(c, "/lock", lock.Config{}).Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("the lock is held with token", right.Token())
	if err := c.Close(ctx); err != nil {
		log.Fatal(err)
	}
}
EOF
  (cd "$work/program" && go mod init stranger && go get "$path/client@v$version" && go build -o stranger .) 2>"$work/get" || { cat "$work/get" >&2; return 1; }
  "$work/program/stranger" "$hosts" | tee "$work/taken"
  grep -q '^the lock is held with token [0-9]' "$work/taken"
}

write_tree
write_proxy
write_tags
stranger
(cd "$out/tree" && go list -mod=readonly -deps ./cmd/rollcall >/dev/null) # its go.sum is complete
prove_binary
prove_client
echo "publish-as: $out/tree has the tags $(git -C "$out/tree" tag | paste -sd ' '); nothing is pushed"
