# The scripts that measure source this file. It starts and stops ensembles of ZooKeeper, of Rollcall or of the
# floor (lab/bench/floor) with lab/bench/ensemble, and keeps one line for each measured run. WORK is the directory of the ensemble
# that the functions act on. Several can run beside each other.
#
#   WORK  directory for the members' data, of one ensemble at a time
#   DATA  directory for the measurements
#   TLS   not empty: clients connect over TLS. Both sides show a certificate, as is ZooKeeper's default
#   JVM_WARMUP (8s)  of each of the six loads that warm a new ensemble of ZooKeeper (see warm_up)
#   CFG   words to add to each zoo.cfg, a line for each
#   PROOF what members prove themselves with: none (the default), secret or certificates. Rollcall alone
#   OBSERVERS  how many of the members, the last ones, have no vote
#   LINKS the beginning of the names of network namespaces, of lab/bench/links.sh. If it is not empty, member I runs in namespace LINKS with I behind it
#   ONLY  the member that clients connect to (default: all of them)
#   MEMORY  the limit of each member's memory, in MiB, which needs root and cgroups (default: none)
#   HEAP  Java's heap for each ZooKeeper, as in 1g (default: 1g, and 2g for one member)
#   ADMIN not empty: operators are served. Rollcall alone

rollcall=$PWD/bin/rollcall
declare -A runner=() commands=() replies=() # of the ensemble in each WORK that has one: process, and the files that lead to it and from it
took=""                                    # seconds that the last start took
started=0                                  # ensembles so far

# at I COMMAND... runs a command where member I runs.
at() {
  if [ -n "${LINKS:-}" ]; then
    ip netns exec "$LINKS$1" "${@:2}"
  else
    "${@:2}"
  fi
}

# is_running succeeds if an ensemble was started in WORK, and not stopped.
is_running() { [ -n "${runner[$WORK]:-}" ]; }

# of I COLUMN prints a column of member I in the table of lab/bench/ensemble: pid, clients, secure, admin or home.
of() { awk -F '\t' -v id="$1" -v column="$2" '
  BEGIN { split("id pid clients secure admin home", names, " "); for (i in names) at[names[i]] = i }
  $1 == id { print $at[column] }' "$WORK/members"; }

# servers N prints the clients' addresses of N members, or that of the member that ONLY names.
servers() {
  local i list="" address
  for ((i = 1; i <= $1; i++)); do
    address=$(of "$i" "$([ -n "${TLS:-}" ] && echo secure || echo clients)")
    [ "${ONLY:-$i}" != "$i" ] || [ -z "$address" ] || list+=,$address
  done
  echo "${list#,}"
}

# token prints the path of the file with the operators' token, and credentials that of the directory with the files of clients over TLS.
token() { echo "$(dirname "$(of 1 home)")/token"; }
credentials() { echo "$(dirname "$(of 1 home)")/client"; }

# build_programs builds the programs of lab/bench that the scripts run, in $root.
build_programs() { CGO_ENABLED=0 go build -trimpath -o "$root/" ./lab/bench/ensemble ./lab/bench/floor ./lab/bench/links; }

# clear_work removes what an ensemble leaves in WORK if its program was killed, too.
clear_work() { rm -rf "$WORK"/{commands,replies,members,journal,rollcall-drill-*}; }

# start KIND N starts N members with empty directories, and returns when all serve.
start() {
  local kind=$1 n=$2 i line args heap=1g
  stop
  clear_work
  args=(--directory "$WORK" --binary "$rollcall" --voters $((n - ${OBSERVERS:-0})) --observers "${OBSERVERS:-0}" --proof "${PROOF:-none}")
  case $kind in
    Rollcall) [ -z "${ADMIN:-}" ] || args+=(--admin) ;;
    ZooKeeper)
      [ "$n" != 1 ] || heap=2g
      heap=${HEAP:-$heap}
      args+=(--program zookeeper --java "-Xms$heap" --java "-Xmx$heap" --java -Dzookeeper.forceSync=yes) ;;
    Floor) args+=(--program floor --binary "$root/floor") ;;
  esac
  [ -z "${TLS:-}" ] || args+=(--tls)
  [ -z "${MEMORY:-}" ] || args+=(--memory "$MEMORY")
  for line in forceSync=yes ${CFG:-}; do args+=(--line "$line"); done
  for ((i = 1; i <= n; i++)); do
    [ -z "${LINKS:-}" ] || args+=(--place "$LINKS$i=10.47.0.$i:$((3000 + started % 1000 * 5))")
  done
  started=$((started + 1))
  mkfifo "$WORK/commands" "$WORK/replies" || return
  ${LINKS:+ip netns exec "${LINKS}1"} "$root/ensemble" "${args[@]}" <"$WORK/commands" >"$WORK/replies" &
  runner[$WORK]=$!
  exec {commands[$WORK]}>"$WORK/commands" {replies[$WORK]}<"$WORK/replies"
  replied || { stop; return 1; }
}

# tell COMMAND... gives the ensemble a command of lab/bench/ensemble, and waits until it is done.
tell() {
  (echo "$*" >&"${commands[$WORK]}") # a subshell: it dies if the ensemble has ended
  replied
}

# replied reads the ensemble's reply. It fails if the reply is an error.
replied() {
  local word
  read -r word took <&"${replies[$WORK]}" || { echo "the ensemble in $WORK has ended" >&2; return 1; }
  [ "$word" = ok ] || { echo "$took" >&2; return 1; }
}

# restart I [launch] starts member I again, and returns when all members serve, or at once.
restart() {
  # shellcheck disable=SC2086 # one word for each line
  tell "${2:-start}" "$1" forceSync=yes ${CFG:-}
}

# stop ends the members and removes their data.
stop() {
  is_running || return 0
  (echo stop >&"${commands[$WORK]}") 2>/dev/null || true # closing it is not enough: others may have inherited it
  exec {commands[$WORK]}>&- {replies[$WORK]}<&-
  wait "${runner[$WORK]}" || true # it has printed its error
  unset "runner[$WORK]" "commands[$WORK]" "replies[$WORK]"
  clear_work
}

# stop_everywhere stops all ensembles.
stop_everywhere() {
  for WORK in "${!runner[@]}"; do stop; done
  WORK=$root
}

# pids prints the process ids of the members that run, with commas between them.
pids() { awk -F '\t' '$2 { print $2 }' "$WORK/members" | paste -sd,; }

# load N ARGS... runs rollcall bench against N members, or against the one that ONLY names and beside it, for CASE_LIMIT seconds at most.
load() {
  local n=$1 over=()
  shift
  [ -z "${TLS:-}" ] || over=(-tls-ca "$(credentials)/ca.pem" -tls-cert "$(credentials)/tls.pem")
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

# rss prints the resident memory of all members in MiB. It fails if one has ended by itself.
rss() {
  local pid
  for pid in $(pids | tr , ' '); do cat "/proc/$pid/status" || exit; done | awk '/^VmRSS:/ { kb += $2 } END { printf "%.1f", kb / 1024 }'
}

# word I WORD prints member I's answer to a four-letter word.
word() {
  local address
  address=$(of "$1" clients)
  at "$1" bash -c 'exec 3<>"/dev/tcp/$0/$1" && printf %s "$2" >&3 && timeout 10 cat <&3' "${address%:*}" "${address##*:}" "$2"
}

# member_that_is ROLE N prints the number of the first of N members with that role.
member_that_is() {
  local i
  for ((i = 1; i <= $2; i++)); do
    [ "$(word "$i" srvr | sed -n 's/^Mode: //p')" != "$1" ] || { echo "$i"; return; }
  done
  echo "no member is $1" >&2
  return 1
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
  mkdir -p "$WORK"
  root=$WORK
  trap 'stop_everywhere; [ -z "$made" ] || rm -rf "$made"' EXIT
  build_programs
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
