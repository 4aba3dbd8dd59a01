package applications

import (
	"context"
	"encoding/json"
	"flag"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"rollcall/integration/needs"
	"rollcall/lab/drill"
	"rollcall/lab/report"
	"rollcall/lab/result"
	"rollcall/lab/target"
)

var update = flag.Bool("update", false, "write docs/applications.drills.json, from which the table of docs/applications.md is checked")

// drillTimeout is the session timeout of the drills' clients. A long pause takes twice as long, which is more than the
// 30 s of ClickHouse's and Patroni's sessions.
const drillTimeout = 16 * time.Second

// drilled is the effect of a drill on the applications. The root's tests compare a table with it.
type drilled struct {
	Software     string  `json:"software"`
	Drill        string  `json:"drill"`
	Outcome      string  `json:"outcome"`
	Judged       int     `json:"judged"` // promises
	Broken       int     `json:"broken"`
	InsertPauseS float64 `json:"insertPauseSeconds"` // ClickHouse: the longest time without an insert
	Demoted      bool    `json:"demoted"`            // Patroni: the primary was demoted meanwhile
	Primaries    int     `json:"primaries"`          // the most at the same time
	Load         string  `json:"load"`               // average of the machine, after the drill
}

// ClickHouse with two replicas and a Patroni cluster of two servers use an ensemble that is drilled. On Rollcall all
// promises are kept. On both, no acknowledged insert is lost, there are never two primaries, and there is one at the
// end.
func TestDrilled(t *testing.T) {
	needs.Check(t, needs.Nightly)
	require(t, "java", "/usr/share/java/zookeeper.jar", "clickhouse-server", "patroni", postgres+"/postgres", "unshare", "setpriv")
	var all []drilled
	for _, software := range []string{"Rollcall", "ZooKeeper"} {
		t.Run(software, func(t *testing.T) { all = append(all, drillApplications(t, software)...) })
	}
	if !*update || t.Failed() {
		return
	}
	text, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	write(t, "../../docs/applications.drills.json", string(text)+"\n")
}

// drillApplications runs the drills on one ensemble beside the applications.
func drillApplications(t *testing.T, software string) (all []drilled) {
	t.Helper()
	journal, err := target.OpenJournal(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ensemble, err := target.NewProcesses(t.Context(), target.ProcessConfig{
		Journal: journal, Binary: rollcall, Program: target.Program(strings.ToLower(software)), Size: members, Tick: tick, Patience: patience,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := ensemble.Close(context.Background()); err != nil {
			t.Error(err)
		}
		_ = journal.Close() // all is healed
	})
	var servers []string
	for _, m := range ensemble.Members() {
		servers = append(servers, m.Clients)
	}
	replicas := startReplicas(t, servers)
	inserters := startInserters(t, replicas)
	pair := []*cluster{startServer(t, servers, "pair", 1), startServer(t, servers, "pair", 2)}
	goOn(t, inserters)
	awaitPair(t, pair)

	runner, err := drill.Config{
		Target: ensemble, Timeout: drillTimeout, Tick: tick, Seed: 7, Repeat: 1, AmongOthers: true,
		Live: report.NewLive(io.Discard, report.LiveOptions{}),
	}.Check(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	drills, err := drill.Select([]string{"leader-kill", "leader-long-pause", "rolling-restart"})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range drills {
		all = append(all, drillOnce(t, runner, d, inserters, pair))
	}
	if err := runner.Close(t.Context()); err != nil {
		t.Error(err)
	}
	for _, i := range inserters {
		i.stop()
	}
	checkReplicas(t, replicas, inserters)
	for i := range all {
		all[i].Software = software
		t.Logf("%+v", all[i])
		if software == "Rollcall" && all[i].Outcome != string(result.Pass) {
			t.Errorf("%s: %s", all[i].Drill, all[i].Outcome)
		}
	}
	return all
}

// drillOnce runs a drill, and returns its effect on the applications.
func drillOnce(t *testing.T, runner *drill.Runner, d *drill.Drill, inserters []*inserter, pair []*cluster) drilled {
	t.Helper()
	one := drilled{Drill: d.Name}
	watch := watchPair(t, pair)
	pause := longestGap(t, inserters, func() {
		run, err := runner.Run(t.Context(), []*drill.Drill{d})
		if err != nil {
			t.Fatal(err)
		}
		found := run.Drills[0]
		one.Outcome = string(found.Outcome)
		for _, v := range found.Verdicts {
			if v.Outcome != result.NotRun {
				one.Judged++
			}
			if v.Outcome == result.Fail {
				one.Broken++
				t.Logf("%s broke %s: %+v", d.Name, v.Rule, v.Violations)
			}
		}
	})
	time.Sleep(after)
	awaitPair(t, pair)
	one.Demoted, one.Primaries = watch()
	if one.Primaries > 1 {
		t.Errorf("%s: %d primaries at the same time", d.Name, one.Primaries)
	}
	one.InsertPauseS, one.Load = float64(pause.Round(100*time.Millisecond))/float64(time.Second), load(t)
	return one
}

// awaitPair waits until one of a cluster's servers is the primary, and the other one follows it.
func awaitPair(t *testing.T, pair []*cluster) {
	t.Helper()
	await(t, "a cluster has one primary and one replica", recovery, func() bool {
		var roles []string
		for _, c := range pair {
			if s := c.status(t.Context()); s.State == "running" && s.Timeline > 0 {
				roles = append(roles, s.Role)
			}
		}
		slices.Sort(roles)
		return slices.Equal(roles, []string{"master", "replica"})
	})
}

// watchPair watches a cluster until the function that it returns is called. That function reports whether a primary was
// demoted, and the most primaries that there were at the same time.
func watchPair(t *testing.T, pair []*cluster) (stop func() (demoted bool, primaries int)) {
	t.Helper()
	first := slices.IndexFunc(pair, func(c *cluster) bool { return c.status(t.Context()).Role == "master" })
	if first < 0 {
		t.Fatal("there is no primary to be watched")
	}
	var watches []func() []sighting
	for _, c := range pair {
		watches = append(watches, c.watch(t))
	}
	return func() (demoted bool, primaries int) {
		var histories [][]sighting
		for _, w := range watches {
			histories = append(histories, w())
		}
		return wasDemoted(statuses(histories[first])), mostPrimaries(histories)
	}
}

// mostPrimaries returns the most servers that reported at the same time that they were a running primary. A server may
// change between two replies, so only a server that is a primary in two replies in a row counts from the first to the
// second of them.
func mostPrimaries(histories [][]sighting) (most int) {
	var edges []edge
	for _, h := range histories {
		for i := 1; i < len(h); i++ {
			if h[i-1].leads() && h[i].leads() {
				edges = append(edges, edge{h[i-1].asked, 1}, edge{h[i].asked, -1})
			}
		}
	}
	slices.SortFunc(edges, func(a, b edge) int {
		if c := a.at.Compare(b.at); c != 0 {
			return c
		}
		return a.by - b.by // one that ends is no longer there when the next one begins
	})
	now := 0
	for _, e := range edges {
		now += e.by
		most = max(most, now)
	}
	return most
}

// edge is a moment at which the number of primaries changes.
type edge struct {
	at time.Time
	by int
}

// leads reports whether the server was a primary that runs.
func (s patroniStatus) leads() bool {
	return s.Role == "master" && s.State == "running" && s.Timeline > 0
}

// Two servers that lead in turn are one primary at a time, also if they are queried at the same moments.
func TestMostPrimaries(t *testing.T) {
	history := func(roles string) (all []sighting) {
		for i, role := range roles {
			s := patroniStatus{State: "running", Role: map[rune]string{'p': "master", 'r': "replica"}[role], Timeline: 1}
			all = append(all, sighting{s, time.Unix(int64(i), 0)})
		}
		return all
	}
	for _, tt := range []struct {
		first, second string
		want          int
	}{
		{"pppp", "rrrr", 1}, {"pprr", "rrpp", 1}, {"pp rr", "rr pp", 1}, {"pppr", "rppp", 2}, {"ppp", "ppp", 2}, {"rr", "rr", 0}, {"pr", "rp", 0},
	} {
		if got := mostPrimaries([][]sighting{history(tt.first), history(tt.second)}); got != tt.want {
			t.Errorf("%q and %q: %d primaries, want %d", tt.first, tt.second, got, tt.want)
		}
	}
}
