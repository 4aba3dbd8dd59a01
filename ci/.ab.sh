#!/usr/bin/env bash
# compare.sh measures Debian's ZooKeeper and this Rollcall on this machine, by turns, alone
# and as three members, and writes docs/performance.md. It takes half an hour, in which
# nothing else should run. It needs Debian's packages zookeeper and a Java runtime.
#
#   DURATION (10s), WARMUP (3s)  of each case
#   ROUNDS (3)                   how often each case runs on each
#   JVM_WARMUP (20s)             load before a turn, so that Java has compiled what is hot; on both
#   CASES1, CASES3               cases for one member and for three, instead of the list below
#   OUT (docs/performance.md)    "-" prints
#   PORT (24600)                 the first of a hundred ports of 127.0.0.1
#   WORK                         folder for data, on the disk to be measured (default: a new one in TMPDIR)
#
# compare.sh start zookeeper|rollcall 1|3 and compare.sh stop are what its turns begin and
# end with: the members' data are new each time.
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "$0")/.."

duration=${DURATION:-10s} warmup=${WARMUP:-3s} rounds=${ROUNDS:-3} out=${OUT:-docs/performance.md} port=${PORT:-24600}
jvm_warmup=${JVM_WARMUP:-20s}
rollcall=/tmp/base/flush
limit=60 # seconds until all members must serve

# The same for both, in this order: what leaves many nodes or sessions behind comes last.
cases1=${CASES1:-"set:conns=64,window=1 set:conns=8,window=64 get:conns=64,window=1 get:conns=8,window=64"}
cases3=${CASES3:-"set:conns=64,window=1 set:conns=8,window=64 set:conns=8,window=64,size=1024 set:conns=1,window=1
  get:conns=64,window=1 get:conns=8,window=64 mix:conns=8,window=64 children:conns=8,window=16 multi:conns=8,window=16
  create:conns=8,window=64 sessions:conns=32 sessions:conns=256 ephemerals:conns=16,each=10 watches:watchers=10000
  expiry:silent=5000,timeout=6s sessions:hold=15000,timeout=10s,warmup=10s"}

# servers N prints the clients' addresses of N members.
servers() {
  local i list=""
  for ((i = 1; i <= $1; i++)); do list+=",127.0.0.1:$((port + i))"; done
  echo "${list#,}"
}

# config I N prints the zoo.cfg of member I of N, the same for both servers.
config() {
  local i=$1 n=$2 j
  printf '%s\n' tickTime=2000 initLimit=10 syncLimit=5 "dataDir=$WORK/$i" "clientPort=$((port + i))" \
    clientPortAddress=127.0.0.1 maxClientCnxns=0 admin.enableServer=false '4lw.commands.whitelist=*' forceSync=yes
  [ "$n" = 1 ] || for ((j = 1; j <= n; j++)); do echo "server.$j=127.0.0.1:$((port + 20 + j)):$((port + 40 + j))"; done
}

# launch KIND I N begins one member in the background and notes its process.
launch() {
  local kind=$1 i=$2 n=$3 cfg=$WORK/cfg.$2 heap=1g
  mkdir -p "$WORK/$i"
  echo "$i" >"$WORK/$i/myid"
  config "$i" "$n" >"$cfg"
  [ "$n" != 1 ] || heap=2g
  case $kind in
    rollcall) set -- "$rollcall" serve "$cfg" ;;
    zookeeper) set -- java "-Xms$heap" "-Xmx$heap" -Dzookeeper.forceSync=yes -Dzookeeper.admin.enableServer=false \
      -cp "/usr/share/java/slf4j-simple.jar:/usr/share/java/zookeeper.jar" -Dorg.slf4j.simpleLogger.defaultLogLevel=warn \
      org.apache.zookeeper.server.quorum.QuorumPeerMain "$cfg" ;;
    *) usage ;;
  esac
  setsid "$@" >"$WORK/log.$i" 2>&1 </dev/null &
  echo $! >>"$WORK/pids"
}

# start prints the processes of an ensemble that serves and has been warmed.
start() {
  local kind=$1 n=$2 i began=$SECONDS
  stop
  for ((i = 1; i <= n; i++)); do launch "$kind" "$i" "$n"; done
  for ((i = 1; i <= n; i++)); do
    until "$rollcall" health -addr "127.0.0.1:$((port + i))" >/dev/null 2>&1; do
      if [ $((SECONDS - began)) -ge "$limit" ]; then
        echo "$kind: member $i does not serve after $limit s:" >&2
        tail -n 20 "$WORK/log.$i" >&2
        return 1
      fi
      sleep 0.1
    done
  done
  "$rollcall" bench -servers "$(servers "$n")" -warmup 0s -duration "$jvm_warmup" mix:reads=50 >/dev/null
  cat "$WORK/pids"
}

# stop ends the processes that the last start noted, and removes their data.
stop() {
  local pid
  [ -f "$WORK/pids" ] || return 0
  while read -r pid; do
    kill -9 "$pid" 2>/dev/null || true # it may have ended by itself
    while kill -0 "$pid" 2>/dev/null; do sleep 0.05; done
  done <"$WORK/pids"
  rm -rf "$WORK"/[0-9]* "$WORK"/cfg.* "$WORK/pids"
}

# compare N CASES... prints the tables of N members.
compare() {
  local n=$1
  shift
  "$rollcall" bench compare -o markdown -rounds "$rounds" -duration "$duration" -warmup "$warmup" \
    -a "$(servers "$n")" -a-name ZooKeeper -a-start "ci/compare.sh start zookeeper $n" -a-stop "ci/compare.sh stop" \
    -b "$(servers "$n")" -b-name Rollcall -b-start "ci/compare.sh start rollcall $n" -b-stop "ci/compare.sh stop" "$@"
}

# report prints all of docs/performance.md.
report() {
  local three one
  three=$(compare 3 $cases3)
  one=$(compare 1 $cases1)
  cat <<END
# Performance

Written by \`make compare\`, $(date -u +%Y-%m-%d): Rollcall beside ZooKeeper on one machine, by turns, each alone on it with the
load generator. Each case ran $rounds times on each, $duration after a warm-up of $warmup, in new data folders; before each turn there
was a load of $jvm_warmup on both. A row is void if the generator used more than a third of the servers' CPU time.

| | |
|---|---|
| processor | $(nproc) x $(sed -nE 's/^model name\s*: //p' /proc/cpuinfo | head -n 1) |
| memory | $(awk '/^MemTotal/ { printf "%.0f GiB", $2 / 1048576 }' /proc/meminfo) |
| kernel, file system of the data | $(uname -r), $(stat -f -c %T "$WORK") |
| ZooKeeper | $(dpkg-query -W -f '${Version}' zookeeper); $(java -version 2>&1 | sed -n 2p); heap 2 GiB alone, 1 GiB for each of three (-Xms as -Xmx); forceSync on |
| Rollcall | $("$rollcall" version | cut -d ' ' -f 2) ($(git describe --always --dirty)), $(go version | cut -d ' ' -f 3) |

Memory is the resident set of all members; Java's holds its heap, used or not.

## Three members

    rollcall bench compare ... $(echo $cases3 | fold -s -w 110 | sed '2,$s/^/      /')

$three

## One member

    rollcall bench compare ... $(echo $cases1 | fold -s -w 110 | sed '2,$s/^/      /')

$one
END
}

usage() {
  echo "usage: $0 [start zookeeper|rollcall 1|3 | stop]" >&2
  exit 2
}

case ${1:-} in
  start) [ $# -eq 3 ] || usage; start "$2" "$3" ;;
  stop) stop ;;
  "")
    command -v java >/dev/null && [ -f /usr/share/java/zookeeper.jar ] || { echo "ZooKeeper is not installed: apt-get install zookeeper" >&2; exit 1; }
    made=""
    [ -n "${WORK:-}" ] || { WORK=$(mktemp -d); made=$WORK; }
    export WORK
    trap 'stop; [ -z "$made" ] || rm -rf "$made"' EXIT
    text=$(report)
    if [ "$out" = - ]; then echo "$text"; else echo "$text" >"$out"; fi
    ;;
  *) usage ;;
esac
