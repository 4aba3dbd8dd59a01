# Sourced by the scripts that run suites, one after the other.

failed_suites=()

# suite NAME COMMAND... runs the command and prints how long it took. A failure is
# remembered, and the suites behind it run nevertheless.
suite() {
  local name=$1 began=$SECONDS word=""
  shift
  echo "=== suite $name"
  "$@" || { word="FAILED after "; failed_suites+=("$name"); }
  echo "suite $name: $word$((SECONDS - began)) s"
}

# end_suites fails if a suite did.
end_suites() {
  [ ${#failed_suites[@]} -eq 0 ] || { echo "suites failed: ${failed_suites[*]}"; return 1; }
}
