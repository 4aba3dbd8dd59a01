#!/usr/bin/env bash
# modes.sh measures what reads that are never stale cost: ensembles with readConsistency=sequential and with linearizable, by turns. Nothing
# else should run. Delays need what links.sh does.
#
#   modes.sh PART...   runs these parts and prints the medians, with the least and the greatest
#
#   loopback      gets and sets at the leader and at a follower, all members on 127.0.0.1
#   1ms 5ms 25ms  the same with links of that delay each way between the members
#   stops         the longest wait of clients at other members while the leader or a follower is killed, or a follower is paused for 5 s
#   stale         first reads elsewhere after acknowledged creates, while members are killed, paused, cut off from one
#                 other, demoted and promoted, and made the leader, in turn
#
#   VOTERS (3)           3 or 5
#   MODES ("sequential linearizable")
#   BEFORE               another rollcall, whose mode is each of MODES with "before" behind it
#   ROUNDS (3), DURATION (4s), WARMUP (1500ms), WORK  as in compare.sh; STALE (150s) is the time of each run of stale
#   DATA  (a new directory in TMPDIR) keeps a line for each run. What is there is not measured again
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "$0")/../.."

voters=${VOTERS:-3} modes=${MODES:-sequential linearizable} stale=${STALE:-150s}
duration=${DURATION:-4s} warmup=${WARMUP:-1500ms} rounds=${ROUNDS:-3}
DATA=${DATA:-$(mktemp -d)}
. lab/bench/ensemble.sh
. lab/bench/medians.sh
. lab/bench/links.sh
now=$rollcall
variants=()
for mode in $modes; do variants+=("$mode"); [ -z "${BEFORE:-}" ] || variants+=("$mode before"); done

# start_variant VARIANT starts an ensemble, and returns when all of its voters have leases, if there are any.
start_variant() {
  rollcall=$now
  [[ $1 != *before ]] || rollcall=$BEFORE
  CFG="readConsistency=${1% before}" # of members that start again, too
  start Rollcall "$voters" && warm_up Rollcall "$voters" && sleep 1
}

# in_turn ROUND prints the variants, in an order that changes with each round.
in_turn() { [ $(($1 % 2)) = 1 ] && printf '%s\n' "${variants[@]}" || printf '%s\n' "${variants[@]}" | tac; }

# costs PART measures gets and sets.
costs() {
  local round variant role case ONLY
  for ((round = 1; round <= rounds; round++)); do
    while read -r variant; do
      say "$1, round $round: $variant"
      start_variant "$variant" || { missed "$1: $variant, round $round"; continue; }
      for role in leader follower; do
        ONLY=$(member_that_is "$role" "$voters")
        for case in set:conns=1,window=1 set:conns=64,window=1 get:conns=64,window=1 mix:conns=32,window=1,reads=90; do
          kept "$1" "$case at the $role" "$variant" "$round" || measure "$1" "$case at the $role" "$variant" "$round" "$voters" "$case"
        done
      done
      unset ONLY
      stop
    done < <(in_turn "$round")
  done
}

# stops measures how long clients at other members wait.
stops() {
  local round variant fault
  for ((round = 1; round <= rounds; round++)); do
    while read -r variant; do
      say "stops, round $round: $variant"
      for fault in "KILL leader" "KILL follower" "STOP follower"; do
        kept stops "$fault" "$variant" "$round" || { start_variant "$variant" && one_stop "$fault" "$variant" "$round"; } || missed "stops: $fault, $variant, round $round"
        stop
      done
    done < <(in_turn "$round")
  done
}

# one_stop "SIGNAL ROLE" VARIANT ROUND sends a signal to a member while clients run.
one_stop() {
  local i pid hook result
  i=$(member_that_is "${1#* }" "$voters") && pid=$(of "$i" pid) || return
  hook="echo $(of "$i" clients); kill -s ${1% *} $pid"
  [[ $1 != STOP* ]] || hook+="; sleep 5; kill -s CONT $pid"
  result=$(timeout -k 20 120 "$rollcall" bench --hosts "$(servers "$voters")" -o json -warmup 1s -duration 10s --hook "$hook" failover:conns=2) || return
  keep stops "$1" "$2" "$3" results "$result"
}

# stale_reads measures first reads while members fail. A link is cut in one direction.
stale_reads() {
  local round variant failing result
  open_links 1 "$voters" || { missed "stale: no links"; return; }
  for ((round = 1; round <= rounds; round++)); do
    while read -r variant; do
      kept stale firstreads "$variant" "$round" || { say "stale, round $round: $variant"; start_variant "$variant" && name_clients_ports >&2; } || { missed "stale: $variant"; continue; }
      is_running || continue
      fail_members &
      failing=$!
      if result=$(at 1 timeout -k 20 600 "$rollcall" bench --hosts "$(servers "$voters")" -o json -warmup 1s -duration "$stale" firstreads:conns=16); then
        keep stale firstreads "$variant" "$round" results "$result"
      else
        missed "stale: $variant, round $round"
      fi
      kill "$failing" && wait "$failing" || true
      stop
    done < <(in_turn "$round")
  done
  close_links
}

# fail_members breaks one member after the other, and changes what it is, until it is killed.
fail_members() {
  local i n
  for ((n = 0; ; n++)); do
    i=$((n / 5 % voters + 1))
    case $((n % 5)) in
      0) kill -9 "$(of "$i" pid)" && sleep 1 && restart "$i" launch ;;
      1) kill -STOP "$(of "$i" pid)" && sleep 2 && kill -CONT "$(of "$i" pid)" ;;
      2) at "$i" ip route add blackhole "10.47.0.$((i % voters + 1))" && sleep 3 && at "$i" ip route del blackhole "10.47.0.$((i % voters + 1))" ;;
      3) change_members demote "$i" && change_members promote "$i" ;;
      4) change_members lead "$i" ;;
    esac >&2 || echo "fault $n, of member $i, is not done" >&2
    sleep 2
  done
}

# change_members COMMAND I [LINE] gives member I's socket a command of rollcall members about it.
change_members() {
  at "$2" timeout -k 5 30 "$rollcall" members "$1" --admin "unix:$(of "$2" home)/data/admin.sock" --token-file "$(token)" "${@:2}"
}

# name_clients_ports gives the ports for clients to the list of servers, which each change needs.
name_clients_ports() {
  local i line
  for ((i = 1; i <= voters; i++)); do
    line=$(grep "^server.$i=" "$(of "$i" home)/zoo.cfg") && change_members address "$i" "$line:participant;$(of "$i" clients)" || return
  done
}

part() {
  trap 'stop_everywhere; close_links; [ -z "$made" ] || rm -rf "$made"' EXIT
  case $1 in
    stops) stops ;;
    stale) ADMIN=yes stale_reads ;;
    loopback) costs "$1" ;;
    *) open_links "${1%ms}" "$voters" && costs "$1"; stop; close_links ;;
  esac
}

needs() { [[ $* != *ms* && $* != *stale* ]] || needs_links; }

known=" loopback 1ms 5ms 25ms stops stale "
[ $# -gt 0 ] || usage
for p in "$@"; do [[ $known = *" $p "* ]] || { echo "no part $p; there are$known" >&2; exit 2; }; done
run "$@"
for p in "$@"; do medians "$p"; done
finish
