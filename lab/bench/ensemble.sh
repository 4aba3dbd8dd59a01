# The scripts that measure source this file. It starts and stops ensembles of ZooKeeper, of Rollcall or of the
# floor (lab/bench/floor) on 127.0.0.1, or in the network namespaces of lab/bench/links.sh, and keeps one line for each measured run. WORK, PORT,
# first and kind are those of the ensemble that the functions act on.
#
#   PORT  the first of 420 ports of 127.0.0.1
#   WORK  directory for the members' data, new for each start
#   DATA  directory for the measurements
#   TLS   not empty: clients connect over TLS. Both sides show a certificate, as is ZooKeeper's default
#   JVM_WARMUP (8s)  of each of the six loads that warm a new ensemble of ZooKeeper (see warm_up)
#   CFG   words to add to each zoo.cfg, a line for each
#   OBSERVERS  how many of the members, the last ones, have no vote
#   LINKS the beginning of the names of network namespaces. If it is not empty, member I runs in namespace LINKS with I behind it
#   ONLY  the member that clients connect to (default: all of them)
#   ADMIN not empty: operators are served at port PORT + 400 + I, and WORK/token has their token. Rollcall alone

rollcall=$PWD/bin/rollcall
netty=$(printf ':/usr/share/java/netty-%s.jar' buffer codec common handler resolver transport transport-native-epoll transport-native-unix-common)
limit=60 # seconds until all members must serve
started=0 # ensembles so far
first=0   # port before that of the first member's clients
kind=""   # of the members that were launched last

# host I prints the address of member I.
host() { [ -n "${LINKS:-}" ] && echo "10.47.0.$1" || echo 127.0.0.1; }

# at I COMMAND... runs a command where member I runs.
at() {
  if [ -n "${LINKS:-}" ]; then
    ip netns exec "$LINKS$1" "${@:2}"
  else
    "${@:2}"
  fi
}

# serving N prints how many of N members take clients. The floor's followers take none.
serving() { [ "$kind" = Floor ] && echo 1 || echo "$1"; }

# servers N prints the clients' addresses of N members, or that of the member that ONLY names.
servers() {
  local i list="" n
  n=$(serving "$1")
  for ((i = 1; i <= n; i++)); do
    [ "${ONLY:-$i}" != "$i" ] || list+=",$(host "$i"):$((first + i${TLS:+ + 200}))"
  done
  echo "${list#,}"
}

# certificates makes those for TLS in WORK/tls, unless they are there.
certificates() { [ -f "$WORK/tls/127.0.0.1.pem" ] || "$rollcall" certs --out "$WORK/tls" 127.0.0.1 >/dev/null; }

# secured I prints the lines that give member I a port for clients over TLS. ZooKeeper needs Netty for it.
secured() {
  [ -n "${TLS:-}" ] || return 0
  printf '%s\n' "secureClientPort=$((first + 200 + $1))" secureClientPortAddress=127.0.0.1 \
    "ssl.keyStore.location=$WORK/tls/127.0.0.1.pem" "ssl.trustStore.location=$WORK/tls/ca.pem" \
    serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory
}

# operated I prints the lines about operators of member I.
operated() {
  [ -n "${ADMIN:-}" ] || { echo admin.enableServer=false; return; }
  printf '%s\n' "admin.serverPort=$((PORT + 400 + $1))" "admin.tokenFile=$WORK/token"
}

# config I N prints the zoo.cfg of member I of N. It is the same for ZooKeeper and Rollcall.
config() {
  local i=$1 n=$2 j voters=$(($2 - ${OBSERVERS:-0})) role
  printf '%s\n' tickTime=2000 initLimit=10 syncLimit=5 "dataDir=$WORK/$i" "clientPort=$((first + i))" \
    "clientPortAddress=$(host "$i")" maxClientCnxns=0 '4lw.commands.whitelist=*' forceSync=yes ${CFG:-}
  secured "$i"
  operated "$i"
  [ "$n" != 1 ] || return 0
  [ "$voters" != 1 ] || echo standaloneEnabled=false # a standalone server has no observers
  [ "$i" -le "$voters" ] || echo peerType=observer
  for ((j = 1; j <= n; j++)); do
    role=""
    [ "$j" -le "$voters" ] || role=:observer
    echo "server.$j=$(host "$j"):$((PORT + j)):$((PORT + 20 + j))$role"
  done
}

# peers N prints the addresses of N members for each other.
peers() {
  local i list=""
  for ((i = 1; i <= $1; i++)); do list+=",127.0.0.1:$((PORT + i))"; done
  echo "${list#,}"
}

# launch KIND I N begins one member in the background and notes its process.
launch() {
  local i=$2 n=$3 cfg=$WORK/cfg.$2 heap=1g
  kind=$1
  certificates || return
  [ -z "${ADMIN:-}" ] || [ -s "$WORK/token" ] || (umask 077 && echo "a-token-for-measuring-only" >"$WORK/token")
  mkdir -p "$WORK/$i"
  echo "$i" >"$WORK/$i/myid"
  config "$i" "$n" >"$cfg"
  [ "$n" != 1 ] || heap=2g
  case $kind in
    Rollcall) set -- "$rollcall" serve "$cfg" ;;
    ZooKeeper) set -- java "-Xms$heap" "-Xmx$heap" -Dzookeeper.forceSync=yes -Dzookeeper.admin.enableServer=false \
      -cp "/usr/share/java/slf4j-simple.jar:/usr/share/java/zookeeper.jar$netty" -Dorg.slf4j.simpleLogger.defaultLogLevel=warn \
      org.apache.zookeeper.server.quorum.QuorumPeerMain "$cfg" ;;
    Floor)
      [ -x "$WORK/floor" ] || CGO_ENABLED=0 go build -trimpath -o "$WORK/floor" ./lab/bench/floor || return
      set -- "$WORK/floor" --member "$i" --peers "$(peers "$n")" --data "$WORK/$i"
      [ "$i" != 1 ] || set -- "$@" --client "127.0.0.1:$((first + 1))" ;;
  esac
  [ -z "${LINKS:-}" ] || set -- ip netns exec "$LINKS$i" "$@"
  setsid "$@" >"$WORK/log.$i" 2>&1 </dev/null &
  echo $! >>"$WORK/pids"
  disown $! # the shell does not report its end
}

# await N returns when all N members serve that take clients.
await() {
  local i began=$SECONDS n
  n=$(serving "$1")
  for ((i = 1; i <= n; i++)); do
    until at "$i" "$rollcall" health -addr "$(host "$i"):$((first + i))" >/dev/null 2>&1; do
      if [ $((SECONDS - began)) -ge "$limit" ]; then
        echo "member $i does not serve after $limit s:" >&2
        tail -n 20 "$WORK/log.$i" >&2
        return 1
      fi
      sleep 0.02
    done
  done
}

# other_ports chooses the ports for clients of the next ensemble. They change each time, because the kernel
# keeps the ports of closed connections for a minute.
other_ports() { started=$((started + 1)) first=$((PORT + 40 + started % 8 * 20)); }

# start KIND N starts N members with empty directories. An ensemble has 19 members at most, because of the ports.
start() {
  local i
  stop
  other_ports
  for ((i = 1; i <= $2; i++)); do launch "$1" "$i" "$2" || return; done
  await "$2"
}

# kill_all ends the processes that were started, and keeps their data.
kill_all() {
  local pid
  [ -f "$WORK/pids" ] || return 0
  while read -r pid; do
    grep -qF "$WORK/" "/proc/$pid/cmdline" 2>/dev/null || continue # the process has ended by itself
    kill -9 "$pid" 2>/dev/null || true
    while kill -0 "$pid" 2>/dev/null; do sleep 0.05; done
  done <"$WORK/pids"
  rm -f "$WORK/pids"
}

# stop ends the members and removes their data.
stop() {
  kill_all
  rm -rf "$WORK"/[0-9]* "$WORK"/cfg.* "$WORK"/log.*
}

# stop_everywhere stops the members in the first WORK, and in those directories of the sides below it that compare.sh makes.
stop_everywhere() {
  for WORK in "$root" "$root"/ZooKeeper "$root"/Floor "$root"/Rollcall; do
    stop
  done
}

# pids prints the process ids of the members with commas between them.
pids() { paste -sd, "$WORK/pids"; }

# load N ARGS... runs rollcall bench against N members, or against the one that ONLY names and beside it, for CASE_LIMIT seconds at most.
load() {
  local n=$1 over=()
  shift
  [ -z "${TLS:-}" ] || over=(-tls-ca "$WORK/tls/ca.pem" -tls-cert "$WORK/tls/127.0.0.1.pem")
  at "${ONLY:-1}" timeout -k 20 "${CASE_LIMIT:-240}" "$rollcall" bench "${over[@]}" --hosts "$(servers "$n")" -pids "$(pids)" -o json "$@"
}

# warm_up KIND N loads a new ensemble. Java compiles code that has run often: after 12 s of mix:reads=50 ZooKeeper still did only
# 1,500 sets of 64 clients per second, and 4,500 a few runs later. If something is wrong, the cases fail, too.
warm_up() {
  local case long=2s cases=(mix:reads=50)
  if [ "$1" = ZooKeeper ]; then
    long=${JVM_WARMUP:-8s}
    cases+=(set:conns=64,window=1 get:conns=64,window=1 create:conns=8,window=64 sessions:conns=32 mix:reads=50)
  fi
  for case in "${cases[@]}"; do load "$2" -warmup 0s -duration "$long" "$case" >/dev/null || true; done
}

# kept PART ROW SIDE ROUND succeeds if that was measured already.
kept() { grep -qsF "$(key "$2" "$3" "$4")" "$DATA/$1.jsonl"; }
key() { printf '{"row":"%s","side":"%s","round":%s,' "$1" "$2" "$3"; }

# keep PART ROW SIDE ROUND NAME JSON adds a line, which has the measured JSON under NAME.
keep() {
  printf '%s"build":"%s","at":"%s","%s":%s}\n' "$(key "$2" "$3" "$4")" "$build" "$(date -u +%FT%TZ)" "$5" \
    "$(printf %s "$6" | sed 's/^ *//' | tr -d '\n')" >>"$DATA/$1.jsonl"
}

# measure PART ROW SIDE ROUND N CASE runs one case and keeps its results.
measure() {
  local result flags=(-duration "$duration" -warmup "$warmup")
  [[ $6 != expiry* ]] || flags=() # it ends by itself
  if result=$(load "$5" "${flags[@]}" "$6"); then
    keep "$1" "$2" "$3" "$4" results "$result"
  else
    missed "$1: $2 on $3, round $4 (status $?; 124 is the limit of time)"
  fi
}

# missed notes something that could not be measured. The script continues, and fails at its end.
missed() {
  echo "NOT MEASURED $*" >&2
  missing+=("$*")
}
missing=()

# say prints progress, with the time of day.
say() { echo "$(date +%T) $*" >&2; }

# rss prints the resident memory of all members in MiB.
rss() {
  local pid kb=0
  while read -r pid; do
    kb=$((kb + $(awk '/^VmRSS:/ { print $2 }' "/proc/$pid/status")))
  done <"$WORK/pids"
  awk -v kb="$kb" 'BEGIN { printf "%.1f", kb / 1024 }'
}

# word I WORD prints member I's answer to a four-letter word.
word() {
  at "$1" bash -c 'exec 3<>"/dev/tcp/$0/$1" && printf %s "$2" >&3 && timeout 10 cat <&3' "$(host "$1")" "$((first + $1))" "$2"
}

# machine prints a description of this machine and of the two programs.
machine() {
  cat <<M
processor	$(nproc) x $(sed -nE 's/^model name\s*: //p' /proc/cpuinfo | head -n 1)
memory	$(awk '/^MemTotal/ { printf "%.0f GiB", $2 / 1048576 }' /proc/meminfo)
kernel, file system of the data	$(uname -r), $(stat -f -c %T "$WORK")
open files of a process	$(ulimit -n)
load average when the last part began	$(cut -d ' ' -f 1-3 /proc/loadavg)
ZooKeeper	$(dpkg-query -W -f '${Version}' zookeeper 2>/dev/null || echo none); $(java -version 2>&1 | sed -n 2p); heap 2 GiB alone, 1 GiB for each of three (-Xms as -Xmx); forceSync on
Rollcall	$("$rollcall" version | cut -d ' ' -f 2) ($build), $(go version | cut -d ' ' -f 3)
M
}

# begin_measuring makes the directories, and has the members stopped when the script ends. finish fails if
# anything could not be measured.
begin_measuring() {
  build=$(git describe --always --dirty 2>/dev/null || echo unknown)
  mkdir -p "$DATA"
  made=""
  [ -n "${WORK:-}" ] || { WORK=$(mktemp -d); made=$WORK; }
  root=$WORK
  trap 'stop_everywhere; [ -z "$made" ] || rm -rf "$made"' EXIT
}
finish() {
  [ ${#missing[@]} -eq 0 ] || { printf 'not measured: %s\n' "${missing[@]}" >&2; return 1; }
}

# report writes docs/performance.md, docs/performance/details.md and docs/sizing.md from the kept
# measurements.
report() { go -C tools/figures run . "$(realpath "$DATA")" "$PWD/docs"; }

# usage prints the lines of the comment at the top of the script that say how to call it.
usage() {
  sed -nE "s/^#   ($(basename "$0").*)/\\1/p" "$0" >&2
  exit 2
}

# measuring "USUAL" "FURTHER" ARGS... does what the script's arguments ask for. USUAL are the parts that
# are measured if none is named, and FURTHER those that have to be named. The script has two functions:
# part measures one part, and needs fails if a program is missing for some parts.
measuring() {
  local usual=$1 known=" $1 $2 " part
  shift 2
  for part in "${@:2}"; do
    [[ $known = *" $part "* ]] || usage
  done
  case ${1:-} in
    "") run $usual; report; finish ;;
    run) [ $# -gt 1 ] || usage; run "${@:2}"; finish ;;
    report) [ $# -eq 1 ] || usage; report ;;
    print) [ $# -eq 1 ] || usage; go -C tools/figures run . "$(realpath "$DATA")" ;;
    *) usage ;;
  esac
}

# run PART... measures these parts.
run() {
  local part
  needs "$@"
  [ -x "$rollcall" ] || { echo "bin/rollcall is missing: make build" >&2; exit 1; }
  begin_measuring
  machine >"$DATA/machine.txt"
  for part in "$@"; do
    part "$part"
    stop
  done
  say "took $SECONDS s"
}
