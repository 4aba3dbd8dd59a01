#!/usr/bin/env bash
# secure.sh measures what TLS, private connections between members, and the audit log cost on this machine,
# beside the same without them. Each variant is started anew for its turn, and the turns of a round come one
# after the other. Nothing else should run. It needs Debian's package zookeeper and a Java runtime.
#
#   secure.sh PART...   runs these parts and prints the medians, with the least and the greatest
#
#   get       64 clients of one server that each wait for an answer: plain and over TLS, ZooKeeper and Rollcall
#   sessions  sessions opened and closed, 64 at once, on these servers
#   idle      10,000 idle sessions on these servers
#   members   sets on three members: plain, with a secret, and with certificates
#   audit     sets on three members, with and without the audit log
#   throttle  sessions opened and closed on one member, with and without the connection throttle
#
#   ROUNDS (3), DURATION (4s), WARMUP (1500ms), JVM_WARMUP (8s), WORK  as in compare.sh
#   DATA  (a new directory in TMPDIR) keeps a line for each run. What is there is not measured again
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "$0")/../.."

duration=${DURATION:-4s} warmup=${WARMUP:-1500ms} rounds=${ROUNDS:-3}
DATA=${DATA:-$(mktemp -d)} TLS=""
. lab/bench/ensemble.sh
. lab/bench/medians.sh

# served SIDE lists the variants of one server: its name, "TLS" if clients connect over TLS, a line for zoo.cfg, and the members' proof.
served() {
  [ "$1" = Rollcall ] || echo "ZooKeeper, Java's sockets||"
  [ "$1" = Rollcall ] || echo "ZooKeeper, Netty||serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory"
  echo "$1, TLS|TLS|"
  [ "$1" = ZooKeeper ] || echo "Rollcall||"
}

# servers_by_turns PART CASE... measures the cases on each server in each round.
servers_by_turns() {
  local part=$1 round side
  shift
  for ((round = 1; round <= rounds; round++)); do
    for side in $([ $((round % 2)) = 1 ] && echo ZooKeeper Rollcall || echo Rollcall ZooKeeper); do
      variants "$part" "$round" "$side" 1 "$(served "$side")" "$@"
    done
  done
}

# variants PART ROUND KIND N LIST CASE... starts each variant of a list and measures the cases on it.
variants() {
  local part=$1 round=$2 kind=$3 n=$4 list=$5 name over line proof case
  shift 5
  while IFS='|' read -r name over line proof; do
    TLS=$over CFG=$line PROOF=$proof
    started_here=""
    for case in "$@"; do
      ! kept "$part" "$case" "$name" "$round" || continue
      if [ -z "$started_here" ]; then
        say "$part, round $round: $name"
        start "$kind" "$n" || { missed "$part: $name, round $round"; break; }
        warm_up "$kind" "$n"
        started_here=yes
      fi
      measure "$part" "$case" "$name" "$round" "$n" "$case"
    done
    stop
  done <<<"$list"
}

part() {
  local round
  case $1 in
    get) servers_by_turns get get:conns=64,window=1 ;;
    sessions) servers_by_turns sessions sessions:conns=64 ;;
    idle) servers_by_turns idle hold:sessions=10000,timeout=10s,warmup=5s,duration=20s ;;
    members)
      for ((round = 1; round <= rounds; round++)); do
        variants members "$round" Rollcall 3 $'plain|||\nsecret|||secret\ncertificates|||certificates' set:conns=8,window=64 set:conns=64,window=1
      done ;;
    audit)
      for ((round = 1; round <= rounds; round++)); do
        variants audit "$round" Rollcall 3 $'off||\non||audit.enable=true' set:conns=8,window=64 set:conns=64,window=1
      done ;;
    throttle)
      for ((round = 1; round <= rounds; round++)); do
        variants throttle "$round" Rollcall 1 $'off||\non||connection_throttle_tokens=1000000000' sessions:conns=64
      done ;;
  esac
}

needs() { [[ $* != *get* && $* != *sessions* && $* != *idle* ]] || [ -f /usr/share/java/zookeeper.jar ] || { echo "ZooKeeper is not installed: apt-get install zookeeper" >&2; return 1; }; }

known=" get sessions idle members audit throttle "
[ $# -gt 0 ] || { sed -nE 's/^#   (secure.sh.*)/\1/p' "$0" >&2; exit 2; }
for p in "$@"; do [[ $known = *" $p "* ]] || { echo "no part $p; there are$known" >&2; exit 2; }; done
run "$@"
for p in "$@"; do medians "$p"; done
finish
