package integration

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/cluster"
	"rollcall/integration/needs"
	"rollcall/lab/history"
	"rollcall/lab/process"
	"rollcall/member"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// These are the sizes of one schedule, at least: 4 sessions, 200 writes, 3 faults of 2 kinds.
const (
	sessions         = 4
	writesPerSession = 50
	writePace        = 30 * time.Millisecond  // the longest pause between two writes of a session
	faultSpan        = 800 * time.Millisecond // the time in which faults begin, while writes go on
	sessionTimeout   = 10 * time.Second
	silentTimeout    = 4 * time.Second      // the timeout of the session that is abandoned
	maxDiskWrite     = 6 * time.Millisecond // the longest time that a write to a disk takes; each disk has its own
	deepEvery        = 8                    // one in deepEvery schedules is long enough for snapshots
	linearEvery      = 5                    // one in linearEvery schedules has linearizable reads
	darkEvery        = 8                    // one in darkEvery schedules has a power failure of all members, and as many a stray entry
	secretEvery      = 3                    // in one of secretEvery schedules members prove a secret to each other
	writersLimit     = 2 * time.Minute
)

// extent is the number of writes of a schedule's sessions, and the time in which faults begin.
type extent struct {
	sessions, writes int           // how many sessions, and how many writes each of them makes
	pace, span       time.Duration // the longest pause between two writes of a session, and the time in which faults begin
}

// usual is the extent of most schedules, and long the extent of the one whose history is checked each time.
var (
	usual = extent{sessions, writesPerSession, writePace, faultSpan}
	long  = extent{50, 110, 80 * time.Millisecond, 3 * time.Second}
)

// longWrites is the least number of acknowledged writes of a long history: 5,500 are made, and faults leave some without
// a reply. On a busy machine 501 had none once.
const longWrites = 4500

// quiet is a length of time. If all faults, and an election after them, are over within it, clients
// of members that were not hit notice nothing. It is the rest of a lease, 0.9T - T/3 - tick/2, less
// the time to find the next leader, if the member's clock is a tenth fast and the leader's a tenth slow.
const quiet = 4100 * time.Millisecond

// uncut is a length of time. If all faults are over within it, no member is cut off: that takes 2 s without contact, and an election
// takes half of them as a rule.
const uncut = time.Second

// totals counts what happened in all schedules.
type totals struct {
	leaders, leaderLost, faults, resent, dropped, moves, installs, acknowledged, unknown, exits, quiet atomic.Uint64
	missed                                                                                             atomic.Uint64 // faults that hit no member
	delays                                                                                             atomic.Uint64 // see cluster.Ensemble.LinkChanges
	outruns                                                                                            atomic.Uint64 // see cluster.Ensemble.OutrunCount
	dark                                                                                               darkTotals
	full, rotten, unread, flips, drained                                                               atomic.Uint64 // ends of members by full disks and by failed reads of logs and snapshots, flipped bits, and connections that drained members closed
	expelled, restored, readers                                                                        atomic.Uint64 // see operated_test.go
	stamps, reaped, held                                                                               atomic.Uint64 // see clocks_test.go
}

// Under random schedules of faults these must hold:
//
//   - every acknowledged write is there, once and in its session's order;
//   - members end up equal;
//   - sessions whose clients are there live, with their ephemerals, and no others;
//   - clients of members that were not hit notice nothing;
//   - nodes have the times that their leaders' clocks showed, and none is removed because of its
//     age by a clock that is wrong.
//
// The clocks by which members count run at different rates, see cluster.Ensemble.DrawRates.
//
// A failed schedule prints its faults and how to repeat it. ROLLCALL_SEED runs one seed only,
// ROLLCALL_FIRST names the first of ROLLCALL_SCHEDULES seeds, and ROLLCALL_PLAN names a file with
// the faults to use instead: the printed ones, or fewer. If ROLLCALL_LOG is set, members log to
// standard error.
func TestSchedules(t *testing.T) {
	var sum totals
	seeds := seedsToRun(t, needs.Amount(30, 100, 700))
	start := time.Now()
	for _, seed := range seeds {
		playSeed(t, seed, usual, &sum)
	}
	fmt.Printf("%d schedules from seed %d on in %v: %d faults (%d more met nobody), %d leader changes, %d with a leader lost while writes were in flight, "+
		"%d leaders crashed with followers ahead of their disks, %v, %d changes of the delay of a link, "+
		"%d writes sent again, %d duplicates dropped, %d moves with requests in flight, %d snapshots installed, %d members restarted after an error, "+
		"%d writes acknowledged, %d of unknown outcome, %d judged for undisturbed clients, "+
		"%d stamps judged, %d nodes with a TTL removed and %d held by a wrong clock, "+
		"%d ends by full disks, %d by failed reads of logs and %d of snapshots, %d flipped bits, %d connections closed by drained members, "+
		"%d sessions killed, %d backups restored, %d readers of members without a leader\n",
		len(seeds), seeds[0], time.Since(start).Round(time.Second), sum.faults.Load(), sum.missed.Load(), sum.leaders.Load(), sum.leaderLost.Load(), sum.outruns.Load(), &sum.dark, sum.delays.Load(),
		sum.resent.Load(), sum.dropped.Load(), sum.moves.Load(), sum.installs.Load(), sum.exits.Load(),
		sum.acknowledged.Load(), sum.unknown.Load(), sum.quiet.Load(),
		sum.stamps.Load(), sum.reaped.Load(), sum.held.Load(),
		sum.full.Load(), sum.rotten.Load(), sum.unread.Load(), sum.flips.Load(), sum.drained.Load(),
		sum.expelled.Load(), sum.restored.Load(), sum.readers.Load())
	if len(seeds) >= 50 {
		sum.floors(t, uint64(len(seeds)))
	}
}

// The history of many sessions with thousands of writes keeps the same promises. ROLLCALL_SEED and ROLLCALL_FIRST choose the seed of
// the schedule.
func TestLongSchedules(t *testing.T) {
	var sum totals
	seed := seedsToRun(t, 1)[0]
	start := time.Now()
	playSeed(t, seed, long, &sum)
	fmt.Printf("a schedule of %d sessions, seed %d, in %v: %d faults, %d leader changes, %d writes acknowledged, %d of unknown outcome\n",
		long.sessions, seed, time.Since(start).Round(time.Second/10), sum.faults.Load(), sum.leaders.Load(), sum.acknowledged.Load(), sum.unknown.Load())
	if n := sum.acknowledged.Load(); n < longWrites {
		t.Errorf("%d writes acknowledged, want at least %d", n, longWrites)
	}
}

// playSeed runs the schedule of a seed and checks its result, in a subtest.
func playSeed(t *testing.T, seed uint64, size extent, sum *totals) {
	name := t.Name()
	t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
		var h history.History
		var about string // set once the schedule is drawn
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("seed %d, %s\nto repeat it, as often as it takes: ROLLCALL_SEED=%d go test -count=50 -failfast -run '^%s$' ./integration",
					seed, about, seed, name)
			}
		})
		synctest.Test(t, func(t *testing.T) { h = schedule(t, seed, size, sum, &about) })
		for _, v := range history.Check(h) {
			t.Error(v)
		}
	})
}

// manySchedules is a number of schedules whose totals hardly vary.
const manySchedules = 700

// floors checks that enough happened in the schedules. Otherwise they are too tame to prove
// anything. The floors are at least two thirds of the counts in 700 schedules, and less if
// there are few schedules and a count scatters. Half of all schedules must lose their leader, however
// few there are.
func (s *totals) floors(t *testing.T, n uint64) {
	t.Helper()
	for _, f := range []struct {
		what     string
		count    uint64
		thousand uint64 // the least number in a thousand schedules
		scatter  uint64 // by which the least number is divided if there are few schedules
	}{
		{"faults", s.faults.Load(), 4200, 1},
		{"schedules with a leader lost while writes were in flight", s.leaderLost.Load(), 500, 1},
		{"leader changes", s.leaders.Load(), 1100, 3},
		{"leaders crashed with followers ahead of their disks", s.outruns.Load(), 150, 3},
		{"power failures of all members", s.dark.blackouts.Load(), 99, 3},
		{"entries after a snapshot that all other disks have lost", s.dark.strays.Load(), 20, 3},
		{"members crashed with applied entries that their disks lacked", s.dark.unsaved.Load(), 20, 3},
		{"changes of the delay of a link", s.delays.Load(), 9_600, 3},
		{"writes sent again", s.resent.Load(), 11_000, 3},
		{"duplicates dropped", s.dropped.Load(), 350, 3},
		{"moves with requests in flight", s.moves.Load(), 1870, 3},
		{"snapshots installed", s.installs.Load(), 140, 3},
		{"writes acknowledged", s.acknowledged.Load(), 140_000, 1},
		{"stamps judged", s.stamps.Load(), 144_000, 1},
		{"nodes with a TTL removed", s.reaped.Load(), 14_000, 3},
		{"nodes with a TTL held by a wrong clock", s.held.Load(), 350, 60}, // 0 to 93 in 100 schedules
		{"ends of members by full disks", s.full.Load(), 800, 3},
		{"ends of members by failed reads of their logs", s.rotten.Load(), 92, 3},
		{"ends of members by failed reads of snapshots", s.unread.Load(), 106, 3},
		{"flipped bits", s.flips.Load(), 95, 3},
		{"connections closed by drained members", s.drained.Load(), 164, 3},
		{"sessions killed by operators", s.expelled.Load(), 94, 3},
		{"backups restored", s.restored.Load(), 90, 3},
		{"readers of members without a leader", s.readers.Load(), 40, 3},
		{"schedules judged for undisturbed clients", s.quiet.Load(), 460, 3},
	} {
		least := f.thousand * n / 1000
		if n < manySchedules {
			least /= f.scatter
		}
		if f.count < least {
			t.Errorf("%d %s in %d schedules, want at least %d", f.count, f.what, n, least)
		}
	}
}

// seedsToRun returns the seeds from 0 on, n of them by default, and those that always run. The environment may set the
// number, at least 1, and the first of them, or name the only one.
func seedsToRun(t *testing.T, n int, always ...uint64) []uint64 {
	t.Helper()
	if seed := process.Setting(t, "ROLLCALL_SEED", 0, -1); seed >= 0 {
		return []uint64{uint64(seed)}
	}
	first := uint64(process.Setting(t, "ROLLCALL_FIRST", 0, 0))
	seeds := make([]uint64, process.Setting(t, "ROLLCALL_SCHEDULES", 1, n))
	for i := range seeds {
		seeds[i] = first + uint64(i)
	}
	return append(seeds, always...)
}

// run is one schedule.
type run struct {
	*testing.T
	*cluster.Ensemble
	sum       *totals
	rng       *rand.Rand
	plan      cluster.Plan
	deep      bool
	secret    bool // members prove a secret to each other, over TLS
	writers   []*writer
	aging     *aging
	ids       []uint32 // of the members
	operators *operators
	leaders   atomic.Int64
	faulted   []cluster.Played // those that have hit a member
	hit       map[uint32]bool  // members whose clients may notice something
	first     time.Time        // when the first fault began
	last      time.Time        // when the last fault was over
	inHand    bool             // a fault hit the leader while writes were in flight
	elected   int64            // how many leaders had been elected by then
}

// schedule runs one seed, and describes in about the schedule that it has drawn.
func schedule(t *testing.T, seed uint64, size extent, sum *totals, about *string) history.History {
	rng := rand.New(rand.NewPCG(seed, 1))
	r := &run{T: t, sum: sum, rng: rng, deep: rng.IntN(deepEvery) == 0, hit: map[uint32]bool{}, operators: newOperators()}
	members := 3
	if rng.IntN(10) == 0 {
		members = 5
	}
	secret := ""
	if seed%secretEvery == 0 {
		secret = secretFile(t)
	}
	r.plan, r.secret = r.faults(members, size.span), secret != ""
	*about = fmt.Sprintf("%d members, long %t, secret %t; faults:\n%v", members, r.deep, secret != "", r.plan)
	r.Ensemble = cluster.Start(t, members, cluster.Options{
		Write: maxDiskWrite, Speeds: rand.New(rand.NewPCG(seed, 2)), Events: r.event, Logger: logger(), Record: true,
		Linear: seed%linearEvery == 0, HTTP: includes(r.plan, cluster.Expel, cluster.Backup, cluster.Snap, cluster.Stray),
		Adjust: func(cfg *member.Config) {
			cfg.ReadOnlyMode = includes(r.plan, cluster.Forsake)
			cfg.Reaping = reaping
			cfg.Trust.SecretFile = secret
			if r.deep {
				cfg.SnapCount = 20
			}
		},
	})
	r.DrawRates(rand.New(rand.NewPCG(seed, 3)))
	r.DrawLinks(rand.New(rand.NewPCG(seed, 4)))
	*about = fmt.Sprintf("links of up to %v, %s", r.LinkDelay(), *about)
	r.ids = r.IDs()
	r.Ready()
	r.Joined() // the member that started last has a vote by then; otherwise it and a wiped member would be two of three without one
	if r.deep {
		r.fill()
	}
	silent := r.Connect(silentTimeout)
	if _, err := silent.Create("/silent", nil, jute.Ephemeral); err != nil {
		t.Fatal(err)
	}
	r.greet()
	r.writers = startWriters(t, r.Ensemble, rng, size.sessions, size.writes, sessionTimeout, size.pace)
	r.aging = startAging(t, r.Ensemble, sessionTimeout-time.Second)
	started := time.Now()
	r.Play(r.plan, r.began, func() bool {
		return finished(r.writers) || time.Since(started) > writersLimit
	})
	r.settleAndCheck(silent)
	h, err := r.History()
	if err != nil {
		t.Error(err)
	}
	return h
}

// logger returns the members' loggers if ROLLCALL_LOG is set. They write to standard error, with
// the bubble's time.
func logger() func(uint32) *slog.Logger {
	if os.Getenv("ROLLCALL_LOG") == "" {
		return nil
	}
	l := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	return func(uint32) *slog.Logger { return l }
}

// faults returns the faults of a file, or draws some.
func (r *run) faults(members int, span time.Duration) cluster.Plan {
	plan := cluster.RandomPlan(r.rng, members, span)
	if r.deep && !slices.ContainsFunc(plan, func(f cluster.Fault) bool { return f.Kind == cluster.Wipe }) {
		plan = append(plan, cluster.Fault{
			At: time.Duration(r.rng.Int64N(int64(span))), Kind: cluster.Wipe,
			Who: cluster.Follower(1 + r.rng.IntN(members-1)), For: time.Second, Seed: 1,
		})
	}
	plan = cluster.Operated(plan, members, span)
	if r.deep { // the member that was wiped needs a snapshot, which the leader of that moment reads
		for _, who := range []cluster.Target{cluster.Leader, cluster.Follower(1)} {
			plan = append(plan, cluster.Fault{At: span, Kind: cluster.Rot, Who: who, N: 1, Seed: 1})
		}
	}
	return planFromFile(r.T, cluster.Darkened(plan, darkEvery, members, span))
}

// planFromFile returns the plan in the file that ROLLCALL_PLAN names, or the one that was drawn.
func planFromFile(t *testing.T, drawn cluster.Plan) cluster.Plan {
	t.Helper()
	file := os.Getenv("ROLLCALL_PLAN")
	if file == "" {
		return drawn
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := cluster.ParsePlan(string(text))
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

func (r *run) event(e member.Event) {
	if e.Kind == member.EventLeader && r.leaders.Add(1) > 1 {
		r.sum.leaders.Add(1)
	}
}

// fill makes every member take a snapshot and forget the log before it.
func (r *run) fill() {
	for _, id := range r.IDs() {
		r.Disk(id).KeepLog(4)
	}
	c := r.Connect(sessionTimeout)
	for i := range 40 {
		if _, err := c.Create(fmt.Sprintf("/fill%d", i), []byte("x"), jute.Persistent); err != nil {
			r.Fatal(err)
		}
	}
	r.Wait("every member to take a snapshot", time.Minute, func() bool {
		return !slices.ContainsFunc(r.IDs(), func(id uint32) bool { return r.Disk(id).Snapshots() == 0 })
	})
	if _, err := c.Do(jute.OpCloseSession, nil); err != nil {
		r.Fatal(err)
	}
	c.Abandon()
}

// began records what a fault may do to clients.
func (r *run) began(p cluster.Played) {
	if p.Hit == 0 {
		r.sum.missed.Add(1)
		return
	}
	r.sum.faults.Add(1)
	r.operate(p)
	r.faulted = append(r.faulted, p)
	if now := time.Now(); now.Add(p.For).After(r.last) {
		r.last = now.Add(p.For)
	}
	if r.first.IsZero() {
		r.first = time.Now()
	}
	switch p.Kind {
	case cluster.Outrun, cluster.Blackout, cluster.Stray:
		for _, id := range r.IDs() { // without a majority all of them notice
			r.hit[id] = true
		}
	case cluster.Unsaved:
		for _, id := range r.IDs() {
			r.hit[id] = r.hit[id] || id == p.Hit || id == p.Far || !p.SparesOthers(len(r.IDs()))
		}
	case cluster.Kill, cluster.Stop, cluster.Wipe, cluster.Pause, cluster.Isolate, cluster.Stall, cluster.Fail, cluster.Strand, cluster.Shut, cluster.ShutLog,
		cluster.Full, cluster.Rot, cluster.Drain, cluster.Forsake:
		r.hit[p.Hit] = true
	}
	if p.Who != cluster.Leader || r.inHand {
		return
	}
	for _, w := range r.writers {
		if w.client.InFlight() > 0 && slices.Contains(cluster.Losing, p.Kind) {
			r.inHand, r.elected = true, r.leaders.Load()
		}
	}
}

// settleAndCheck waits until everything has settled and checks the result.
func (r *run) settleAndCheck(silent *cluster.Client) {
	if !finished(r.writers) {
		r.Fatalf("writers have not finished %v after the first fault", writersLimit)
	}
	r.sum.delays.Add(uint64(r.LinkChanges()))
	if r.inHand && r.leaders.Load() > r.elected {
		r.sum.leaderLost.Add(1)
	}
	silent.Abandon()
	r.aging.stop()
	r.Healed()
	r.operated()
	if r.isQuiet() {
		r.sum.quiet.Add(1)
		r.undisturbed()
	}
	for _, w := range r.writers {
		w.check(r.T)
		r.sum.acknowledged.Add(uint64(len(w.acked)))
		r.sum.unknown.Add(uint64(len(w.lost)))
		r.sum.moves.Add(uint64(w.client.Moves()))
	}
	r.Wait("the abandoned session to end", silentTimeout+5*time.Second, func() bool { return !r.lives(r.Leader(), silent.Session()) })
	r.Equal() // so it has ended on all members, even on one that the log has only just reached again
	checkSessions(r.T, r.Member(1).State(), r.writers)
	r.checkStamps()
	r.checkAged()
	r.large()
	r.restored()
	for _, id := range r.IDs() {
		r.sum.installs.Add(uint64(r.Disk(id).Installs()))
		if why := r.Member(id).DamageReason(); why != "" {
			r.Errorf("member %d was taken for damaged: %s", id, why)
		}
	}
	r.sum.drained.Add(r.Drained())
	r.flipped()
	s := r.Stats()
	r.sum.outruns.Add(uint64(r.OutrunCount()))
	r.sum.dark.add(r.Ensemble)
	r.sum.resent.Add(s.ResentTxns)
	r.sum.dropped.Add(s.DroppedTxns)
	for _, why := range r.Exits() {
		r.sum.exits.Add(1)
		switch {
		case strings.Contains(why, "read log: "):
			r.sum.rotten.Add(1)
		case strings.Contains(why, "read snapshot: "):
			r.sum.unread.Add(1)
		case strings.Contains(why, "no space left on device"):
			r.sum.full.Add(1)
		case !strings.Contains(why, "input/output error") && !strings.Contains(why, "must start again"):
			r.Errorf("ended by itself: %s", why)
		}
	}
}

// flipped waits until no connection is left on which a bit was flipped. After 20 s it leaves those over TLS on which too little was sent
// since. A checksum of a plain connection shows a flipped bit at once.
func (r *run) flipped() {
	began := time.Now()
	r.Wait("the connections with a flipped bit to end", 30*time.Second, func() bool {
		_, open, early := r.Network.FlippedBits()
		return open == 0 || r.secret && time.Since(began) > 20*time.Second && open == early
	})
	bits, _, _ := r.Network.FlippedBits()
	r.sum.flips.Add(uint64(bits))
}

// isQuiet reports whether the faults were over soon enough for the promise that clients
// notice nothing.
func (r *run) isQuiet() bool { return r.last.Sub(r.first) < quiet }

// large checks that the schedule had the size that all must have, and that its faults have hit.
func (r *run) large() {
	kinds := map[cluster.Kind]bool{}
	for _, p := range r.faulted {
		kinds[p.Kind] = true
	}
	told := 0
	for _, w := range r.writers {
		told += len(w.acked) + len(w.lost)
	}
	if len(r.IDs()) < 3 || len(r.writers) < 4 || told < 200 || os.Getenv("ROLLCALL_PLAN") == "" && (len(r.faulted) < 3 || len(kinds) < 2) {
		r.Errorf("%d members, %d sessions, %d writes, %d faults of %d kinds that hit; want at least 3, 4, 200, 3, 2",
			len(r.IDs()), len(r.writers), told, len(r.faulted), len(kinds))
	}
}

// undisturbed checks that clients of members that were not hit saw no disconnect. After cluster.Snap a member that lags by a few
// entries copies a snapshot, which ends its clients' connections: it counts as hit. So does a
// member that was cut off, which sends its clients elsewhere.
func (r *run) undisturbed() {
	snapped := includes(r.plan, cluster.Snap)
	for _, w := range r.writers {
		home := w.client.Home()
		cutOff := r.last.Sub(r.first) >= uncut && r.Member(home).Stats().CutOffs > 0
		hit := r.hit[home] || cutOff || snapped && r.Disk(home).Installs() > 0
		if n := w.client.Disconnects(); !hit && (n > 0 || len(w.lost) > 0) {
			r.Errorf("%s: client of member %d, which was not hit, saw %d disconnects and lost sight of %d writes",
				w.dir, home, n, len(w.lost))
		}
	}
}

// lives reports whether a session lives according to a member's state.
func (r *run) lives(member uint32, id jute.SessionID) bool {
	s := r.Member(member).State()
	s.RLock()
	defer s.RUnlock()
	_, ok := s.Session(id)
	return ok
}

// checkSessions checks that the sessions in a state are the writers', and that the ephemerals are theirs. The members have been
// found equal.
func checkSessions(t *testing.T, s *znode.State, writers []*writer) {
	t.Helper()
	s.RLock()
	defer s.RUnlock()
	owners := map[jute.SessionID]string{}
	for _, w := range writers {
		owners[w.client.Session()] = w.dir + "-alive"
	}
	sessions := map[jute.SessionID]znode.Session{}
	for session := range s.Sessions(0) {
		sessions[session.ID] = session
		if owners[session.ID] == "" && session.Timeout >= sessionTimeout {
			t.Errorf("session %v lives, of a client that is not there", session.ID)
		}
	}
	n := 0
	for id, path := range owners {
		if _, ok := sessions[id]; !ok {
			t.Errorf("session %v, of %s, is gone", id, path)
		}
		paths := slices.Collect(s.TreeView().Ephemerals(id, nil).All())
		n += len(paths)
		if len(paths) != 1 || paths[0] != path {
			t.Errorf("session %v has ephemerals %q, want %q", id, paths, path)
		}
	}
	if all := s.TreeView().EphemeralCount(); all != n {
		t.Errorf("%d ephemerals, of which %d belong to the sessions that live", all, n)
	}
}
