#!/usr/bin/env bash
# Runs the test suites named, or those of make test; "proof" names those of make proof. So that no
# test is lost unseen, a suite fails if a package ran fewer tests than ci/least-tests says, or if real
# clients did not go through each scenario that ci/client-scenarios names.
# TIMEOUT ends a test binary that hangs (default 10m; 0: none is ended).
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/suite.sh

seen=$(mktemp)
trap 'rm -f "$seen" "$seen.try"' EXIT
timeout=${TIMEOUT:-10m}

# tests is go test -v; it fails, too, if fewer tests ran than ci/least-tests says for the suite.
tests() {
  go test -count=1 -v -timeout "$timeout" "$@" | tee "$seen" || return
  at_least "$running" "$seen"
}

# raced ROWS PACKAGE... is tests under the race detector, and ROWS names the suites of ci/least-tests
# whose rows hold. In Go 1.26 the race detector may end itself in the middle of a synctest bubble
# (golang/go#78156). Then nothing was found and nothing passed, and the tests of that package run
# again, at most twice. A race, a panic or a failed test is final.
raced() {
  local rows=$1 packages=("${@:2}") try
  : >"$seen"
  for try in 1 2 3; do
    if go test -count=1 -v -timeout "$timeout" -race "${packages[@]}" | tee "$seen.try"; then
      cat "$seen.try" >>"$seen"
      at_least "$rows" "$seen"
      return
    fi
    cat "$seen.try" >>"$seen"
    mapfile -t packages < <(given_up "$seen.try")
    [ ${#packages[@]} -gt 0 ] || return 1
    echo "the race detector ended itself (golang/go#78156): once more ${packages[*]}"
  done
  return 1
}

# given_up prints the packages that failed because the race detector ended itself. It
# prints none if another one failed, or if one of them has a failed test, a race or a panic.
given_up() {
  awk '
    /ThreadSanitizer: CHECK failed/ { itself = 1 }
    /--- FAIL|WARNING: DATA RACE|^panic: / { fault = 1 }
    $1 == "FAIL" && NF > 1 {
      if (fault || !itself) bad = 1
      died[$2]
    }
    ($1 == "ok" || $1 == "FAIL") && NF > 1 { itself = fault = 0 }
    END { if (!bad) for (package in died) print package }' "$1"
}

# unit runs the tests of all packages but the integration ones; race runs them under the race detector.
unit() {
  local packages
  packages=$(unit_packages) || return
  tests $packages | quiet && figures | quiet
}
race() {
  local packages
  packages=$(unit_packages) || return
  raced unit $packages | quiet
}
unit_packages() { go list ./... | grep -vE '^rollcall/integration(/|$)'; }
figures() {
  local running=figures
  go -C bench/figures test -count=1 -v ./... | tee "$seen" && at_least figures "$seen"
}

# benches runs each benchmark once, small, so that none stops working unseen; make bench
# runs them in full.
benches() {
  local packages
  packages=$(grep -rlE '^func Benchmark' --include='*_test.go' . | xargs -n 1 dirname | sort -u) || return
  tests -run '^$' -bench . -benchtime 1x -short $packages
}

# cases plays what one client sees, frame by frame.
cases() { tests ./integration/cases | quiet; }

# schedules plays few schedules of faults, of seeds that drills does not play.
schedules() {
  ROLLCALL_FIRST=${ROLLCALL_FIRST:-1000} ROLLCALL_SCHEDULES=${ROLLCALL_SCHEDULES:-100} \
    tests -run '^TestSchedules$' ./integration | quiet
}

# drills breaks whole ensembles inside the test process; ROLLCALL_SCHEDULES sets how
# many schedules of faults, else the tests' own default holds. race-drills does all of it again, and
# the cases, under the race detector. It always plays 60 schedules, as each takes seven times as long.
drills() {
  local packages
  packages=$(drilled_packages) || return
  tests $packages | quiet
}
race-drills() {
  local packages
  packages=$(drilled_packages) || return
  ROLLCALL_SCHEDULES=60 raced "drills cases" $packages rollcall/integration/cases | quiet
}
drilled_packages() { go list ./integration/... | grep -vxE 'rollcall/integration/(cases|clients|deploy|kills|trials|hostile|differential|applications)'; }

# quiet drops the lines of go test -v about tests that passed; what they say stays.
quiet() { grep -vE '^ *(=== (RUN|PAUSE|CONT|NAME)|--- PASS)' || true; }

# clients runs the real binary, and clients in Go, Python and C against it. more-clients runs
# all other tests of that package: clients in Java, zkCli.sh, restarts, limits.
clients() { tests -run "$some_clients" ./integration/clients && scenarios; }
more-clients() { tests -skip "$some_clients" ./integration/clients && scenarios; }
some_clients='^Test(Go|Kazoo|CClient$)'

# kills kills processes of the real binary under load, by SIGKILL; ROLLCALL_KILLS sets how
# many ensembles, else the test's own default holds. few-kills does so with four ensembles, of seeds
# that kills does not play, and without those of former versions.
kills() { tests ./integration/kills | quiet; }
few-kills() {
  ROLLCALL_FIRST=${ROLLCALL_FIRST:-1001} ROLLCALL_KILLS=${ROLLCALL_KILLS:-4} \
    tests -run '^TestKills$' ./integration/kills | quiet
}

# trials damages files of stopped members of the real binary; ROLLCALL_TRIALS sets how many times,
# else the test's own default holds.
trials() { tests ./integration/trials | quiet; }

# hostile attacks processes of the real binary as clients may, and judges what others wait for
# and the members' memory.
hostile() { tests ./integration/hostile | quiet; }

# deploy runs the container image and compose.yaml, unless ROLLCALL_NO_DOCKER=1 leaves it all
# out.
deploy() {
  [ "${ROLLCALL_NO_DOCKER:-}" != 1 ] || return "$left_out"
  tests ./integration/deploy
}

# differential sends the same to ZooKeeper and to Rollcall; ROLLCALL_SEQUENCES sets how
# many sequences, else the test's own default holds. sequences sends few, of seeds that differential
# does not play.
differential() { tests ./integration/differential; }
sequences() {
  ROLLCALL_FIRST=${ROLLCALL_FIRST:-1001} ROLLCALL_SEQUENCES=${ROLLCALL_SEQUENCES:-300} \
    tests -run '^TestDifferential$' ./integration/differential
}

# applications runs ClickHouse and Patroni on ZooKeeper and on Rollcall; ROLLCALL_ROUNDS sets how
# often, else once. It is a part of neither goal: a round takes eight minutes.
applications() { timeout=$((20 * ${ROLLCALL_ROUNDS:-1}))m tests ./integration/applications; }

# mutants are faults of one line in the code; ROLLCALL_MUTANTS picks those with a name that
# has it, and then there are too few for ci/least-tests.
mutants() { timeout=1h ROLLCALL_MUTANTS=${ROLLCALL_MUTANTS:-1} tests -run '^TestMutants$' ./integration | quiet; }

# scenarios fails if clients did not go through a scenario that ci/client-scenarios names for
# the suite, or through one that it does not name. The line of one is "client scenario: NAME ok".
scenarios() {
  local changed
  echo "client scenarios run: $(ran_scenarios | wc -l)"
  changed=$(diff <(sed -n "s/^$running //p" ci/client-scenarios | LC_ALL=C sort -u) <(ran_scenarios)) && return
  sed -nE 's/^< (.*)/client scenario \1: did not run/p; s/^> (.*)/client scenario \1: not in ci\/client-scenarios/p' <<<"$changed"
  return 1
}
ran_scenarios() { sed -nE 's/.*client scenario: (.+) ok$/\1/p' "$seen" | LC_ALL=C sort -u; }

# Those of other scripts, each with a row in CI's table.
builds() { ci/builds.sh; }
lint() { ci/lint.sh; }
fuzz() { ci/fuzz.sh; }

[ $# -gt 0 ] || set -- unit cases schedules sequences clients few-kills
[ "$*" != proof ] || set -- race benches drills race-drills more-clients kills trials hostile deploy differential builds lint mutants fuzz
for running in "$@"; do
  suite "$running" "$running"
done
end_suites
