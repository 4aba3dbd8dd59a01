#!/usr/bin/env bash
# growth.sh measures how Rollcall's costs grow with the number of sessions, nodes, watches, ephemeral
# nodes and members, on this machine. It takes 40 minutes, during which nothing else should run. The part
# bench, which runs only if it is named, takes another quarter of an hour.
#
#   growth.sh                 runs the parts live to ephemerals and writes the report
#   growth.sh run PART...     runs these parts
#   growth.sh report          writes docs/performance.md, docs/performance/details.md and docs/sizing.md from what is kept
#
#   live        idle sessions of three members, in real connections   (DATA/live.jsonl)
#   members     reads and writes of one to seven members              (DATA/members.jsonl)
#   observers   the same of voters with observers beside them         (DATA/observers.jsonl)
#   disk        bytes written for a write                             (DATA/disk.jsonl)
#   sessions    sessions in one process, without connections          (DATA/sessions.txt)
#   znodes      nodes in one process                                  (DATA/znodes.txt)
#   watches     watches in one process                                (DATA/watches.txt)
#   ephemerals  the end of a session with many, in three members      (DATA/ephemerals.txt)
#   bench       make bench                                            (DATA/bench.txt)
#
# A part whose file is there is not measured again. Of live, members and disk, the lines that are there
# are not measured again. Remove the file to measure a part anew. A .txt file is the output of go test.
#
#   LIVE (1000 5000 15000 30000 53000)  sessions
#   MEMBERS (1 3 5 7)
#   VOTERS (1 3 5 7), BESIDE (0 1 2 4)  the voters, and the observers beside them, of the part observers
#   OBSERVERS_DURATION (2s), OBSERVERS_WARMUP (500ms)  of its loads
#   DURATION (4s), WARMUP (1500ms)      of each load; DISK_DURATION (10s) of those of disk
#   ROUNDS (3)                          how often each benchmark runs, and each load of members and disk
#   BENCHTIME (500ms; bench 1s)  of each benchmark
#   SHORT=1                             the smallest size of each benchmark, once, for a trial
#   DATA (docs/performance/data), WORK  as in compare.sh
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "$0")/../.."

duration=${DURATION:-4s} warmup=${WARMUP:-1500ms} rounds=${ROUNDS:-3}
DATA=${DATA:-docs/performance/data}
DATA=$(realpath -m "$DATA")
. lab/bench/ensemble.sh

# live holds sessions in a new ensemble for each number, so that the memory is of these sessions alone.
live() {
  local n
  for n in ${LIVE:-1000 5000 15000 30000 53000}; do
    ! kept live "$n" Rollcall 1 || continue
    say "live, $n sessions"
    start Rollcall 3 || { missed "live: $n"; continue; }
    measure live "$n" Rollcall 1 3 "hold:sessions=$n,timeout=10s,warmup=${HOLD_WARMUP:-10s},duration=${HOLD:-20s}"
  done
}

# members loads ensembles of several sizes.
members() {
  local n round row list=("set 64x1=set:conns=64,window=1" "set 8x64=set:conns=8,window=64" "get 64x1=get:conns=64,window=1" "get 8x64=get:conns=8,window=64")
  for ((round = 1; round <= rounds; round++)); do
    for n in ${MEMBERS:-1 3 5 7}; do
      stop
      for row in "${list[@]}"; do
        ! kept members "$n ${row%%=*}" Rollcall "$round" || continue
        running Rollcall "$n" "members, round $round, $n" || { missed "members: $n, round $round"; break; }
        measure members "$n ${row%%=*}" Rollcall "$round" "$n" "${row#*=}"
      done
    done
  done
}

# observers loads ensembles of voters and observers: all members at once, and then one client at a member of
# each role. The loads are short: a round takes about four minutes. The sizes come by turns in each round, so
# that a disturbance of the machine does not hit all runs of one size.
observers() {
  local round voters n role OBSERVERS duration=${OBSERVERS_DURATION:-2s} warmup=${OBSERVERS_WARMUP:-500ms}
  for ((round = 1; round <= rounds; round++)); do
    for voters in ${VOTERS:-1 3 5 7}; do
      for OBSERVERS in ${BESIDE:-0 1 2 4}; do
        stop
        n=$((voters + OBSERVERS))
        observed "set 64x1" set:conns=64,window=1,nodes=100 || continue
        observed "get 64x1" get:conns=64,window=1,nodes=100
        while read -r role; do
          observed "set at $role" "set:conns=1,window=1,nodes=100$([ $n = 1 ] || echo ",member=${role#* }")"
        done < <(roles)
      done
    done
  done
}

# roles prints the roles that there are among $voters voters and OBSERVERS observers. A standalone server has
# the place of the leader.
roles() {
  echo the leader
  [ "$voters" = 1 ] || echo a follower
  [ "$OBSERVERS" = 0 ] || echo an observer
}

# observed ROW CASE measures a case on the ensemble that the loops of observers have reached.
observed() {
  local name="$voters+$OBSERVERS $1"
  ! kept observers "$name" Rollcall "$round" || return 0
  running Rollcall "$n" "observers, round $round, $voters+$OBSERVERS" || { missed "observers: $name, round $round"; return 1; }
  measure observers "$name" Rollcall "$round" "$n" "$2"
}

# running KIND N WHAT says what is measured and starts N members, unless they run already.
running() {
  ! is_running || return 0
  say "$3"
  start "$1" "$2"
}

# written prints how many bytes all members have written to the disk.
written() {
  local pid
  for pid in $(pids | tr , ' '); do cat "/proc/$pid/io"; done | awk '/^write_bytes/ { n += $2 } END { printf "%d", n }'
}

# disk measures the bytes that one member of three writes to its disk for a write, by the number of writes
# under way.
disk() {
  local round row before result ops
  for ((round = 1; round <= rounds; round++)); do
    stop
    for row in "conns=1,window=1,size=100" "conns=64,window=1,size=100" "conns=8,window=64,size=100" "conns=8,window=64,size=1024"; do
      ! kept disk "$row" Rollcall "$round" || continue
      running Rollcall 3 "disk, round $round" || { missed "disk, round $round"; break; }
      before=$(written)
      result=$(load 3 -warmup 0s -duration "${DISK_DURATION:-10s}" "set:$row,nodes=100") || { missed "disk: $row"; continue; }
      ops=$(sed -nE 's/^ *"ops": ([0-9]+),?$/\1/p' <<<"$result" | head -n 1)
      keep disk "$row" Rollcall "$round" figures "{\"bytes written per write\":$(awk -v a="$before" -v b="$(written)" -v n="$ops" 'BEGIN { printf "%.0f", (b - a) / 3 / n }')}"
    done
  done
}

# tests PART ARGS... runs benchmarks. Their file is made when all have passed.
tests() {
  local part=$1
  shift
  [ ! -s "$DATA/$part.txt" ] || return 0
  say "$part"
  if { echo "build: $build, $(date -u +%F)"; go test -run '^$' -timeout "${TEST_LIMIT:-30m}" "$@"; } >"$WORK/$part.txt" && mv "$WORK/$part.txt" "$DATA/$part.txt"; then
    return 0
  fi
  tail -n 20 "$WORK/$part.txt" >&2
  missed "$part"
}

# grown PART PATTERN PACKAGES... runs the benchmarks of a curve, with tests.
grown() {
  local part=$1 pattern=$2
  shift 2
  if [ -n "${SHORT:-}" ]; then
    tests "$part" -short -bench "$pattern" -benchtime 1x "$@"
  else
    tests "$part" -bench "$pattern" -benchtime "${BENCHTIME:-500ms}" -count "$rounds" "$@"
  fi
}

# ephemerals runs the load in one process, against three members in processes of their own.
ephemerals() {
  [ ! -s "$DATA/ephemerals.txt" ] || return 0
  start Rollcall 3 || { missed ephemerals; return 0; }
  ROLLCALL_SERVERS=$(servers 3) BENCHTIME=1x grown ephemerals 'BenchmarkClose$' ./integration
}

part() {
  case $1 in
    live | members | observers | disk | ephemerals) "$1" ;;
    sessions) grown sessions 'BenchmarkGrowth$' ./sessiontracker ./follower ;;
    znodes) grown znodes 'BenchmarkGrowth$' ./znode ;;
    watches) grown watches 'BenchmarkWatchGrowth$' ./znode ;;
    bench) rounds=1 BENCHTIME=${BENCHTIME:-1s} TEST_LIMIT=1h grown bench . -benchmem ./... rollcall/client/... rollcall/zk/... rollcall/zk/kerberos/... ;;
  esac
}

needs() { return 0; }

measuring "live members observers disk sessions znodes watches ephemerals" "bench" "$@"
