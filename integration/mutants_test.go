package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// mutant is a fault of one line that some test must notice.
type mutant struct {
	name     string
	file     string // from the repository's root
	old, new string // old occurs once
	pkg, run string // who notices: a package, and which of its tests
}

const (
	here      = "./integration"
	within200 = "^TestSchedules$"
)

var mutants = []mutant{
	{
		"owner unchecked", "znode/session.go",
		"case r.Owner != ownerOf(txn):", "case r.Owner != ownerOf(txn) && false:",
		here, "TestMovedSessionWithStuckWrite",
	},
	{
		"old attach accepted", "znode/session.go",
		"if req.GetSince() != old.Since && old.Owner.Member != txn.GetMember() {", "if false {",
		here, "TestOldAttachAfterTheHeal",
	},
	{
		"expiry of a session that came back", "znode/session.go",
		"if !ok || session.Since > req.GetSince() {", "if !ok {",
		here, "TestAttachAheadOfDueExpiry",
	},
	{
		"session made for a client that has gone", "follower/outbox.go",
		"if r.lane.closed && isHandshake(r.txn) {", "if false {",
		here, "TestCreateOfAClientThatHasGone",
	},
	{
		"vouching for longer than the leader waits", "follower/leases.go",
		"{ return timeout - timeout/10 }", "{ return 2 * timeout }",
		here, "TestNobodyVouchesForTheExpired",
	},
	{
		"vouching unchecked", "server/output.go",
		"if vouch && !c.vouched(now) {", "if false {",
		"./server", ".",
	},
	{
		"leader proves to itself that it leads", "leader/proof.go",
		"p.majority = members/2 + 1", "p.majority = 1",
		"./leader", ".",
	},
	{
		"joining member votes", "quorum/node.go",
		"votes: func() bool { return !n.joining.Load() || len(n.cfg.Peers) == 2 },", "votes: func() bool { return true },",
		here, "TestWipedMember",
	},
	{
		"ensemble begun before all have said that they have no data", "quorum/start.go",
		"case len(silent) == 0 ||", "case true ||",
		here, "TestFirstStartInEveryOrder",
	},
	{
		"outbox not cleared by a snapshot", "follower/observer.go",
		"f.out.forget(cursor)", "_ = cursor",
		here, "TestSnapshotInstalledUnderClients",
	},
	{
		"cursor ignored", "znode/apply.go",
		" || txn.GetSeq() != m.cursor+1 {", " {",
		here, within200,
	},
	{
		"close without its ephemerals", "znode/sweep.go",
		"for _, path := range paths {", "for _, path := range paths[:0] {",
		here, within200,
	},
	{
		"close answered before all its ephemerals are gone", "server/request.go",
		"if res.Later {", "if false {",
		here, "TestSweepGoesOnUnderTheNextLeader",
	},
	{
		"nothing sent again", "follower/link.go",
		"	f.out.rewind()\n", "",
		here, within200,
	},
	{
		"no lease in a new term", "sessiontracker/table.go",
		"		t.shard(s.ID).queue.Put(s, s.Timeout)\n", "		t.shard(s.ID).queue.Put(s, 0)\n",
		here, within200,
	},
	{
		"cursor lost in the snapshot", "znode/snapshot.go",
		"b.u64(m.cursor)", "b.u64(0)",
		here, within200,
	},
	{
		"sync answered with what is applied anyway", "follower/syncs.go",
		"round{index: index, waiters: s.asked}", "round{index: 0, waiters: s.asked}",
		here, "TestSyncOnALaggingMember",
	},
	{
		"events behind the next write", "znode/apply.go",
		"	s.run(txn, r)\n	s.fire()\n", "	s.run(txn, r)\n",
		here, within200,
	},
	{
		"ephemeral of another session closed", "znode/sweep.go",
		"paths := s.owned(id, limit)", "paths := s.owned(id-1, limit)",
		here, within200,
	},
	{
		"writes of a connection in any order", "follower/outbox.go",
		"	l := o.lane(txn.Conn)\n", "	l := o.lane(uint64(len(txn.Body)))\n",
		here, within200,
	},
	{
		"a lost term's entries counted as applied", "follower/outbox.go",
		"o.next = max(o.next, first)", "o.next = max(o.next, o.seq)",
		here, within200,
	},
	{
		"acknowledged before it is on the disk", "quorum/stores.go",
		`func() error { return s.LogStore.StoreLogs(logs) })`, `func() error { go s.LogStore.StoreLogs(logs); return nil })`,
		here, "TestTornWrites",
	},
	{
		"wiped member joins on one word", "quorum/start.go",
		"case data && len(v.full) >= v.need:", "case data:",
		"./quorum", "TestJudge|TestTwoWipedOfThree",
	},
	{
		"half a bootstrap taken for a lost disk", "quorum/start.go",
		"case first == bootstrapIndex && joining == 0:", "case first == bootstrapIndex && joining > 1:",
		"./quorum", "TestBootstrapKilledHalfWay|TestStopBeforeFirstCommit",
	},
	{
		"snapshot received in raft's main loop", "quorum/transport.go",
		"	if isInstall {\n", "	if isInstall && r == nil {\n",
		"./quorum", "TestLeaderDiesSendingSnapshot|TestSnapshotIsInstalled",
	},
	{
		"entry of an old term applied", "znode/apply.go",
		"case entry.GetTerm() != term || term != s.term.Term || entry.GetNonce() != s.term.Nonce:", "case entry.GetTerm() != term:",
		"./znode", ".",
	},
	{
		"commit index unclamped", "quorum/transport.go",
		"if req.LeaderCommitIndex <= proved {", "if true {",
		"./quorum", "Clamp|Commit|Pipeline|Transport",
	},
	{
		"table time unclamped", "sessiontracker/table.go",
		"min(now.Sub(c.base), t.step+t.slack())", "now.Sub(c.base)",
		"./sessiontracker", ".",
	},
	{
		"late check loses no time", "sessiontracker/table.go",
		"		c.base = now\n", "",
		"./sessiontracker", ".",
	},
	{
		"touch batch forgotten when it is sent", "sessiontracker/touchmap.go",
		"	return slices.Clone(m.unacked)\n", "	b := m.unacked\n	m.unacked = nil\n	return b\n",
		"./sessiontracker", ".",
	},
	{
		"expiry without a round of its own", "leader/expire.go",
		"if now.Before(r.ends) && !l.allAnswered(r.asked, now) {", "if false {",
		"./leader", ".",
	},
	{
		"refused proposal ignored", "leader/batch.go",
		"		if err := entry.Error(); err != nil {\n", "		if err := entry.Error(); false {\n",
		"./leader", ".",
	},
	{
		"old stream read on", "leader/batch.go",
		"return !q.closed && q.streams[f.member] == f }", "return !q.closed }",
		"./leader", ".",
	},
	{
		"read overtakes the connection's writes", "server/request.go",
		"	if c.queue.n > 0 {\n		r.keep()\n", "	if false {\n		r.keep()\n",
		"./server", ".",
	},
	{
		"acknowledgement counts before its index is applied", "follower/acks.go",
		" && f.acks[0].commit <= f.applied.Load() {", " {",
		"./follower", ".",
	},
	{
		"ping of an old term answered", "follower/pings.go",
		"if term := f.cfg.RaftTerm(); ping.Term < term {", "if term := f.cfg.RaftTerm(); false {",
		"./follower", ".",
	},
	{
		"stalled leader speaks on", "quorum/stall.go",
		"if oldest.begun.IsZero() || time.Since(oldest.begun) < o.limit {", "if true {",
		here, "TestStalledLeader",
	},
	{
		"clients of a stalled member left where they are", "member/stall.go",
		"			m.server.CutAll()", "",
		here, "TestStalledLeader",
	},
	{
		"watchdog takes the next term", "member/terms.go",
		"t.current.CompareAndSwap(current, nil)", "_ = current; t.current.Store(nil)",
		"./member", "TestLateStall",
	},
	{
		"entry of another term applied", "znode/apply.go",
		"case entry.GetTerm() != term || term != s.term.Term || entry.GetNonce() != s.term.Nonce:", "case false:",
		here, "TestOldEntryInNewTerm",
	},
	{
		"entry of an ended term applied within raft's", "znode/apply.go",
		" || entry.GetNonce() != s.term.Nonce:", ":",
		here, "TestTwoTermsInOneOfRaft",
	},
	{
		"change of leadership forgotten", "member/terms.go",
		"				stop = nil\n			}\n", "				stop = nil\n				for len(t.m.node.Leadership()) > 0 {\n					<-t.m.node.Leadership()\n				}\n			}\n",
		here, "TestLostAndGainedBetweenTwoLooks",
	},
	{
		"announcement of any other run", "znode/apply.go",
		" || m.boot != req.GetReplaces() {", " {",
		here, "TestLateAnnouncement",
	},
	{
		"announcement counted again", "znode/apply.go",
		"if m.boot == txn.GetBoot() || m.boot != req.GetReplaces() {", "if false {",
		here, "TestRepeatedAnnouncement",
	},
	{
		"refusal waits for its commit", "follower/acks.go",
		"if !a.heeded && a.through != 0 &&", "if false &&",
		here, "TestShorterTimeoutElsewhere",
	},
	{
		"refused touch acknowledged", "leader/ping.go",
		"a.refused = l.cfg.Sessions.TouchAll(m.id, at, batch.Sessions, batch.TimeoutsMs, a.refused)", "l.cfg.Sessions.TouchAll(m.id, at, batch.Sessions, batch.TimeoutsMs, nil)",
		here, "TestRefusedTouchInABatch",
	},
	{
		"checks by the wall clock", "leader/expire.go",
		"l.look(&r, time.Now())", "l.look(&r, l.cfg.Now())",
		here, "TestWallClocksJump",
	},
	{
		"all due at once in a new term", "sessiontracker/table.go",
		"		t.shard(s.ID).queue.Put(s, s.Timeout)\n", "		t.shard(s.ID).queue.Put(s, 0)\n",
		here, "TestAllPaused",
	},
	{
		"empty member begins alone", "quorum/start.go",
		"case len(n.cfg.Peers) == 1:", "case true:",
		here, "TestTwoWipedOfThree|TestWipedMemberDoesNotElectALaggard",
	},
	{
		"half a bootstrap refused", "quorum/start.go",
		"		// that it does not know.\n		return startRunning, nil\n", "		return 0, errJoining\n",
		here, "TestBootstrapKilledHalfWay",
	},
	{
		"digest of what is each member's own", "znode/digest.go",
		"p = add(p, uint64(life.owner))", "p = add(p, uint64(life.owner)+n.gen)",
		here, within200,
	},
	{
		"damage forgotten by a restart", "quorum/damage.go",
		"n.stable.Set(keyDamage, []byte(why))", "error(nil)",
		here, "TestDamagedFollower",
	},
	{
		"damaged leader speaks on", "quorum/node.go",
		"stalled: n.silent,", "stalled: n.Stalled,",
		"./quorum", "TestDamaged",
	},
	{
		"half of the members are a majority", "leader/compare.go",
		"if int(n) > members/2 {", "if int(n) >= members/2 {",
		"./leader", ".",
	},
}

// mutate writes the file with the mutant in it, and returns both paths, absolute.
func (m mutant) mutate(dir string) (original, changed string, err error) {
	if original, err = filepath.Abs(filepath.Join("..", m.file)); err != nil {
		return "", "", err
	}
	text, err := os.ReadFile(original)
	if err != nil {
		return "", "", err
	}
	if n := strings.Count(string(text), m.old); m.old == "" || n != 1 {
		return "", "", fmt.Errorf("%s has %q %d times, want 1", m.file, m.old, n)
	}
	changed = filepath.Join(dir, filepath.Base(m.file))
	return original, changed, os.WriteFile(changed, []byte(strings.Replace(string(text), m.old, m.new, 1)), 0o600)
}

// Every mutant is one of the code as it is.
func TestMutantsFit(t *testing.T) {
	for _, m := range mutants {
		if _, _, err := m.mutate(t.TempDir()); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
	}
}

// How long a mutant may take, as a whole, and its tests. One that makes a test hang is
// noticed, too; 200 schedules take half a minute, and more on a busy machine.
const (
	mutantLimit    = 5 * time.Minute
	testsLimit     = time.Minute
	schedulesLimit = 4 * time.Minute

	// tries is how often a named test runs until it notices: raft draws when it elects, and a
	// member that votes although it must not is elected twice out of three times.
	tries = 10
)

// Each mutant is noticed, by a named test or within 200 schedules. It builds the tests
// anew for each, so it runs only if ROLLCALL_MUTANTS is set: to 1, or to part of a name.
func TestMutants(t *testing.T) {
	only := os.Getenv("ROLLCALL_MUTANTS")
	if only == "" {
		t.Skip("ROLLCALL_MUTANTS is not set; make mutants sets it")
	}
	caught := 0
	for _, m := range mutants {
		if only != "1" && !strings.Contains(m.name, only) {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			start := time.Now()
			by, err := m.hunt(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			caught++
			fmt.Printf("mutant caught: %s, by %s, in %v\n", m.name, by, time.Since(start).Round(time.Second))
		})
	}
	fmt.Printf("%d mutants caught\n", caught)
}

// hunt runs the tests on a mutant and returns the first that noticed it.
func (m mutant) hunt(dir string) (by string, err error) {
	original, changed, err := m.mutate(dir)
	if err != nil {
		return "", err
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {original: changed}})
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, overlay, 0o600); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), mutantLimit)
	defer cancel()
	limit, times := testsLimit, "-count="+strconv.Itoa(tries)
	if m.run == within200 {
		limit, times = schedulesLimit, "-count=1"
	}
	cmd := exec.CommandContext(ctx, "go", "test", times, "-failfast", "-vet=off", "-timeout="+limit.String(), "-overlay", file, "-run", m.run, m.pkg)
	cmd.Dir = ".."
	cmd.Env = append(os.Environ(), "ROLLCALL_SCHEDULES=200", "ROLLCALL_MUTANTS=")
	out, err := cmd.CombinedOutput()
	if err == nil {
		return "", errors.New("nobody noticed")
	}
	if by = noticed(m.run, string(out)); by == "" {
		return "", fmt.Errorf("not judged: %w\n%s", err, out)
	}
	return by, nil
}

// noticed says which test noticed a mutant, "" if none did. That schedules come to an end
// without one that fails, or not within their time, is no judgement: totals below their
// floors, or a machine that is busy.
func noticed(run, out string) (by string) {
	for line := range strings.Lines(out) {
		if _, rest, ok := strings.Cut(line, "--- FAIL: "); ok {
			by = strings.Fields(rest)[0] // the last one is the innermost
		}
	}
	if run == within200 && !strings.Contains(by, "/seed=") {
		by = ""
	}
	if by == "" && strings.Contains(out, "panic: ") && (run != within200 || !strings.Contains(out, "panic: test timed out")) {
		by = "a panic in " + run
	}
	return by
}

// What is a judgement on a mutant, and what is none.
func TestNoticed(t *testing.T) {
	const (
		seed    = "--- FAIL: TestSchedules (1.00s)\n    --- FAIL: TestSchedules/seed=7 (0.10s)\n"
		floors  = "--- FAIL: TestSchedules (1.00s)\n"
		crash   = "panic: runtime error: index out of range\n"
		timeout = "panic: test timed out after 3m0s\n"
	)
	for _, tt := range []struct{ run, out, want string }{
		{within200, seed, "TestSchedules/seed=7"},
		{within200, floors, ""},
		{within200, crash, "a panic in " + within200},
		{within200, timeout, ""},
		{"TestTornWrites", "--- FAIL: TestTornWrites (0.10s)\n", "TestTornWrites"},
		{"TestTornWrites", timeout, "a panic in TestTornWrites"},
		{"TestTornWrites", "FAIL rollcall/integration [build failed]\n", ""},
	} {
		if got := noticed(tt.run, tt.out); got != tt.want {
			t.Errorf("%s: %q is noticed by %q, want %q", tt.run, tt.out, got, tt.want)
		}
	}
}
