#!/usr/bin/env bash
# Runs the tests in one of five ways, in parts, and prints the time and the processor time that each part took:
#
#   ci/test.sh           what make test runs: the short form of what is quick
#   ci/test.sh rest      what CI runs beside it: the usual form of all tests, the race detector, linters, types on other systems
#   ci/test.sh nightly   what make nightly runs: the nightly form, the race detector on all of it, builds, fuzzing, mutants
#   ci/test.sh soak      the same, and real applications; make soak sets more and new seeds
#   ci/test.sh peers     what make peers runs: the suites of others, which are a part of nightly, too
#
# A part is one run of go test, which ci/gotest reads, or a script. If a part fails, the others still run. The tests of a package have
# a limit of time, behind which the test that does not end is named, with what all goroutines do. In the short form it is a few times
# what the longest package takes on a busy machine, so that a test that spins does not hold up the others for long.
set -euo pipefail
cd "$(dirname "$0")/.."

export ROLLCALL_TESTS=all
tmp=$(mktemp -d) beside='' failed=()
trap 'kill $beside 2>/dev/null || true; rm -rf "$tmp"' EXIT
go build -o "$tmp/gotest" ./ci/gotest
gotest() { "$tmp/gotest" -vet=off -timeout "${limit:-40m}" "$@"; } # the linters have vet

# part NAME COMMAND... runs the command as a part. beside FUNCTION begins the parts of a function beside those that follow: they
# have a low priority, so they take the processor time that is left, and what they find must not depend on time.
part() { timed "$@" 2>&1 | tee "$tmp/$1.out"; }
timed() {
  local began=$SECONDS status=ok
  echo "=== $1"
  "${@:2}" || status=FAILED
  times >"$tmp/$1.times"
  echo "part $1: $status, $((SECONDS - began)) s, $(processor "$tmp/$1.times") s of processor time"
}
processor() { awk -F '[ms ]+' 'NR == 2 { print int(60 * ($1 + $3) + $2 + $4) }' "$1"; }
beside() {
  { renice -n 10 "$BASHPID" >/dev/null && "$1"; } >"$tmp/beside" 2>&1 </dev/null &
  beside=$!
}

all="./... rollcall/client/... rollcall/zk/... rollcall/zk/kerberos/..."
tools='^rollcall/(tools/(house|mutants|pictures)|lab/bench/libraries)$'
units() { go list $all | grep -vE "^rollcall/integration(/|$)|$tools"; }
served() { go list $all | grep -E '^rollcall/(client|follower|leader|member|quorum|server|sessiontracker|znode|internal)(/|$)'; }

# Those of processes take real time, one package after the other, and those of waiting wait most of it.
small="./integration/needs ./integration/formats ./integration/cluster ./integration/crowd ./integration/peers"
recipes="./integration/recipes ./integration/recipes/schedules"
virtual="./integration ./integration/cases ./integration/crowd ./integration/model ./lab/checker $recipes"
waiting="./integration/clients ./integration/drills ./integration/stopped"
trouble=./integration/trouble # several ensembles beside each other: its tests wait even more of their time
processes="./integration/formats ./integration/kills ./integration/moves ./integration/trials ./integration/power ./integration/differential ./integration/proxy ./integration/recipes/others ./integration/deploy"

# costs are long tests of what requests and files cost, and of random logs. They run in one goroutine: there can be no race.
costs='RandomExpenses|KnownExpenses|MemoryOfExpenses|MutatedRequestsTakeLittleMemory|ListsCostTheirBytes|EntryTooLong|RandomLogs|SortedAgainstMap|SortedByRanges|RandomWatches'
# long are tests with whole ensembles that take the race detector long, and tests of lists. It sees them in the nightly form.
long='EveryOwnMetricLeavesZero|EveryMetricLeavesZero|CertificateMetric|SlowSums|LongLists|OtherDigestAlg|AutoRebalance|MostEntriesFitInMessagePack|TouchMapJoinsTouches'
# promises are the packages that decide about writes, sessions and rights. Tests noticed 161 errors of 200 (80.5 %). A limit of 72 % is three standard deviations lower.
promises="znode leader follower sessiontracker quorum quorum/disk quorum/wire quorum/trust server server/stream member operator/admin client client/session client/lock client/election client/barrier client/group client/internal/contender client/internal/receipt"
random='^Test(Long|Changing|Joining)?Schedules$'
beside-short() { limit=12m part schedules gotest -short -run '^TestSchedules$' ./integration; }
beside-rest() {
  part race gotest -race -short -skip "^Test($costs|$long)$" $(served)
  part virtual gotest $virtual
  ROLLCALL_SCHEDULES=3 part raced-schedules gotest -race -run "$random" ./integration
  GOGC=400 part tools ci/lint.sh tools
  GOGC=400 part lint ci/lint.sh
  part systems systems
  part publish-as ci/publish-as.sh github.com/example/rollcall "$tmp/published"
  for name in client/otel tools/figures integration/observing integration/bucket tools/chart tools/pinned; do part "${name////-}" module "$name"; done
  part tools-of-ci gotest $(go list ./... | grep -E "$tools")
}
module() { cd "$1" && CGO_ENABLED=0 gotest -trimpath ./...; } # the flags of ci/tools.sh
typecheck() { CGO_ENABLED=0 go -C tools/pinned run -trimpath ./typecheck "$@"; }
systems() { typecheck ../../cmd/rollcall linux/arm64 darwin/arm64 freebsd/amd64 && typecheck ../../lab/bench/floor darwin/arm64; }
case ${1:-short} in
  short)
    limit=6m
    part unit gotest -short -p 3 $recipes ./integration/cases $small $(units) # one run, so that each package is compiled once; many tests wait
    beside beside-short
    part processes gotest -short -run '^Test(Kazoo|GoSession|Kills)$' ./integration/clients ./integration/kills
    ;;
  rest)
    beside beside-rest
    part clients gotest -p 1 -parallel 3 $waiting
    part trouble gotest -parallel 4 $trouble
    part processes gotest -p 1 $processes
    ;;
  nightly | soak)
    export ROLLCALL_TESTS=nightly limit=0
    part race gotest -race -skip "^Test($costs)$" $(units) ./tools/house
    part costs gotest -run "^Test($costs)$" ./server ./quorum/wire ./quorum/disk ./znode rollcall/client
    part benches gotest -run '^$' -bench . -benchtime 1x -short $(grep -rlE '^func Benchmark' --include='*_test.go' --exclude-dir=structures . | xargs -n 1 dirname | sed 's,^\.,rollcall,' | sort -u)
    part virtual gotest -p 1 $virtual
    ROLLCALL_SCHEDULES=3 part raced-schedules gotest -race -run "$random" ./integration
    part clients gotest -p 1 -parallel 3 $waiting
    part trouble gotest -parallel 4 $trouble
    part processes gotest -p 1 $processes ./integration/console ./integration/hostile ./integration/starved
    part peers gotest ./integration/peers
    part kubernetes module integration/kubernetes
    part lint ci/lint.sh all
    part builds ci/builds.sh
    part fuzz ci/fuzz.sh
    part mutants go run ./tools/mutants -named -n 1000
    part sample go run ./tools/mutants -n 200 -least 72 $promises
    [ "$1" = nightly ] || part applications gotest ./integration/applications
    ;;
  peers)
    export ROLLCALL_TESTS=nightly limit=0
    part peers gotest ./integration/peers
    ;;
  *) echo "usage: ci/test.sh [short|rest|nightly|soak|peers]" >&2 && exit 2 ;;
esac
[ -z "$beside" ] || { wait "$beside" || failed+=(beside); cat "$tmp/beside"; }
for out in "$tmp"/*.out; do grep -q '^part [^ ]*: ok' "$out" || failed+=("$(basename "$out" .out)"); done
counts=$(sed -nE 's/^tests: ([0-9]+) passed, ([0-9]+) failed$/\1 \2/p' "$tmp"/*.out)
awk -v parts="${#failed[@]}" '{ p += $1; f += $2 } END { printf "%d passed, %d failed\n", p, (f > parts ? f : parts) }' <<<"$counts"
[ ${#failed[@]} -eq 0 ] || { echo "parts failed: ${failed[*]}"; exit 1; }
