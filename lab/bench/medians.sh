# Scripts that measure variants by turns source this file.

# medians PART prints a line for each case and variant. Before them it says which runs had errors or were void.
medians() {
  [ -f "$DATA/$1.jsonl" ] || return 0
  awk -v part="$1" '
    function field(name,   at) {
      at = match($0, "\"" name "\": *-?[0-9.e+-]+")
      return at ? substr($0, RSTART + length(name) + 3, RLENGTH - length(name) - 3) + 0 : ""
    }
    function note(what, value) {
      if (value == "") return
      if (!((who, what) in count)) order[++rows] = who SUBSEP what
      all[who, what, ++count[who, what]] = value
    }
    function errors(   rest, at, sum) { # the reasons are escaped as in JSON, so that no number in one follows a bare quote
      if (!match($0, /"errors": *[{]/)) return 0
      rest = substr($0, RSTART + RLENGTH)
      while (match(rest, /^ *"([^"\\]|\\.)*": *[0-9]+,?/)) {
        at = substr(rest, RSTART, RLENGTH)
        sub(/.*: */, "", at)
        sum += at
        rest = substr(rest, RSTART + RLENGTH)
      }
      return sum + 0
    }
    {
      split($0, quoted, "\"")
      who = quoted[4] " | " quoted[8]
      if (!(who in runs)) sides[++known] = who
      runs[who]++
      if (found = errors()) { failing[who]++; failed[who] += found }
      if ($0 ~ /"void": *true/) void[who]++
      note("ops/s", field("per_second"))
      note("p50 ms", field("p50_us") / 1000); note("p99 ms", field("p99_us") / 1000)
      note("server us/op", field("server_cpu_us_per_op")); note("tool us/op", field("tool_cpu_us_per_op"))
      note("RSS MiB", field("server_rss_bytes") / 1048576)
      note("server CPU %", field("server_cpu_us_per_op") * field("per_second") / 10000)
      note("PSS MiB", field("server_pss_bytes") / 1048576)
      for (rest = $0; match(rest, /"name": *"[^"]*", *"value": *-?[0-9.e+-]+, *"unit": *"[^"]*"/); rest = substr(rest, RSTART + RLENGTH)) {
        split(substr(rest, RSTART, RLENGTH), figure, "\"") # the fourth part is the name, the seventh has the value, the tenth is the unit
        gsub(/[:, ]/, "", figure[7])
        note(figure[4] (figure[10] == "" ? "" : " " figure[10]), figure[7] + 0)
      }
    }
    END {
      for (s = 1; s <= known; s++) {
        who = sides[s]
        if (failing[who]) printf "%s | %s | ERRORS | %d in %d of %d runs\n", part, who, failed[who], failing[who], runs[who]
        over = "the tool used more than a third of the CPU time of the servers"
        if (void[who]) printf "%s | %s | VOID | %d of %d runs: %s\n", part, who, void[who], runs[who], over
      }
      for (r = 1; r <= rows; r++) {
        n = count[order[r]]
        for (i = 1; i <= n; i++) v[i] = all[order[r], i]
        for (i = 2; i <= n; i++) for (j = i; j > 1 && v[j] < v[j - 1]; j--) { t = v[j]; v[j] = v[j - 1]; v[j - 1] = t }
        split(order[r], p, SUBSEP)
        printf "%s | %s | %s | %.4g (%.4g-%.4g)\n", part, p[1], p[2], (v[int((n + 1) / 2)] + v[int(n / 2) + 1]) / 2, v[1], v[n]
      }
    }' "$DATA/$1.jsonl"
}
