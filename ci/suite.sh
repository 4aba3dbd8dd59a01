# Sourced by the scripts that run suites, one after the other.

failed_suites=()

# left_out is the status of a suite that was left out because the environment says so.
left_out=77

# suite NAME COMMAND... runs the command and prints how long it took. If the command fails, the suites
# after it still run, and end_suites fails.
suite() {
  local name=$1 began=$SECONDS status=0
  shift
  echo "=== suite $name"
  "$@" || status=$?
  case $status in
    0) echo "suite $name: $((SECONDS - began)) s" ;;
    "$left_out") echo "suite $name: LEFT OUT" ;;
    *)
      echo "suite $name: FAILED after $((SECONDS - began)) s"
      failed_suites+=("$name")
      ;;
  esac
}

# end_suites fails if a suite has failed.
end_suites() {
  [ ${#failed_suites[@]} -eq 0 ] || { echo "suites failed: ${failed_suites[*]}"; return 1; }
}

# at_least SUITE OUTPUT compares the output of go test with the suite's rows in ci/least-tests. A SUITE
# of two names, "ONE TWO", stands for the rows of both. It fails if a package ran fewer tests than its
# row says, if a package with a row did not run, or if a package has tests and no row. Only tests that
# passed count, each name once, also those that passed before their package failed. For benches it counts
# benchmarks, and for mutants and some-mutants the mutants that were caught.
at_least() {
  awk -v suite="$1" '
    function bad(text) { print text; failed = 1 }
    function ours(row) { return index(" " suite " ", " " row " ") }
    FNR == NR {
      if (ours($1)) least[$2] = $3
      if (ours($1) && $3 + 0 < 1) bad($2 ": ci/least-tests says " $3 ": at least one test must run")
      next
    }
    suite ~ /mutants$/ { if (/^mutant caught: /) names[$0] }
    suite == "benches" { if (/^Benchmark[^ \t]*[ \t]+[0-9]+[ \t]/) { split($1, part, /[\/-]/); names[part[1]] } }
    suite !~ /mutants$/ && suite != "benches" && /^--- PASS: / { names[$3] }
    $1 == "ok" {
      for (n in before) if (split(n, part, SUBSEP) && part[1] == $2) names[part[2]]
      ran[$2] = length(names)
      delete names
    }
    $1 == "FAIL" && NF > 1 { # the package may go on with the others
      for (n in names) before[$2, n]
      delete names
    }
    END {
      for (p in least) if (!(p in ran)) bad(p ": its tests did not run; ci/least-tests says " least[p] " for " suite)
      for (p in ran) {
        if (!(p in least)) { if (ran[p] > 0) bad(p ": no row in ci/least-tests: add \"" suite " " p " " ran[p] "\"") }
        else if (ran[p] < least[p]) bad(p ": " ran[p] " tests ran; ci/least-tests says at least " least[p] " for " suite)
        else if (ran[p] > least[p] && suite != "some-mutants") print p ": " ran[p] " tests ran; ci/least-tests still says " least[p] " for " suite
      }
      exit failed
    }' ci/least-tests "$2"
}
