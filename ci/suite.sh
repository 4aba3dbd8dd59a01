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

# whole OUTPUT fails if the output of go test -v shows that a test or benchmark was skipped, or that a package
# ran no test, so none is lost unseen. Subtests may be skipped.
whole() {
  ! grep -E '^--- SKIP: |\[no tests to run\]$' "$1" | sed 's/^/must run: /' | grep .
}
