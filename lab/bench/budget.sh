#!/usr/bin/env bash
# budget.sh measures where the processor time of a request goes: it loads an ensemble of three members on 127.0.0.1, takes a CPU
# profile of each meanwhile, and prints a table for each CASE of rollcall bench (default: a pipelined set and a pipelined create).
# It needs Go and curl, and a machine on which nothing else runs.
#
#   PROFILED (8)   seconds of each profile
#   PROFILES       directory for the profiles, which are kept if it is given
#   WORK           directory for data (default: a new one in TMPDIR)
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "$0")/../.."

profiled=${PROFILED:-8}
DATA=/nonexistent ADMIN=1
given=${WORK:-} WORK=${WORK:-$(mktemp -d)}
root=$WORK
. lab/bench/ensemble.sh
trap 'stop; [ -n "$given" ] || rm -rf "$WORK"' EXIT
build_programs
profiles=${PROFILES:-$WORK/profiles}
mkdir -p "$profiles"
profiles=$(cd "$profiles" && pwd)

# take_profiles NAME takes a profile of each member after the warm-up.
take_profiles() {
  local i taking=()
  sleep 1.5
  for i in 1 2 3; do
    curl -sSf -H "Authorization: Bearer $(cat "$(token)")" -o "$profiles/$1.$i" \
      "$(of "$i" admin)/debug/pprof/profile?seconds=$profiled" &
    taking+=($!)
  done
  for i in "${taking[@]}"; do wait "$i"; done
}

# by_role NAME prints the files of the profiles, the leader's first.
by_role() {
  local i leader="" others=""
  for i in 1 2 3; do
    if word "$i" srvr | grep -q 'Mode: leader'; then leader="$profiles/$1.$i"; else others+=" $profiles/$1.$i"; fi
  done
  echo "$leader$others"
}

# budget CASE measures a case and prints its table.
budget() {
  local name=${1//[^a-z0-9]/-} rate taking
  start Rollcall 3
  load 3 -warmup 0s -duration 1s mix:reads=50 >/dev/null
  take_profiles "$name" &
  taking=$!
  rate=$(load 3 -warmup 1s -duration "$((profiled + 1))s" "$1" | sed -n 's/.*"per_second": *\([0-9.]*\).*/\1/p' | head -n 1)
  wait "$taking"
  printf '\n%s: %.0f per second. Processor time of a request, in µs:\n\n' "$1" "$rate"
  # shellcheck disable=SC2046 # one word for each file
  go -C tools/figures run . budget "$rate" $(by_role "$name")
  stop
}

[ $# -gt 0 ] || set -- set:conns=8,window=64 create:conns=8,window=64
for case in "$@"; do budget "$case"; done
