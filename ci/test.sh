#!/usr/bin/env bash
# Runs the test suites that its arguments name. Without arguments, or with "test", it runs those of make test, and with
# "proof" those of make proof. A suite fails if a test was skipped, if a package ran none, or if
# ZooKeeper's clients did not go through each scenario in ci/client-scenarios, so no test is lost unseen.
# A test binary that runs for longer than TIMEOUT is ended (default 10m; 0: none is).
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/suite.sh

# all_packages are those of this module and of the modules that it is made of.
all_packages="./... rollcall/client/... rollcall/zk/..."

seen=$(mktemp) besides='' runs_beside=''
trap end_beside EXIT
timeout=${TIMEOUT:-10m}

# tests runs go test -v with its arguments, without vet, which the suite lint runs. It also fails if a test was skipped, or if a package ran none.
tests() {
  go test -count=1 -v -vet=off -timeout "$timeout" "$@" | tee "$seen" || return
  whole "$seen"
}

# raced PACKAGE... does the same under the race detector, for the tests that the variable raced_tests matches. In Go 1.26
# the race detector may end itself in the middle of a synctest bubble (golang/go#78156). Then nothing was found and nothing passed, and that package goes on with the
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
race_detected() { go test -count=1 -v -vet=off -timeout "$timeout" -race -run "${raced_tests:-.}" -skip "$costs" "$@"; }

# costs are the longest tests of what requests, entries and files cost, and of random logs. They run in one goroutine, so the race
# detector has nothing to find.
costs='^Test(RandomExpenses|KnownExpenses|MemoryOfExpenses|MutatedRequestsTakeLittleMemory|EntryTooLong|RandomLogs|SortedAgainstMap)$'

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

# unit runs the tests of all packages outside integration, and those of the modules bench/figures and
# integration/observing. With -short, the longest tests do less. race runs them in full, but for those in costs, and those of the
# documents and of CI's own tools: under the race detector, if the package's code starts goroutines or has locks. make proof
# runs served-race, with -short: what members and clients consist of, and not the commands and tools around them.
unit() {
  local packages
  packages=$(unit_packages) || return
  tests -short $packages | quiet && module bench/figures | quiet && module integration/observing | quiet
}
served-race() {
  local packages
  packages=$(unit_packages | grep -E '^rollcall/(client|follower|leader|member|quorum|server|sessiontracker|znode|internal)(/|$)') || return
  packages=$(concurrent_of $packages) || return
  raced -short $packages | quiet
}
race() {
  local packages concurrent
  packages=$(unit_packages | grep -vE '^rollcall(/ci/.*)?$') || return
  concurrent=$(concurrent_of $packages) || return
  raced $concurrent | quiet && tests $(grep -vxF "$concurrent" <<<"$packages") | quiet
}
# concurrent_of PACKAGE... prints those that start goroutines or have locks.
concurrent_of() {
  go list -f '{{.ImportPath}} {{.Dir}}' "$@" | while read -r package dir; do
    ! ls "$dir"/*.go | grep -v '_test\.go$' | xargs grep -qE '^\s*go |\.Go\(|"sync"|"sync/atomic"' || echo "$package"
  done
}
unit_packages() { go list $all_packages | grep -vE '^rollcall/integration(/|$)'; }
module() {
  go -C "$1" test -count=1 -v -vet=off ./... | tee "$seen" && whole "$seen"
}

# benches runs each benchmark once, at its smallest size, so that none stops working unseen. make bench
# runs them in full.
benches() {
  local packages
  packages=$(grep -rlE '^func Benchmark' --include='*_test.go' . | xargs -n 1 dirname | sed "s,^\.,rollcall," | sort -u) || return
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
# sets their number. Then it plays 100 of each with seeds that follow from the content of the tree, so that each change has others.
changes() {
  ROLLCALL_SCHEDULES=${ROLLCALL_SCHEDULES:-100} tests -run "$with_changes" ./integration | quiet || return
  ROLLCALL_FIRST=$(drawn) ROLLCALL_SCHEDULES=100 tests -run "$with_changes" ./integration | quiet
}
with_changes='^Test(Changing|Joining)Schedules$'

# drawn prints a number of 32 bits that follows from the names and the content of the files here. It does not ask git, so it is the
# same in a copy of the tree. Hidden files and what is built do not count.
drawn() {
  local sum
  sum=$(find . -path './.?*' -prune -o -path ./bin -prune -o -path ./dist -prune -o -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum)
  echo $((16#${sum:0:8}))
}

# recipes plays schedules of faults over the recipes of package client, in virtual time. ROLLCALL_SCHEDULES
# sets their number; the default is 500. recipes-real plays some in real time, on processes of Rollcall and of Debian's
# ZooKeeper. ROLLCALL_REAL sets the number of those.
recipes() {
  ROLLCALL_SCHEDULES=${ROLLCALL_SCHEDULES:-500} tests -skip '^TestProcesses$' ./integration/recipes ./integration/recipes/schedules ./integration/recipes/checker | quiet
}
recipes-real() {
  tests -parallel 8 -run '^TestProcesses$' ./integration/recipes/schedules | quiet || return
  tests ./integration/recipes/others ./integration/proxy | quiet
}

# drills runs whole ensembles with faults inside the test process. ROLLCALL_SCHEDULES sets the number of
# schedules; the default is the test's. race-drills does the same, and the cases, under the race
# detector. It always plays 20 schedules, because each takes seven times as long. make soak runs both. make proof runs
# ensembles, which leaves the random schedules out, and race-schedules, which plays only these: they have every kind of fault.
drills() {
  local packages
  packages=$(drilled_packages) || return
  tests $packages | quiet
}
ensembles() {
  local packages
  packages=$(drilled_packages) || return
  tests -skip "$random_schedules" $packages | quiet
}
race-drills() {
  local packages
  packages=$(drilled_packages) || return
  ROLLCALL_SCHEDULES=20 raced $packages rollcall/integration/cases | quiet
}
race-schedules() { raced_tests=$random_schedules ROLLCALL_SCHEDULES=${ROLLCALL_SCHEDULES:-5} raced rollcall/integration | quiet; }
random_schedules='^Test(Long|Changing|Joining)?Schedules$'
drilled_packages() { go list ./integration/... | grep -vxE 'rollcall/integration/(cases|clients|recipes(/.*)?|deploy|kills|model|moves|trials|power|hostile|differential|applications|console|drills|proxy)'; }

# quiet drops the lines of go test -v about tests that started or passed. What the tests print stays.
quiet() { grep -vE '^ *(=== (RUN|PAUSE|CONT|NAME)|--- PASS)' || true; }

# clients runs clients in Go, Python and C against the real binary. more-clients runs
# all other tests of that package: clients in Java, zkCli.sh, restarts, limits. Those that run in parallel wait most of the time.
clients() { tests -run "$some_clients" ./integration/clients && scenarios; }
more-clients() { tests -parallel 4 -skip "$some_clients" ./integration/clients && scenarios; }
some_clients='^Test(Go|Kazoo|CClient$)'

# kills kills processes of the real binary under load, by SIGKILL, and upgrades members to a
# made-up next version. ROLLCALL_KILLS sets the number of ensembles; the default is four. few-kills only kills:
# four ensembles, with seeds that kills does not play.
kills() { ROLLCALL_KILLS=${ROLLCALL_KILLS:-4} tests -skip "$with_wipes" ./integration/kills | quiet; }
few-kills() {
  ROLLCALL_FIRST=${ROLLCALL_FIRST:-1001} ROLLCALL_KILLS=${ROLLCALL_KILLS:-4} \
    tests -run '^TestKills$' ./integration/kills | quiet
}

# wipes kills processes of the real binary and empties their data directories, while members come and go. ROLLCALL_WIPES sets for
# how long it begins new ensembles, such as 20m. The default is one ensemble, which takes a minute and a half.
wipes() { tests -run "$with_wipes" ./integration/kills | quiet; }
with_wipes='^Test(Wipes|WipedFirstMember)$'

# breaks starts ensembles as rollcall drill does, breaks and repairs them, and repairs what killed drills left behind.
breaks() { tests -parallel 3 -skip "$tampers" ./integration/drills | quiet; }
tampers='^TestOperatorsAreTampered$'

# tampered has drills fail on a binary whose commands do not do what operators ask for. It takes as long as the drills of
# breaks that pass, so only make soak runs it.
tampered() { tests -run "$tampers" ./integration/drills | quiet; }

# moves takes data from Debian's ZooKeeper to the real binary and back, under clients that hold locks.
moves() { tests ./integration/moves | quiet; }

# trials damages files of members that are down, and starts the real binary on them. ROLLCALL_TRIALS
# sets the number of trials; the default is half of the combinations of harms and files, drawn by the content of the tree.
trials() { ROLLCALL_FIRST=${ROLLCALL_FIRST:-$(($(drawn) % 320))} ROLLCALL_TRIALS=${ROLLCALL_TRIALS:-160} tests ./integration/trials | quiet; }

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
# and the manifests. chart renders the Helm chart with Helm's library, in the module ci/chart.
deploy() {
  [ "${ROLLCALL_NO_DOCKER:-}" != 1 ] || return "$left_out"
  tests -run "$in_containers" ./integration/deploy
}
packages() { tests -skip "$in_containers" ./integration/deploy; }
chart() {
  go -C ci/chart test -count=1 -v -vet=off ./... | tee "$seen" && whole "$seen"
}
in_containers='^Test(Ensemble|Pods)$'

# differential sends the same operations to ZooKeeper and to Rollcall. ROLLCALL_SEQUENCES sets the number
# of sequences; the default is the test's. sequences sends 150, with seeds that differential does not use.
differential() { tests ./integration/differential; }
sequences() {
  ROLLCALL_FIRST=${ROLLCALL_FIRST:-1001} ROLLCALL_SEQUENCES=${ROLLCALL_SEQUENCES:-150} \
    tests -run '^TestDifferential$' ./integration/differential
}

# applications runs ClickHouse and Patroni on ZooKeeper and on Rollcall. ROLLCALL_ROUNDS sets the number
# of rounds; the default is one. A round takes eight minutes, and the drills beside both as long, so only make soak runs it.
applications() { timeout=$((20 + 20 * ${ROLLCALL_ROUNDS:-1}))m tests ./integration/applications; }

# model searches all states of a small ensemble. With ROLLCALL_MODEL=deep, it also searches larger ones.
model() { tests ./integration/model | quiet; }

# mutants plays mutants of ci/mutants/named.go. Each is an error that the test that it names must notice. ROLLCALL_MUTANTS sets their
# number; make soak plays all. They are drawn by the content of the tree, so each change plays others.
mutants() { go run ./ci/mutants -named -n "${ROLLCALL_MUTANTS:-40}" -seed "$(drawn)"; }

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

# some-fuzz gives each target a twentieth of the inputs.
some-fuzz() { ROLLCALL_FUZZ=1000x ci/fuzz.sh; }

# beside SUITE... starts suites, one after the other, beside those that follow. They have the lowest priority, so they take the
# processor time that tests of processes leave, which wait most of the time. What they find must not depend on time: they run in
# virtual time, or have none. joined SUITE waits for one of them, and prints its output.
beside() {
  besides=$(mktemp -d)
  (
    for name in "$@"; do
      status=0
      TIMEOUT=30m nice -n 19 ci/test.sh "$name" >"$besides/$name" 2>&1 </dev/null || status=$?
      echo "$status" >"$besides/status" && mv "$besides/status" "$besides/$name.status"
    done
  ) &
  runs_beside=$!
}
joined() {
  local status="$besides/$1.status"
  until [ -e "$status" ]; do
    kill -0 "$runs_beside" 2>/dev/null || [ -e "$status" ] || { echo "suite $1: FAILED, it was ended"; return 1; }
    sleep 1
  done
  cat "$besides/$1"
  return "$(cat "$status")"
}
end_beside() {
  [ -z "$runs_beside" ] || kill "$runs_beside" 2>/dev/null || true
  rm -rf "$seen" "$seen.try" ${besides:+"$besides"}
}

[ $# -gt 0 ] || set -- test
background=() begins=''
case "$*" in
  test)
    background=(schedules) begins=cases
    set -- unit cases clients few-kills "${background[@]}"
    ;;
  proof)
    background=(model race-schedules ensembles recipes some-fuzz) begins=served-race
    set -- served-race recipes-real more-clients kills wipes breaks moves trials power console deploy packages differential builds lint chart changes "${background[@]}" hostile
    ;;
esac
for running in "$@"; do
  [ "$running" != "$begins" ] || beside "${background[@]}"
  case " ${background[*]} " in
    *" $running "*) joined "$running" || failed_suites+=("$running") ;;
    *) suite "$running" "$running" ;;
  esac
done
end_suites
