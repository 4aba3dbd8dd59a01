#!/usr/bin/env bash
# Runs the test suites named, or all, and counts the scenarios that real clients went
# through: fewer than ci/client-scenarios says is a failure, so none is lost unseen.
# TIMEOUT ends a test binary that hangs (default 10m).
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/suite.sh

seen=$(mktemp)
trap 'rm -f "$seen"' EXIT
timeout=${TIMEOUT:-10m}

# tests is go test; it fails, too, if no package had a test to run.
tests() {
  go test -count=1 -timeout "$timeout" "$@" | tee "$seen" || return
  grep '^ok ' "$seen" | grep -qvF '[no tests to run]' || { echo "no test was run"; return 1; }
}

# raced is tests under the race detector, which in Go 1.26 may end itself in the middle of
# a synctest bubble (golang/go#78156: "ThreadSanitizer: CHECK failed"). Then nothing was
# found and nothing passed, and the tests run once more. A race or a failed test is final.
raced() {
  tests -race "$@" && return
  grep -q 'ThreadSanitizer: CHECK failed' "$seen" || return 1
  ! grep -qE -- '--- FAIL|WARNING: DATA RACE' "$seen" || return 1
  echo "the race detector ended itself (golang/go#78156): once more"
  tests -race "$@"
}

unit() {
  local packages
  packages=$(go list ./... | grep -vE '^rollcall/integration(/|$)') || return
  raced $packages && go -C ci/figures test -count=1 ./...
}

# benches runs each benchmark once, small, so that none stops working unseen; make bench
# runs them in full.
benches() {
  local packages
  packages=$(grep -rlE '^func Benchmark' --include='*_test.go' . | xargs -n 1 dirname | sort -u) || return
  tests -run '^$' -bench . -benchtime 1x -short $packages
}

# drills breaks whole ensembles inside the test process; ROLLCALL_SCHEDULES sets how
# many schedules of faults, else the tests' own default holds. Then all of it again under
# the race detector, with fewer schedules, as those take seven times as long. -v, for what
# they say they saw; without the lines of the tests that passed.
drills() {
  local packages
  packages=$(go list ./integration/... | grep -vxE 'rollcall/integration/(clients|deploy|kills|differential)') || return
  tests -v $packages | quiet && ROLLCALL_SCHEDULES=$raced_schedules raced -v $packages | quiet
}
raced_schedules=60

quiet() { grep -vE '^ *(=== (RUN|PAUSE|CONT|NAME)|--- PASS)' || true; }

# clients runs the real binary, and ZooKeeper's own clients against it. -v, for the
# line "client scenario: NAME ok" of each scenario.
clients() { tests -v ./integration/clients; }

# kills kills processes of the real binary under load, by SIGKILL; ROLLCALL_KILLS sets how
# many ensembles, else the test's own default holds. -v, for what it saw.
kills() { tests -v ./integration/kills | quiet; }

# deploy runs the container image and compose.yaml; -v, for how long things took, and
# for the line that says so if ROLLCALL_NO_DOCKER=1 leaves it all out.
deploy() { tests -v ./integration/deploy; }

# differential sends the same to ZooKeeper and to Rollcall; ROLLCALL_SEQUENCES sets how
# many sequences, else the test's own default holds. -v, for what was masked.
differential() { tests -v ./integration/differential; }

# scenarios fails if clients ran fewer of them, by name, than ever before.
scenarios() {
  local ran least
  ran=$(sed -nE 's/.*client scenario: (.+) ok$/\1/p' "$seen" | sort -u | wc -l)
  least=$(<ci/client-scenarios)
  echo "client scenarios run: $ran"
  [ "$ran" -ge "$least" ] || { echo "client scenarios: at least $least must run"; failed_suites+=(scenarios); }
}

[ $# -gt 0 ] || set -- unit benches drills clients kills deploy differential
for name in "$@"; do
  suite "$name" "$name"
  [ "$name" != clients ] || scenarios
done
end_suites
