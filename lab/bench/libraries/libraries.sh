#!/bin/bash
# Compares package client with github.com/go-zookeeper/zk, and prints a table: lab/bench/libraries/libraries.sh [ROUNDS]
#
# It starts an ensemble of three members and then one of one member on 127.0.0.1, and runs each benchmark by turns,
# ROUNDS times (5). A cell is the median. It writes to a directory in TMPDIR alone.
set -euo pipefail
cd "$(dirname "$0")/../../.."
rounds=${1:-5}
port=${PORT:-24181}
time=${BENCHTIME:-2s}
only=${ONLY:-.}
work=$(mktemp -d)
chmod 700 "$work"
pid=""
stop() { if [ -n "$pid" ]; then kill "$pid" 2>/dev/null || true; wait "$pid" 2>/dev/null || true; pid=""; fi; }
trap 'stop; rm -rf "$work"' EXIT
go build -o "$work/rollcall" ./cmd/rollcall
go test -c -o "$work/libraries.test" ./lab/bench/libraries

# measure MEMBERS runs all benchmarks on an ensemble.
measure() {
  local list="" i
  "$work/rollcall" up --data "$work/data-$1" --members "$1" --port "$port" >"$work/up-$1" 2>&1 &
  pid=$!
  for ((i = 0; i < $1; i++)); do list+=",127.0.0.1:$((port + i))"; done
  until "$work/rollcall" ls --hosts "${list#,}" / >/dev/null 2>&1; do kill -0 "$pid"; done
  for ((i = 0; i < rounds; i++)); do
    SERVERS=${list#,} "$work/libraries.test" -test.run '^$' -test.bench "$only" -test.benchtime "$time" |
      grep ^Benchmark | sed "s/^/$1 /" >>"$work/lines"
  done
  stop
}
measure 3
measure 1

# A line is: members, Benchmark…/library-CPUs, repetitions, then pairs of a value and its unit.
awk '
  { split($2, part, "/"); sub(/^Benchmark/, "", part[1]); sub(/-[0-9]+$/, "", part[2])
    for (i = 4; i < NF; i += 2) {
      unit = $(i + 1)
      if (part[1] == "IdleSession" && unit != "B/session" || part[1] == "LockHandOver" && unit == "ns/op" ||
        part[1] == "ThousandContenders" && unit != "µs/holder") continue
      row = $1 "\t" part[1] "\t" unit; if (!(row in seen)) { seen[row] = 1; rows[++n] = row }
      value[row, part[2], ++count[row, part[2]]] = $i
    } }
  function median(row, lib,   k, m, a, i, j, t) {
    m = count[row, lib]; if (!m) return "-"
    for (k = 1; k <= m; k++) a[k] = value[row, lib, k] + 0
    for (i = 2; i <= m; i++) for (j = i; j > 1 && a[j] < a[j - 1]; j--) { t = a[j]; a[j] = a[j - 1]; a[j - 1] = t }
    return sprintf("%.0f", a[int((m + 1) / 2)])
  }
  END {
    print "| Members | Benchmark | Unit | client | go-zookeeper/zk |"; print "|---|---|---|---:|---:|"
    for (i = 1; i <= n; i++) { split(rows[i], f, "\t")
      printf "| %s | %s | %s | %s | %s |\n", f[1], f[2], f[3], median(rows[i], "client"), median(rows[i], "go-zookeeper") }
  }' "$work/lines"
