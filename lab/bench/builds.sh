# compare.sh sources this file for its part builds: it measures builds of this program by turns, as turns does with ZooKeeper and
# Rollcall, and prints how the others differ from the first one. The tool that loads them is bin/rollcall for all of them.
#
#   BUILDS  words NAME=FILE, each a build of Rollcall. Compare at least two, and name one file twice to see how much a build differs from itself
#   ROWS    a pattern: of the part three only rows that match it
#   WORK    on a file system in memory, the disk's own changes do not hide those of the program
#
# The runs are kept in DATA/builds.jsonl.

# builds measures the rows of the part three on each of BUILDS.
builds() {
  local word names=""
  for word in ${BUILDS:-}; do
    [[ $word =~ ^[A-Za-z0-9.-]+=. ]] && [ -x "${word#*=}" ] || { missed "builds: $word is not NAME=FILE, with a name of letters and digits and a file that runs"; return; }
    build_files[${word%%=*}]=${word#*=} names+=" ${word%%=*}"
  done
  [ "${#build_files[@]}" -ge 2 ] || { missed "builds: BUILDS must name at least two builds, such as BUILDS='old=/tmp/old/rollcall new=bin/rollcall'"; return; }
  turns builds 3 "$rounds" "$names"
  print_builds "$names"
}

# print_builds NAMES prints for each row and figure the median of each build, and behind it the median, least and greatest of
# its quotients by the first build, one of each round.
print_builds() {
  awk -v names="$1" '
    function field(name) { return match($0, "\"" name "\": *-?[0-9.e+-]+") ? substr($0, RSTART + length(name) + 3, RLENGTH - length(name) - 3) + 0 : "" }
    function note(figure, value) {
      if (value == "") return
      if (!(row SUBSEP figure in known)) order[++figures] = row SUBSEP figure
      known[row, figure] = 1
      got[row, figure, side, round] = value
    }
    function sorted(n,   i, j, t) { for (i = 2; i <= n; i++) for (j = i; j > 1 && v[j] < v[j - 1]; j--) { t = v[j]; v[j] = v[j - 1]; v[j - 1] = t } }
    function median(n) { return (v[int((n + 1) / 2)] + v[int(n / 2) + 1]) / 2 }
    BEGIN { sides = split(names, side_of, " ") }
    {
      split($0, quoted, "\""); row = quoted[4]; side = quoted[8]; round = field("round")
      if (round > rounds) rounds = round
      note("ops/s", field("per_second")); note("p50 us", field("p50_us")); note("p99 us", field("p99_us")); note("server us/op", field("server_cpu_us_per_op"))
    }
    END {
      for (f = 1; f <= figures; f++) for (s = 1; s <= sides; s++) {
        split(order[f], of, SUBSEP); n = 0
        for (r = 1; r <= rounds; r++) if ((of[1], of[2], side_of[s], r) in got) v[++n] = got[of[1], of[2], side_of[s], r]
        if (n == 0) continue
        sorted(n); middle = median(n); n = 0
        for (r = 1; r <= rounds; r++) if ((of[1], of[2], side_of[s], r) in got && got[of[1], of[2], side_of[1], r] > 0) v[++n] = got[of[1], of[2], side_of[s], r] / got[of[1], of[2], side_of[1], r]
        if (n == 0) continue
        sorted(n)
        printf "%s | %s | %s | %.4g | %.3f (%.3f-%.3f, %d rounds)\n", of[1], of[2], side_of[s], middle, median(n), v[1], v[n], n
      }
    }' "$DATA/builds.jsonl"
}
