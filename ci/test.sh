#!/usr/bin/env bash
# Runs the test suites that its arguments name. Without arguments it runs those of make test, and with
# "proof" those of make proof. A suite fails if a test was skipped, if a package ran none, or if
# ZooKeeper's clients did not go through each scenario in ci/client-scenarios, so no test is lost unseen.
# A test binary that runs for longer than TIMEOUT is ended (default 10m; 0: none is).
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/suite.sh

seen=$(mktemp)
trap 'rm -f "$seen" "$seen.try"' EXIT
timeout=${TIMEOUT:-10m}

# tests runs go test -v with its arguments. It also fails if a test was skipped, or if a package ran none.
tests() {
  go test -count=1 -v -timeout "$timeout" "$@" | tee "$seen" || return
  whole "$seen"
}

# raced PACKAGE... does the same under the race detector. In Go 1.26 the race detector may end itself in the middle of a synctest
# bubble (golang/go#78156). Then nothing was found and nothing passed, and that package goes on with the
# tests that have not passed, at most six times. After a race, a panic or a failed test it does not go on.
raced() {
  local package packages try
  race_detected "$@" | tee "$seen" && { whole "$seen"; return; }
  packages=$(given_up "$seen")
  [ -n "$packages" ] || return 1
  for package in $packages; do
    for try in 1 2 3 4 5 6 7; do
      [ "$try" != 7 ] || return 1
      echo "the race detector ended itself (golang/go#78156): on with $package"
      race_detected -skip "^($(passed "$package" "$seen"))\$|$costs" "$package" | tee "$seen.try" && break
      cat "$seen.try" >>"$seen"
      [ -n "$(given_up "$seen.try")" ] || return 1
    done
    cat "$seen.try" >>"$seen"
  done
  whole "$seen"
}
race_detected() { go test -count=1 -v -timeout "$timeout" -race -skip "$costs" "$@"; }

# costs are the longest tests of what requests cost. They run in one goroutine, so the race detector has nothing to find.
costs='^Test(Random|Known)Expenses$'

# given_up OUTPUT prints the packages that failed because the race detector ended itself: by a check, or by a
# signal outside Go's code, of which these tests have none of their own. It prints none if another package failed, or if
# one of them has a failed test, a race or a panic.
given_up() {
  awk '
    /ThreadSanitizer: CHECK failed/ || (/^PC=0x/ && signal) { itself = 1 }
    { signal = /^SIGSEGV: segmentation violation/ }
    /--- FAIL|WARNING: DATA RACE|^panic: |^fatal error: / { fault = 1 }
    $1 == "FAIL" && NF > 1 {
      if (fault || !itself) bad = 1
      died[$2]
    }
    ($1 == "ok" || $1 == "FAIL") && NF > 1 { itself = fault = 0 }
    END { if (!bad) for (package in died) print package }' "$1"
}

# passed PACKAGE OUTPUT prints the tests of the package that passed before it failed, with "|" between them.
passed() {
  awk -v package="$1" '
    /^--- PASS: / { names = names "|" $3 }
    ($1 == "ok" || $1 == "FAIL") && NF > 1 {
      if ($1 == "FAIL" && $2 == package) all = all names
      names = ""
    }
    END { print (all == "") ? "none" : substr(all, 2) }' "$2"
}

# unit runs the tests of all packages outside integration, and those of the module bench/figures. With
# -short, the longest tests do less. race runs those of all packages outside integration in full, under
# the race detector, but for those in costs.
unit() {
  local packages
  packages=$(unit_packages) || return
  tests -short $packages | quiet && figures | quiet
}
race() {
  local packages
  packages=$(unit_packages) || return
  raced $packages | quiet
}
unit_packages() { go list ./... | grep -vE '^rollcall/integration(/|$)'; }
figures() {
  go -C bench/figures test -count=1 -v ./... | tee "$seen" && whole "$seen"
}

# benches runs each benchmark once, at its smallest size, so that none stops working unseen. make bench
# runs them in full.
benches() {
  local packages
  packages=$(grep -rlE '^func Benchmark' --include='*_test.go' . | xargs -n 1 dirname | sort -u) || return
  tests -run '^$' -bench . -benchtime 1x -short $packages
}

# cases tests what one client sees, frame by frame.
cases() { tests ./integration/cases | quiet; }

# schedules plays 200 schedules of faults, and one of 50 sessions, with seeds that drills does not play.
schedules() {
  ROLLCALL_FIRST=${ROLLCALL_FIRST:-1000} ROLLCALL_SCHEDULES=${ROLLCALL_SCHEDULES:-200} \
    tests -run '^Test(Long)?Schedules$' ./integration | quiet
}

# changes plays schedules in which members come and go, and those in which they join while others are lost. ROLLCALL_SCHEDULES
# sets their number; the default is the tests'. Then it plays 150 of each with seeds that follow from the content of the tree, so that
# each change has others.
changes() {
  tests -run "$with_changes" ./integration | quiet || return
  ROLLCALL_FIRST=$(drawn) ROLLCALL_SCHEDULES=150 tests -run "$with_changes" ./integration | quiet
}
with_changes='^Test(Changing|Joining)Schedules$'

# drawn prints a number of 32 bits that follows from the names and the content of the files here. It does not ask git, so it is the
# same in a copy of the tree. Hidden files and what is built do not count.
drawn() {
  local sum
  sum=$(find . -path './.?*' -prune -o -path ./bin -prune -o -path ./dist -prune -o -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum)
  echo $((16#${sum:0:8}))
}

# drills runs whole ensembles with faults inside the test process. ROLLCALL_SCHEDULES sets the number of
# schedules; the default is the test's. race-drills does the same, and the cases, under the race
# detector. It always plays 20 schedules, because each takes seven times as long. make proof runs only
# race-drills; schedules plays more of them at full speed.
drills() {
  local packages
  packages=$(drilled_packages) || return
  tests $packages | quiet
}
race-drills() {
  local packages
  packages=$(drilled_packages) || return
  ROLLCALL_SCHEDULES=20 raced $packages rollcall/integration/cases | quiet
}
drilled_packages() { go list ./integration/... | grep -vxE 'rollcall/integration/(cases|clients|deploy|kills|model|moves|trials|power|hostile|differential|applications|console)'; }

# quiet drops the lines of go test -v about tests that started or passed. What the tests print stays.
quiet() { grep -vE '^ *(=== (RUN|PAUSE|CONT|NAME)|--- PASS)' || true; }

# clients runs clients in Go, Python and C against the real binary. more-clients runs
# all other tests of that package: clients in Java, zkCli.sh, restarts, limits.
clients() { tests -run "$some_clients" ./integration/clients && scenarios; }
more-clients() { tests -skip "$some_clients" ./integration/clients && scenarios; }
some_clients='^Test(Go|Kazoo|CClient$)'

# kills kills processes of the real binary under load, by SIGKILL, and upgrades members to a
# made-up next version. ROLLCALL_KILLS sets the number of ensembles; the default is the test's. few-kills only kills:
# four ensembles, with seeds that kills does not play.
kills() { tests -skip "$with_wipes" ./integration/kills | quiet; }
few-kills() {
  ROLLCALL_FIRST=${ROLLCALL_FIRST:-1001} ROLLCALL_KILLS=${ROLLCALL_KILLS:-4} \
    tests -run '^TestKills$' ./integration/kills | quiet
}

# wipes kills processes of the real binary and empties their data directories, while members come and go. ROLLCALL_WIPES sets for
# how long it begins new ensembles, such as 20m. The default is one ensemble, which takes a minute and a half.
wipes() { tests -run "$with_wipes" ./integration/kills | quiet; }
with_wipes='^Test(Wipes|WipedFirstMember)$'

# moves takes data from Debian's ZooKeeper to the real binary and back, under clients that hold locks.
moves() { tests ./integration/moves | quiet; }

# trials damages files of members that are down, and starts the real binary on them. ROLLCALL_TRIALS
# sets the number of trials; the default is the test's.
trials() { tests ./integration/trials | quiet; }

# power takes the power of members while they write, and of commands, and starts from what their disks may have kept. ROLLCALL_OUTAGES
# sets how often it does that to each; the default is the test's.
power() { tests ./integration/power | quiet; }

# hostile attacks processes of the real binary as clients can. It judges how long other clients wait, and
# the members' memory.
hostile() { tests ./integration/hostile | quiet; }

# console drives a browser, Debian's Chromium, through the page at / of processes of the real binary.
console() { tests ./integration/console | quiet; }

# deploy runs the container image, as a pod and with compose.yaml. ROLLCALL_NO_DOCKER=1 leaves it out.
# packages runs all other tests of that package, which need no container engine: the packages, the unit
# and the manifests. Then it renders the Helm chart with Helm's library, in the module ci/chart.
deploy() {
  [ "${ROLLCALL_NO_DOCKER:-}" != 1 ] || return "$left_out"
  tests -run "$in_containers" ./integration/deploy
}
packages() { tests -skip "$in_containers" ./integration/deploy && chart; }
chart() {
  go -C ci/chart test -count=1 -v ./... | tee "$seen" && whole "$seen"
}
in_containers='^Test(Ensemble|Pods)$'

# differential sends the same operations to ZooKeeper and to Rollcall. ROLLCALL_SEQUENCES sets the number
# of sequences; the default is the test's. sequences sends 300, with seeds that differential does not use.
differential() { tests ./integration/differential; }
sequences() {
  ROLLCALL_FIRST=${ROLLCALL_FIRST:-1001} ROLLCALL_SEQUENCES=${ROLLCALL_SEQUENCES:-300} \
    tests -run '^TestDifferential$' ./integration/differential
}

# applications runs ClickHouse and Patroni on ZooKeeper and on Rollcall. ROLLCALL_ROUNDS sets the number
# of rounds; the default is one. A round takes eight minutes, so only make soak runs it.
applications() { timeout=$((20 * ${ROLLCALL_ROUNDS:-1}))m tests ./integration/applications; }

# model searches all states of a small ensemble. With ROLLCALL_MODEL=deep, it also searches larger ones.
model() { tests ./integration/model | quiet; }

# mutants plays the mutants of ci/mutants/named.go. Each is an error that the test that it names must notice.
mutants() { go run ./ci/mutants -named; }

# scenarios fails if clients did not go through a scenario that ci/client-scenarios names for
# the suite, or if they went through one that it does not name. A test prints "client scenario: NAME ok"
# for each.
scenarios() {
  local changed
  echo "client scenarios run: $(ran_scenarios | wc -l)"
  changed=$(diff <(sed -n "s/^$running //p" ci/client-scenarios | LC_ALL=C sort -u) <(ran_scenarios)) && return
  sed -nE 's/^< (.*)/client scenario \1: did not run/p; s/^> (.*)/client scenario \1: not in ci\/client-scenarios/p' <<<"$changed"
  return 1
}
ran_scenarios() { sed -nE 's/.*client scenario: (.+) ok$/\1/p' "$seen" | LC_ALL=C sort -u; }

# These suites are scripts of their own.
builds() { ci/builds.sh; }
lint() { ci/lint.sh; }
fuzz() { ci/fuzz.sh; }

[ $# -gt 0 ] || set -- unit cases schedules clients few-kills
[ "$*" != proof ] || set -- race benches model race-drills changes more-clients kills wipes moves trials power hostile console packages deploy differential sequences builds lint mutants fuzz
for running in "$@"; do
  suite "$running" "$running"
done
end_suites
