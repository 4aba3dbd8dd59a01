#!/usr/bin/env bash
# Runs every fuzz target of the module for FUZZTIME (default 2s) each. It also fails if a package has
# fewer targets than ci/least-tests says.
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/suite.sh

fuzztime=${FUZZTIME:-2s}
[[ $fuzztime =~ [1-9] ]] || { echo "FUZZTIME=$fuzztime: want a time or a count above 0" >&2; exit 2; }

out=$(mktemp) passed=$(mktemp)
trap 'rm -f "$out" "$passed"' EXIT

# fuzz runs one target. If the target fails with "context deadline exceeded" and names no failing input,
# nothing was found: Go's fuzzer sometimes takes its own deadline for a failure (Go 1.26 compares the
# child context with its parent's error before the child has that error). The target then runs once
# more, and that run counts.
fuzz() {
  local package=$1 target=$2
  echo "fuzz $package $target"
  ! go test -run '^$' -fuzz "^$target\$" -fuzztime "$fuzztime" "$package" 2>&1 | tee "$out" || return 0
  if grep -q '^ *context deadline exceeded$' "$out" && ! grep -q 'Failing input written to' "$out"; then
    echo "fuzz $package $target: ended by Go's own deadline; once more"
    go test -run '^$' -fuzz "^$target\$" -fuzztime "$fuzztime" "$package"
    return
  fi
  return 1
}

# For each package go prints one line for each fuzz target, and then "ok package seconds".
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
