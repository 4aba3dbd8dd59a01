#!/usr/bin/env bash
# Runs every fuzz target of the module for FUZZTIME (default 20s) each. It fails, too, if a
# package has fewer targets than ci/least-tests says.
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/suite.sh

fuzztime=${FUZZTIME:-20s}
[[ $fuzztime =~ [1-9] ]] || { echo "FUZZTIME=$fuzztime: want a time or a count above 0" >&2; exit 2; }

out=$(mktemp) passed=$(mktemp)
trap 'rm -f "$out" "$passed"' EXIT

# fuzz runs one target. Only its first end by the clock may be a fault of Go's: the
# fuzzer sometimes takes its own deadline for a failure (Go 1.26: the child context is
# compared with its parent's error before it has it). Then nothing was found, and the
# target runs once more. A finding names the file with the failing input.
fuzz() {
  local package=$1 target=$2
  echo "fuzz $package $target"
  ! go test -run '^$' -fuzz "^$target\$" -fuzztime "$fuzztime" "$package" 2>&1 | tee "$out" || return 0
  if grep -q '^ *context deadline exceeded$' "$out" && ! grep -q 'Failing input written to' "$out"; then
    echo "fuzz $package $target: ended by Go's own deadline, again"
    go test -run '^$' -fuzz "^$target\$" -fuzztime "$fuzztime" "$package"
    return
  fi
  return 1
}

# One line "target" per fuzz target, then "ok package seconds".
listed=$(go test -list '^Fuzz' ./...)
found=0 failed=0 targets=()
while read -r word package _; do
  case $word in
    Fuzz*) targets+=("$word") ;;
    ok)
      for target in "${targets[@]}"; do
        found=$((found + 1))
        if fuzz "$package" "$target" </dev/null; then
          echo "--- PASS: $target" >>"$passed"
        else
          failed=$((failed + 1))
        fi
      done
      [ ${#targets[@]} -eq 0 ] || echo "ok $package" >>"$passed"
      targets=()
      ;;
  esac
done <<<"$listed"

echo "fuzz targets run: $found, failed: $failed"
at_least fuzz "$passed" && [ "$failed" -eq 0 ]
