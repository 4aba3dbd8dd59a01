#!/usr/bin/env bash
# calls.sh counts the system calls of a request: it loads an ensemble of three members on 127.0.0.1 with one client at the leader and then
# with one at a follower, traces the members with strace meanwhile, and prints a table for each CASE of rollcall bench (default: one set
# after the other). What idle members do in the same time is taken off. The switches of threads come from a run without strace, which
# would add to them. It needs Go, curl, strace and the right to trace, and for ZooKeeper what lab/bench/compare.sh does.
#
#   SECONDS_EACH (5)              seconds of each run
#   SIDES ("Rollcall Floor")      of Rollcall, Floor and ZooKeeper
#   WORK                          directory for data (default: a new one in TMPDIR)
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "$0")/../.."

each=${SECONDS_EACH:-5}
DATA=/nonexistent
given=${WORK:-} WORK=${WORK:-$(mktemp -d)}
root=$WORK
. lab/bench/ensemble.sh
trap 'stop; [ -n "$given" ] || rm -rf "$WORK"' EXIT
build_programs

# leader prints the number of the leader. The floor's is member 1.
leader() {
  local i
  for i in 1 2 3; do
    if [ "$1" = Floor ] || word "$i" srvr | grep -q 'Mode: leader'; then
      echo "$i"
      return
    fi
  done
  return 1
}

# trace NAME COMMAND... counts the calls of each member while a command runs, in the files NAME.1 to NAME.3 of $root.
trace() {
  local i tracers=() name=$1 status=0
  shift
  for i in 1 2 3; do
    strace -f -c -U calls,name -o "$root/$name.$i" -p "$(of "$i" pid)" 2>/dev/null &
    tracers+=($!)
  done
  sleep 1 # until they are attached
  "$@" || status=$?
  kill -INT "${tracers[@]}"
  for i in "${tracers[@]}"; do wait "$i" || true; done # they end by the signal
  return "$status"
}

# switches I prints how often the threads of a member have waited.
switches() { cat /proc/"$(of "$1" pid)"/task/*/status | awk '/^voluntary/ { n += $2 } END { print n }'; }

# ops prints the requests of a result.
ops() { sed -n 's/.*"ops": *\([0-9]*\).*/\1/p' | head -n 1; }

# count SIDE PLACE MEMBER CASE LEADER prints the rows of a client at a member.
count() {
  local i requests untraced before=() after=()
  ONLY=$3
  load 3 -warmup 0s -duration 1s "$4" >/dev/null
  for i in 1 2 3; do before[i]=$(switches "$i"); done
  untraced=$(load 3 -warmup 0s -duration "${each}s" "$4" | ops)
  for i in 1 2 3; do after[i]=$(switches "$i"); done
  trace loaded load 3 -warmup 0s -duration "${each}s" "$4" >"$root/result"
  requests=$(ops <"$root/result")
  unset ONLY
  for i in 1 2 3; do
    awk -v requests="$requests" -v side="$1" -v place="$2" -v role="$([ "$i" = "$5" ] && echo leader || echo follower)$([ "$i" = "$3" ] && echo ', the client is here')" \
      -v switches="$(awk "BEGIN { print (${after[i]} - ${before[i]}) / $untraced }")" '
      BEGIN { split("write:writev:sendmsg:sendto read:readv:recvmsg:recvfrom pwrite64:pwritev fdatasync:fsync:sync_file_range futex nanosleep:clock_nanosleep epoll_pwait:epoll_wait:epoll_pwait2", groups, " ")
              for (g in groups) { split(groups[g], names, ":"); for (n in names) column[names[n]] = g } }
      $1 ~ /^[0-9]+$/ && $2 in column { sum[column[$2]] += (FILENAME ~ /idle/ ? -$1 : $1) }
      END { printf "| %s | %s | %s |", side, place, role
            for (g = 1; g <= 7; g++) printf " %.1f |", (sum[g] > 0 ? sum[g] : 0) / requests
            printf " %.1f |\n", switches }' "$root/idle.$i" "$root/loaded.$i"
  done
}

[ $# -gt 0 ] || set -- set:conns=1,window=1
for case in "$@"; do
  printf '\n%s: calls of each member for a request\n\n' "$case"
  echo '| | client at | member | write | read | pwrite | sync | futex | nanosleep | epoll | switches |'
  echo '|---|---|---|---|---|---|---|---|---|---|---|'
  for side in ${SIDES:-Rollcall Floor}; do
    start "$side" 3
    load 3 -warmup 0s -duration 1s mix:reads=50 >/dev/null
    leads=$(leader "$side")
    trace idle sleep "$each"
    count "$side" leader "$leads" "$case" "$leads"
    [ "$side" = Floor ] || count "$side" follower "$((leads % 3 + 1))" "$case" "$leads" # the floor takes clients at one member
    stop
  done
done
