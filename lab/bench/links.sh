# compare.sh sources this file for its part links: three members in three network namespaces, which lab/bench/links connects by
# links with a delay. A client is in the namespace of the member that it connects to. The namespaces are the same for both sides.
#
# It needs root, /dev/net/tun and Debian's package iproute2, and no other setting of the machine's network changes.
#
#   DELAYS ("1 5 25")  the delays to measure, in ms each way
#   COMEBACK (0)       for how many minutes a follower is down before it comes back; 0: that is not measured
#   STABLE (0)         for how many minutes there must be no election at the greatest delay; 0: that is not measured
#
# Rows of a delay are kept in DATA/links-DELAYms.jsonl. performance/figures.csv has COMEBACK=5 and STABLE=60.

delays=${DELAYS:-1 5 25} comeback=${COMEBACK:-0} stable=${STABLE:-0}

# needs_links fails if something is missing that the links need.
needs_links() {
  [ "$(id -u)" = 0 ] || { echo "links between members need network namespaces, which only root may make" >&2; return 1; }
  command -v ip >/dev/null || { echo "links between members need ip: apt-get install iproute2" >&2; return 1; }
  [ -c /dev/net/tun ] || { echo "links between members need tun devices: modprobe tun" >&2; return 1; }
}

links() {
  local delay
  trap 'stop_everywhere; close_links; [ -z "$made" ] || rm -rf "$made"' EXIT
  for delay in $delays; do
    open_links "$delay" || { missed "links: all of $delay ms"; continue; }
    links_of "links-${delay}ms" "$delay"
    stop
    close_links
  done
}

# links_of PART DELAY measures all rows of a delay.
links_of() {
  local round side
  turns "$1" 3 "$rounds" "ZooKeeper Rollcall"
  for ((round = 1; round <= rounds; round++)); do
    for side in $(rotated "$round" ZooKeeper Rollcall); do
      if [[ " $faults " = *" KILL "* ]]; then
        say "$1, round $round, $side: the leader is killed"
        faults=KILL failover_turn "$1" "$round" "$side" || missed "$1: kills of round $round on $side"
        stop
      fi
      [ "$comeback" = 0 ] || come_back "$1" "$round" "$side" || missed "$1: a member that comes back, round $round on $side"
      stop
    done
  done
  [ "$stable" = 0 ] || [ "$2" != "${delays##* }" ] || stay_led "$1" || missed "$1: elections"
}

# open_links DELAY [N] makes the namespaces of N members (3), and connects them.
open_links() {
  local ready names
  mapfile -t names < <(seq -f "rollcall-$$-%.0f" "${2:-3}")
  exec {links_output}< <(exec "$root/links" -delay "$1ms" "${names[@]}")
  links_pid=$!
  read -r -t 60 ready <&"$links_output" && [ "$ready" = ready ] || { close_links; return 1; }
  LINKS=rollcall-$$-
}

# close_links removes the namespaces. The members that run in them must have ended.
close_links() {
  LINKS=""
  [ -n "${links_pid:-}" ] || return 0
  kill "$links_pid" 2>/dev/null || true
  while kill -0 "$links_pid" 2>/dev/null; do sleep 0.05; done
  exec {links_output}<&-
  links_pid=""
}

# beside_member ROW prints the member that the clients of a row are beside, by the end of its name.
beside_member() {
  case $1 in
    *"at the leader"*) member_that_is leader 3 ;;
    *) member_that_is follower 3 ;;
  esac
}

# warm_up_both KIND loads the members of a new ensemble that the rows measure, one after the other.
warm_up_both() {
  local role ONLY
  for role in leader follower; do
    ONLY=$(member_that_is "$role" 3) || return
    warm_up "$1" 3
  done
}

# come_back PART ROUND SIDE kills a follower, and starts it again some minutes later. Meanwhile 200 nodes are written per second.
come_back() {
  local part=$1 round=$2 side=$3 row="a follower comes back after $comeback minutes with 200 sets per second" i ONLY began since
  ! kept "$part" "$row" "$side" "$round" || return 0
  say "$part, round $round, $side: a follower is down for $comeback minutes"
  start "$side" 3 || return
  i=$(member_that_is follower 3) && ONLY=$(member_that_is leader 3) && tell kill "$i" || return
  CASE_LIMIT=$((comeback * 60 + 60)) load 3 -warmup 0s -duration "${comeback}m" "set:conns=32,window=4,rate=200" >/dev/null || return
  began=$EPOCHREALTIME since=$SECONDS
  restart "$i" launch || return
  until at "$i" "$rollcall" health -addr "$(of "$i" clients)" >/dev/null 2>&1; do # others would ask it over a link
    [ $((SECONDS - since)) -lt 60 ] || { echo "member $i does not serve after 60 s" >&2; return 1; }
    sleep 0.02
  done
  took=$(awk -v a="$began" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.3f", b - a }')
  keep "$part" "$row" "$side" "$round" figures "{\"seconds\":$took}"
}

# stay_led PART keeps the load of 200 sets per second on both sides, and compares the time that the leader has led with the
# time that the load took.
stay_led() {
  local part=$1 row="200 sets per second for $stable minutes at the leader" side i ONLY uptime result
  for side in ZooKeeper Rollcall; do
    ! kept "$part" "$row" "$side" 1 || continue
    say "$part, $side: $stable minutes without an election"
    start "$side" 3 || return
    i=$(member_that_is leader 3) && ONLY=$i || return
    result=$(CASE_LIMIT=$((stable * 60 + 60)) load 3 -duration "${stable}m" "set:conns=32,window=4,rate=200") || return
    uptime=$(word "$i" mntr | awk '$1 == "zk_leader_uptime" { printf "%d", $2 / 1000 }')
    [ "${uptime:-0}" -ge $((stable * 60)) ] || { echo "member $i has led for ${uptime:-0} s of $((stable * 60))" >&2; return 1; }
    keep "$part" "$row" "$side" 1 results "$result"
    stop
  done
}
