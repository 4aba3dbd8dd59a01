#!/usr/bin/env bash
# Runs every fuzz target of the modules for FUZZTIME each, a number of inputs (default ROLLCALL_FUZZ, or else 20000x) or a time
# (1h). It also fails if a target of the tree did not run.
#
# With a time, Go 1.26 sometimes reports "context deadline exceeded", and writes the input that it was
# shortening as a failing one, although nothing was found. So the default is a number. Inputs are shortened
# 10 times at most: otherwise Go spends most of the run on that.
set -euo pipefail
cd "$(dirname "$0")/.."

fuzztime=${FUZZTIME:-${ROLLCALL_FUZZ:-20000x}}
[[ $fuzztime =~ [1-9] ]] || { echo "FUZZTIME=$fuzztime: want a time or a count above 0" >&2; exit 2; }

# module prints the directory of a package's module. Go fuzzes a package only from there.
module() { go list -f '{{.Module.Dir}}' "$1"; }

# An input of FuzzExpenses is a whole history of expensive requests and takes 30 ms, so by default it gets 1,000.
fuzz() {
  local began=$SECONDS fuzztime=$fuzztime
  [ "$2" != FuzzExpenses ] || [ -n "${FUZZTIME:-}" ] || fuzztime=1000x
  echo "fuzz $1 $2"
  go -C "$(module "$1")" test -run '^$' -fuzz "^$2\$" -fuzztime "$fuzztime" -fuzzminimizetime 10x "$1" && echo "fuzz $2: $((SECONDS - began)) s"
}

# For each package go prints one line for each fuzz target, and then "ok package seconds".
listed=$(go test -list '^Fuzz' ./... rollcall/client/... rollcall/zk/... rollcall/zk/kerberos/...)
found=0 failed=0 targets=()
while read -r word package _; do
  case $word in
    Fuzz*) targets+=("$word") ;;
    ok)
      for target in "${targets[@]}"; do
        found=$((found + 1))
        fuzz "$package" "$target" </dev/null || failed=$((failed + 1))
      done
      targets=()
      ;;
  esac
done <<<"$listed"

echo "fuzz targets run: $found, failed: $failed"
written=$(grep -rhE '^func Fuzz' --include='*_test.go' . | wc -l)
[ "$found" -eq "$written" ] || { echo "the tree has $written fuzz targets"; exit 1; }
[ "$failed" -eq 0 ]
