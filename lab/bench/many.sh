#!/usr/bin/env bash
# many.sh measures many sessions, watchers and caches on this machine, on Debian's ZooKeeper and on Rollcall by turns: three voters and
# three observers, so that 100,000 connections fit if a process may have 20,000 open files. Each row has a new ensemble for each side.
# Nothing else should run. It needs Debian's package zookeeper and a Java runtime.
#
#   many.sh ROW...   runs these rows and prints the medians, with the least and the greatest
#
#   hold       idle sessions over all members
#   one        idle sessions on one follower: what a session costs where it is served, and elsewhere
#   kills      idle sessions over all members, while the leader and an observer are killed and started again
#   churn      sessions that create one ephemeral node and close, at a rate
#   fanout     watchers whose nodes are written at a rate
#   lasting    the same with persistent watches
#   leader     clients with caches, whose leader is killed
#   member     clients with caches, whose follower is killed
#
#   HELD (100000), ONE (15000), KEPT (60s)  sessions of hold and kills, of one, and how long they are measured
#   RATE (5000)                   sessions per second of churn
#   WATCHERS (40000), NODES (1000), UPDATES (200)  sessions of fanout, nodes, and writes per second
#   CACHES (1000)                 clients of leader and member
#   SIDES ("ZooKeeper Rollcall"), ROUNDS (3)
#   DURATION (20s), WARMUP (5s)   of churn and fanout
#   MEMORY (1024), HEAP (700m)    the limit of each member's memory in MiB, which needs root and cgroups (MEMORY= for none), and Java's heap
#   JVM_WARMUP (8s), WORK, TLS    as in compare.sh
#   DATA  (a new directory in TMPDIR) keeps a line for each run. What is there is not measured again
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "$0")/../.."

held=${HELD:-100000} one=${ONE:-15000} measured=${KEPT:-60s} rate=${RATE:-5000}
watchers=${WATCHERS:-40000} nodes=${NODES:-1000} updates=${UPDATES:-200} caches=${CACHES:-1000}
sides=${SIDES:-ZooKeeper Rollcall} rounds=${ROUNDS:-3} duration=${DURATION:-20s} warmup=${WARMUP:-5s}
DATA=${DATA:-$(mktemp -d)} MEMORY=${MEMORY-1024} HEAP=${HEAP:-700m} OBSERVERS=3 CASE_LIMIT=1800
members=6 # with the observers
. lab/bench/ensemble.sh
. lab/bench/medians.sh

# killing I... prints a hook that kills members.
killing() {
  local i
  for i in "$@"; do printf 'kill -9 %s; ' "$(of "$i" pid)"; done
}

# replacing I... prints a hook that kills members, and starts them again after a second. While a case runs, nobody else gives the
# ensemble commands.
replacing() {
  local i
  killing "$@"
  printf 'sleep 1; '
  for i in "$@"; do printf "echo launch %s forceSync=yes >'%s'; head -n 1 '%s' >&2; " "$i" "$WORK/commands" "$WORK/replies"; done
}

# warm_up_for ROW SIDE warms a new ensemble, unless the row measures memory: what the load has left would be taken by the sessions.
warm_up_for() { [[ $1 = one || $1 = hold ]] || warm_up "$2" "$members"; }

# run_row ROW runs a row on the ensemble, and prints the result.
run_row() {
  local leader follower observer idle=timeout=30s,sources=16
  leader=$(member_that_is leader "$members") && follower=$(member_that_is follower "$members") && observer=$(member_that_is observer "$members") || return
  case $1 in
    hold) load "$members" -duration "$measured" -warmup 10s "hold:sessions=$held,$idle" ;;
    one) ONLY=$follower load "$members" -duration "$measured" -warmup 10s "hold:sessions=$one,$idle" ;;
    kills) load "$members" -duration "$measured" -warmup 10s --hook "$(replacing "$leader" "$observer")" "hold:sessions=$held,$idle" ;;
    churn) load "$members" -duration "$duration" -warmup "$warmup" "churn:rate=$rate,conns=1000,sources=64,timeout=30s" ;;
    fanout | lasting)
      load "$members" -duration "$duration" -warmup "$warmup" \
        "fanout:watchers=$watchers,nodes=$nodes,rate=$updates,persistent=$([ "$1" = lasting ] && echo true || echo false),$idle" ;;
    leader | member) load "$members" --hook "$(killing "$([ "$1" = leader ] && echo "$leader" || echo "$follower")")" "cachestorm:conns=$caches,timeout=30s" ;;
  esac
}

# part ROW runs a row on each side in each round. The order of the sides changes with each round.
part() {
  local row=$1 round side result
  for ((round = 1; round <= rounds; round++)); do
    for side in $([ $((round % 2)) = 1 ] && echo $sides || printf '%s\n' $sides | tac); do
      ! kept "$row" "$row" "$side" "$round" || continue
      say "$row, round $round: $side"
      if start "$side" "$members" && warm_up_for "$row" "$side" && result=$(run_row "$row"); then
        keep "$row" "$row" "$side" "$round" results "$result"
      else
        missed "$row on $side, round $round"
      fi
      stop
    done
  done
}

needs() { [[ $sides != *ZooKeeper* ]] || [ -f /usr/share/java/zookeeper.jar ] || { echo "ZooKeeper is not installed: apt-get install zookeeper" >&2; return 1; }; }

known=" hold one kills churn fanout lasting leader member "
[ $# -gt 0 ] || { sed -nE 's/^#   (many.sh.*)/\1/p' "$0" >&2; exit 2; }
for p in "$@"; do [[ $known = *" $p "* ]] || { echo "no row $p; there are$known" >&2; exit 2; }; done
run "$@"
for p in "$@"; do medians "$p"; done
finish
