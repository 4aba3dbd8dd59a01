#!/usr/bin/env bash
# Measures our own data structures against libraries and prints a table of medians, over ROUNDS
# rounds (default 5) of BENCHTIME (default 60ms) each. The comments in znode/index.go and
# znode/sorted.go have the outcome. With the argument vet it only checks that the benchmarks still compile.
set -euo pipefail
cd "$(dirname "$0")/.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp tools/structures/* "$work"
sed -i '/^\/\/go:build/d' "$work/structures_test.go"
for file in znode/index.go znode/sorted.go; do
  sed 's/^package .*/package structures/' "$file" >"$work/$(basename "$file")"
done
cd "$work"
go vet .
[ "${1:-}" != vet ] || exit 0

go test -c -o run.test .
for _ in $(seq "${ROUNDS:-5}"); do
  ./run.test -test.run '^$' -test.bench . -test.benchtime "${BENCHTIME:-60ms}" >>measured
done

# A line of input has a benchmark, its number of runs, and pairs of a number and its unit. A row of the
# table has one operation at one size: the times, and the memory of an entry or of an operation.
awk '
  function median(key, unit,   i, j, t, v, k) {
    k = count[key, unit]
    if (k == 0) return "-"
    for (i = 1; i <= k; i++) v[i] = value[key, unit, i]
    for (i = 2; i <= k; i++) for (j = i; j > 1 && v[j-1] > v[j]; j--) { t = v[j]; v[j] = v[j-1]; v[j-1] = t }
    return sprintf(v[int((k+1)/2)] < 100 ? "%.1f" : "%.0f", v[int((k+1)/2)])
  }
  /^Benchmark/ {
    key = $1; sub(/-[0-9]+$/, "", key); sub(/^Benchmark/, "", key)
    if (!(key in seen)) { seen[key] = 1; keys[++n] = key }
    for (i = 4; i <= NF; i += 2) value[key, $i, ++count[key, $i]] = $(i-1)
  }
  END {
    print "| operation | entries | ns | bytes |"
    print "|---|---|---|---|"
    for (i = 1; i <= n; i++) {
      split(keys[i], p, "/")
      row = p[1] " " p[2] " | " p[3]
      if (!(row in times)) rows[++m] = row
      times[row] = times[row] (times[row] ? ", " : "") p[4] " " median(keys[i], "ns/op")
      bytes = median(keys[i], "B/entry")
      if (bytes == "-") bytes = median(keys[i], "B/op")
      if (bytes != "-") sizes[row] = sizes[row] (sizes[row] ? ", " : "") p[4] " " bytes
    }
    for (i = 1; i <= m; i++) print "| " rows[i] " | " times[rows[i]] " | " sizes[rows[i]] " |"
  }' measured
