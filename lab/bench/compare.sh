#!/usr/bin/env bash
# compare.sh measures Debian's ZooKeeper, the floor (lab/bench/floor) and this Rollcall on this machine, by turns within
# each row, each as one server and as three. Then it measures Rollcall alone. lab/bench/compare.txt lists the cases. It takes an hour,
# during which nothing else should run. It needs Debian's package zookeeper and a Java runtime.
#
#   compare.sh                  runs all parts and writes the report
#   compare.sh run PART...      runs these parts of three, one, idle15, idle, failover, alone and backup
#   compare.sh run links        runs the rows of three members over links of 1, 5 and 25 ms each way, which needs root (see lab/bench/links.sh)
#   compare.sh run floor        runs the rows of three and one that the floor has, on the floor and on Rollcall alone
#   compare.sh print            prints the tables of one and three from what is kept
#   compare.sh report           writes docs/performance.md, docs/performance/details.md and docs/sizing.md from what is kept
#
# Each run of a case is kept as a line of DATA/PART.jsonl, and is not measured again while the line is
# there. If compare.sh was interrupted, or a case failed, the next call therefore measures only the rest.
# Remove the file to measure a part anew. The start of one member took up to 0.3 s longer in what was kept before lab/bench/ensemble
# measured it: a program of its own asked the member each time.
#
#   DURATION (4s), WARMUP (1500ms)  of each case, unless compare.txt says otherwise
#   ROUNDS (3), IDLE_ROUNDS (1)     how often each case runs on each
#   SIDES ("ZooKeeper Floor Rollcall")  the sides of the parts three and one; over TLS there is no Floor
#   ROWS                            a pattern: of the parts three, one and floor only rows that match it
#   KILLS (5)                       how often each fault of the part failover is made in a turn
#   FAULTS ("KILL TERM STOP")       the faults of the part failover, by their signals
#   FAILOVER_SIDES ("ZooKeeper Rollcall")  the sides of the part failover
#   HELD (1000)                     the sessions that are connected in the part failover. For others than these defaults, choose another DATA
#   LOGS                            a directory that keeps the members' logs of each fault, in SIDE.FAULT.ROUND: with CFG=logLevel=debug
#                                   they show what an election waited for
#   JVM_WARMUP (8s)                 of each of the six loads that warm a new ensemble of ZooKeeper (see warm_up)
#   NODES (1000000), SESSIONS (1000000)  the numbers for "1 M" in the parts alone and backup; smaller ones are for a trial
#   BACKUP_SECONDS (15)             how long a run of the part backup is measured, after a warm-up of 5 s
#   PAIRS (3)                       how many pairs of runs the part backup has for each role in a round. For fewer, choose another DATA
#   DATA (docs/performance/data)
#   TLS                             not empty: clients of both connect over TLS. Choose another DATA
#   WORK                            directory for data, on the disk to be measured (default: a new one in TMPDIR)
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "$0")/../.."

duration=${DURATION:-4s} warmup=${WARMUP:-1500ms} rounds=${ROUNDS:-3} idle_rounds=${IDLE_ROUNDS:-1}
sides=${SIDES:-ZooKeeper $([ -n "${TLS:-}" ] || echo Floor) Rollcall} # the floor has no TLS
kills=${KILLS:-5} faults=${FAULTS:-KILL TERM STOP} failover_sides=${FAILOVER_SIDES:-ZooKeeper Rollcall} held=${HELD:-1000} nodes=${NODES:-1000000} sessions=${SESSIONS:-1000000}
backup_nodes=20000 backup_seconds=${BACKUP_SECONDS:-15} pairs=${PAIRS:-3}
slowest_backup=$((4 << 20)) # bytes in a second, half of the usual rate; less beside a load would hardly be a backup
DATA=${DATA:-docs/performance/data}
. lab/bench/ensemble.sh
. lab/bench/links.sh

# rows PART SIDE [OF] prints the part's rows for that side: name, tab, case. If OF is Floor, it prints only those that the
# floor has. The floor has no watches and no ephemerals, and sessions do not expire there. Only its leader takes clients, so
# the cases for followers are measured there, too.
rows() {
  awk -F ' *[|] *' -v part="${1%-*ms}" -v side="$2" -v of="${3:-$2}" -v wanted="${ROWS:-.}" '
    /^#/ || $1 != part || $2 !~ wanted || $3 == "" { next }
    of == "Floor" && $3 !~ /^(set|get|mix|children|multi|create|sessions):conns=/ { next }
    side == "Floor" { sub(/,member=[a-z]+/, "", $3) }
    { print $2 "\t" $3 }' lab/bench/compare.txt
}

# turns PART N ROUNDS SIDES [OF] measures the rows of a part. OF is that of rows. Each round has an ensemble of N members for each side, and they
# run beside each other. A row is measured on all sides, one after the other, because the speed of a shared machine changes
# within minutes. Meanwhile the other ensembles are idle.
turns() {
  local round
  for ((round = 1; round <= $3; round++)); do
    turn "$1" "$2" "$round" "$4" "${5:-}"
    stop_everywhere
  done
}

# turn PART N ROUND SIDES OF measures the rows of a round that are not kept yet. The order of the sides moves on by one with
# each row and with each round. OF is that of rows.
turn() {
  local part=$1 n=$2 round=$3 side row case wanted i=$3
  local -A cases=()
  local serve=()
  for side in $4; do
    wanted=0
    while IFS=$'\t' read -r row case; do
      kept "$part" "$row" "$side" "$round" || { cases[$side $row]=$case; wanted=1; }
    done < <(rows "$part" "$side" "$5")
    [ "$wanted" = 1 ] || continue
    say "$part, round $round, $side starts"
    start_side "$side" "$n" || { missed "$part: all of round $round on $side"; continue; }
    serve+=("$side")
    if [ -n "${LINKS:-}" ]; then
      warm_up_both "$side"
    else
      warm_up "$side" "$n"
    fi
  done
  while IFS=$'\t' read -r row case; do
    i=$((i + 1))
    for side in $(rotated "$i" "${serve[@]}"); do
      [ -n "${cases[$side $row]:-}" ] || continue
      at_side "$side"
      local ONLY=""
      [ -z "${LINKS:-}" ] || ONLY=$(beside_member "$row") || { missed "$part: $row on $side, round $round"; continue; }
      measure "$part" "$row" "$side" "$round" "$n" "${cases[$side $row]}"
    done
  done < <(rows "$part" Rollcall "$5")
}

# rotated I WORD... prints the words, from the one after I words on.
rotated() {
  local i=$1
  shift
  [ $# -eq 0 ] || printf '%s\n' "${@:i % $# + 1}" "${@:1:i % $#}"
}

# at_side SIDE makes the ensemble of a side the present one.
at_side() {
  WORK=$root/$1
  mkdir -p "$WORK"
}

# start_side SIDE N starts the ensemble of a side.
start_side() {
  at_side "$1"
  start "$1" "$2"
}

# figure ROW ROUND NAME VALUE keeps one figure of Rollcall alone, unless it is kept already.
figure() { kept alone "$1" Rollcall "$2" || keep alone "$1" Rollcall "$2" figures "{\"$3\":$4}"; }

# keep_rss ROW ROUND keeps the memory of the members as a figure.
keep_rss() {
  local mib
  mib=$(rss) && figure "$1" "$2" "RSS MiB" "$mib"
}

# grow N creates the nodes in N members and leaves them there.
grow() { load "$1" -keep -duration 100ms -warmup 0s "get:nodes=$nodes,size=100" >/dev/null; }

# snapshots I prints how many snapshots member I has written since it started.
snapshots() { word "$1" mntr | awk '$1 == "zk_cnt_snapshottime" { n = $2 } END { print n + 0 }'; }

# snapshot writes to the member until it has made a snapshot. The member checks every 10 to 20 seconds
# whether its log is long enough for one.
snapshot() {
  local i
  for ((i = 0; i < 60; i++)); do
    [ "$(snapshots 1)" -eq 0 ] || return 0
    load 1 -duration 900ms -warmup 0s "set:conns=8,window=8" >/dev/null || return
  done
  echo "no snapshot was written within a minute" >&2
  return 1
}

# alone measures Rollcall in cases that ZooKeeper does not have. Each round begins with an empty directory.
alone() {
  local round
  for ((round = 1; round <= rounds; round++)); do
    say "alone, round $round"
    alone_round "$round" || missed "alone: round $round"
    stop
  done
  promote || missed "alone: new leader"
}

alone_round() {
  local round=$1 empty="start until it serves, one member, empty" load="2,000 sets per second while snapshots of 1 M nodes are written, against none"
  if ! kept alone "$empty" Rollcall "$round"; then
    start Rollcall 1 || return
    sleep 5
    keep_rss "memory of one member, idle and empty" "$round" || return
    figure "$empty" "$round" seconds "$took"
  fi
  ! kept alone "$load" Rollcall "$round" || return 0
  start Rollcall 1 && grow 1 || return
  keep_rss "memory of one member with 1 M nodes of 100 B, just written" "$round" || return
  sleep 20 # a calm member returns memory after 10 s: calmLooks of cmd/rollcall
  keep_rss "memory of one member with 1 M nodes of 100 B, written and then calm for 20 s" "$round" || return
  tell kill 1 && restart 1 || return
  figure "start until it serves, 1 M nodes of 100 B, from the log" "$round" seconds "$took"
  CFG=snapCount=100 restart 1 && snapshot && tell kill 1 && restart 1 || return
  sleep 5
  figure "start until it serves, 1 M nodes of 100 B, from a snapshot" "$round" seconds "$took"
  keep_rss "memory of one member with 1 M nodes of 100 B, from a snapshot" "$round" || return
  beside "$round" "$load"
}

# beside ROUND ROW runs sets at a fixed rate, first on a member that writes no snapshot meanwhile, and
# then on one that writes snapshots again and again.
beside() {
  local round=$1 row=$2 quiet busy written case=set:conns=8,window=64,rate=2000,warmup=3s,duration=25s
  CFG=snapCount=100000000 restart 1 && quiet=$(load 1 "$case") || return
  CFG=snapCount=100 restart 1 || return
  busy=$(load 1 "$case") && written=$(snapshots 1) || return
  [ "$written" -gt 0 ] || { echo "no snapshot was written beside the load" >&2; return 1; }
  keep alone "$row" "no snapshots" "$round" results "$quiet"
  keep alone "$row" Rollcall "$round" results "$busy"
  figure "snapshots in that time" "$round" count "$written"
}

# failover measures how long clients wait while the leader of three members is killed, stopped or paused. HELD other
# sessions are connected.
failover() {
  local round side
  for ((round = 1; round <= rounds; round++)); do
    for side in $(rotated "$round" $failover_sides); do
      say "failover, round $round, $side"
      failover_turn failover "$round" "$side" || missed "failover: round $round on $side"
      stop
    done
  done
}

# failover_turn PART ROUND SIDE makes each fault KILLS times, at the leader of that moment. A run of a fault has a round of its
# own in DATA.
failover_turn() {
  local part=$1 round=$2 side=$3 holder fault row n status=0
  start "$side" 3 || return
  warm_up "$side" 3
  hold_sessions "$held" &
  holder=$!
  for fault in "KILL: the leader's process is killed" "TERM: the leader is stopped" "STOP: the leader's process is paused for 5 s"; do
    [[ " $faults " == *" ${fault%%:*} "* ]] || continue
    row="${fault#*: }, $(sed ':a; s/\B[0-9]\{3\}\>/,&/; ta' <<<"$held") sessions connected"
    for ((n = (round - 1) * kills + 1; n <= round * kills; n++)); do
      kept "$part" "$row" "$side" "$n" || break_leader "$part" "$row" "$side" "$n" "${fault%%:*}" || status=1
    done
  done
  kill "$holder" 2>/dev/null || true
  wait "$holder" || true
  return "$status"
}

# hold_sessions N holds N sessions until it is killed.
hold_sessions() {
  exec ${LINKS:+ip netns exec "${LINKS}1"} timeout -k 5 1800 "$rollcall" bench --hosts "$(servers 3)" -o json -warmup 1s -duration 30m "hold:sessions=$1,timeout=10s" >/dev/null 2>&1
}

# break_leader PART ROW SIDE ROUND SIGNAL runs clients while the leader gets a signal, and starts it again.
break_leader() {
  local part=$1 i home pid hook result
  shift
  i=$(member_that_is leader 3) && home=$(member_that_is follower 3) && pid=$(of "$i" pid) || return
  hook="echo $(of "$i" clients); kill -s $4 $pid"
  [ "$4" != STOP ] || hook+="; sleep 5; kill -s CONT $pid"
  result=$(at "$home" timeout -k 20 120 "$rollcall" bench --hosts "$(servers 3)" -o json -warmup 1s -duration 10s --hook "$hook" failover:conns=2) || result=""
  [ "$4" = STOP ] || while kill -0 "$pid" 2>/dev/null; do sleep 0.05; done
  [ -z "${LOGS:-}" ] || keep_logs "$2.$4.$3"
  if [ "$4" = STOP ]; then tell await; else restart "$i"; fi || return
  sleep 3 # the followers have the whole log again
  [ -n "$result" ] && keep "$part" "$1" "$2" "$3" results "$result"
}

# keep_logs NAME keeps the members' logs in LOGS.
keep_logs() {
  local i
  mkdir -p "$LOGS/$1"
  for i in 1 2 3; do cp "$(of "$i" home)/log" "$LOGS/$1/log.$i"; done
}

# backup measures sets at a fixed rate on three members, in pairs: while backups of one member are saved to the same
# disk one after the other, and while none is. The two of a pair last equally long, one after the other on one ensemble, and
# every second pair has the other order. A disk that others share changes its speed within minutes, so there are several pairs.
# Each round begins with empty directories. The "round" in DATA is the number of the pair.
backup() {
  local round pair role
  for ((round = 1; round <= rounds; round++)); do
    stop
    for ((pair = (round - 1) * pairs + 1; pair <= round * pairs; pair++)); do
      for role in "the leader" "a follower"; do
        backup_pair "$pair" "$role" || { missed "backup: pair $pair, $role"; stop; }
      done
    done
  done
}

# backup_pair PAIR ROLE measures a pair, on an ensemble that it starts if none runs.
backup_pair() {
  local pair=$1 role=$2 side sides=("no backups" Rollcall) row ADMIN=yes CFG=snapCount=100000000
  local -A results=()
  row="2,000 sets per second while backups of 1 M nodes are saved at $role, against none"
  ! kept backup "$row" Rollcall "$pair" || return 0
  if ! is_running; then
    say "backup, from pair $pair on"
    # The first writes after so many nodes were made are slower, and belong to neither side.
    start Rollcall 3 && grow 3 && load 3 "$(backup_load 8)" >/dev/null || return
  fi
  [ $((pair % 2)) = 1 ] || sides=(Rollcall "no backups")
  for side in "${sides[@]}"; do
    results[$side]=$(backup_run "$side" "${role#* }") || return
  done
  for side in "no backups" Rollcall; do
    keep backup "$row" "$side" "$pair" results "${results[$side]}"
  done
}

# backup_load SECONDS prints the case that is measured.
backup_load() { echo "set:conns=8,window=64,rate=2000,nodes=$backup_nodes,warmup=5s,duration=$1s"; }

# backup_run SIDE ROLE measures one of the two, and prints the result.
backup_run() {
  local side=$1 role=$2 member i result saved saver=""
  rm -rf "$WORK/backups"
  mkdir "$WORK/backups"
  member=$(member_that_is "$role" 3) || return
  await_nodes "$member" -lt "$((nodes + backup_nodes))" || return # a follower may still remove those of the last run
  if [ "$side" = Rollcall ]; then
    saving "$member" &
    saver=$!
  fi
  result=$(load 3 "$(backup_load "$backup_seconds")") || result=""
  if [ -n "$saver" ]; then
    saved=$(du -sb "$WORK/backups" | cut -f1) # with the file that is being written
    { kill "$saver" && wait "$saver"; } || { echo "a backup failed beside the load: $(tail -n 5 "$WORK/saving.log")" >&2; return 1; }
    [ "$saved" -ge $((backup_seconds * slowest_backup)) ] || { echo "only $saved bytes were saved beside the load" >&2; return 1; }
  fi
  [ -n "$result" ] || { echo "the load failed" >&2; return 1; }
  for i in 1 2 3; do
    [ "$(snapshots "$i")" -eq 0 ] || { echo "member $i wrote a snapshot beside the load" >&2; return 1; }
  done
  echo "$result"
}

# saving I saves backups of member I until it is killed. The first one begins when the nodes that are written exist, so
# writing them copies them.
saving() {
  local saver=""
  await_nodes "$1" -ge "$((nodes + backup_nodes))" || return
  trap 'kill "$saver" || true; wait "$saver" || true; exit 0' TERM
  while :; do
    "$rollcall" backup save --admin "$(of "$1" admin)" --token-file "$(token)" "$WORK/backups" >/dev/null 2>"$WORK/saving.log" &
    saver=$!
    wait "$saver" || return
  done
}

# await_nodes I TEST COUNT waits until the number of member I's nodes passes a test such as -ge, 30 seconds at most.
await_nodes() {
  local i has=""
  for ((i = 0; i < 600; i++)); do
    has=$(word "$1" mntr | awk '$1 == "zk_znode_count" { print $2 }')
    [ "${has:-0}" "$2" "$3" ] && return
    sleep 0.05
  done
  echo "member $1 has $has nodes, and the test is $2 $3" >&2
  return 1
}

# promote measures how long a new leader takes to make its table from the replicated sessions, in one
# process.
promote() {
  local row="new leader of 1 M sessions: its table" out i=0 took
  ! kept alone "$row" Rollcall 1 || return 0
  say "alone, new leader"
  out=$(ROLLCALL_SESSIONS=$sessions go test -run '^$' -bench NewLeader -benchtime 1x -count "$rounds" -timeout 10m ./member) || return
  for took in $(awk '/^BenchmarkNewLeader/ { for (i = 1; i < NF; i++) if ($(i + 1) == "ns/op") print $i / 1e9 }' <<<"$out"); do
    i=$((i + 1))
    figure "$row" "$i" seconds "$took"
  done
  [ "$i" -gt 0 ]
}

part() {
  case $1 in
    three) turns three 3 "$rounds" "$sides" ;;
    one) turns one 1 "$rounds" "$sides" ;;
    floor) turns three 3 "$rounds" "Floor Rollcall" Floor && turns one 1 "$rounds" "Floor Rollcall" Floor ;;
    idle15 | idle) turns "$1" 3 "$idle_rounds" "ZooKeeper Rollcall" ;;
    failover | alone | backup | links) "$1" ;;
  esac
}

# needs PART... fails if something is missing that these parts need.
needs() {
  [[ " $* " != *" links "* ]] || needs_links
  [[ " $* " =~ " "(idle15|idle|failover|links)" " || " $* " =~ " "(three|one)" " && $sides = *ZooKeeper* ]] || return 0
  command -v java >/dev/null && [ -f /usr/share/java/zookeeper.jar ] || { echo "ZooKeeper is not installed: apt-get install zookeeper" >&2; return 1; }
}

measuring "three one idle15 idle failover alone backup" "floor links" "$@"
