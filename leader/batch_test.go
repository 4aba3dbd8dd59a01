package leader

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"rollcall/internal/metrics"
	"rollcall/proto"
	"rollcall/sessiontracker"
	"rollcall/zk/jute"
)

// seqs returns the transactions of a member that were applied, in order.
func (f *fakeLog) seqs(member uint32) (seqs []uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, txn := range f.applied {
		if txn.Member == member {
			seqs = append(seqs, txn.Seq)
		}
	}
	return seqs
}

func counted(t *testing.T, seqs []uint64, n int) {
	t.Helper()
	for i, seq := range seqs {
		if seq != uint64(i+1) {
			t.Fatalf("transaction %d has seq %d", i, seq)
		}
	}
	if len(seqs) != n {
		t.Fatalf("%d transactions, want %d", len(seqs), n)
	}
}

// An entry takes the transactions that came while the one before was under way.
func TestEntriesGather(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t)
		e.run()
		e.commitIn(time.Millisecond)
		e.log.delay = 10 * time.Millisecond
		two, _, hangUp2 := e.forward(0)
		three, _, hangUp3 := e.forward(0)
		for seq := uint64(1); seq <= 20; seq++ {
			two.in <- writes(2, 10, seq)
			three.in <- writes(3, 10, 2*seq-1, 2*seq)
			time.Sleep(time.Millisecond)
			synctest.Wait()
		}
		e.at(tick / 4)
		counted(t, e.log.seqs(2), 20)
		counted(t, e.log.seqs(3), 40)
		if len(e.log.proposed) > 6 || e.log.most != 1 {
			t.Errorf("%d entries, %d at a time", len(e.log.proposed), e.log.most)
		}
		for _, entry := range e.log.proposed {
			if entry.Format != testFormat || entry.Term != term || entry.Nonce != nonce || entry.TimeMs == 0 {
				t.Errorf("entry %+v", entry)
			}
		}
		hangUp2()
		hangUp3()
		e.end()
	})
}

// An entry waits a while for the writers of the one before.
func TestEntriesWaitForWriters(t *testing.T) {
	const writers, round = 2 * gatherFrom, 10 * time.Millisecond
	seqs := func(n, from int) (seqs []uint64) {
		for i := range n {
			seqs = append(seqs, uint64(from+i))
		}
		return seqs
	}
	for _, c := range []struct {
		name    string
		first   int           // transactions of the first entry
		back    int           // of its writers that write again
		after   time.Duration // one after the other
		size    int           // of each
		waits   time.Duration
		entries []int
	}{
		{"all come back", writers, writers, gatherTime / 20, 1, 14 * gatherTime / 20, []int{writers, writers - 1, 1}},
		{"some stay away", writers, writers / 2, gatherTime / 20, 1, gatherTime, []int{writers, writers / 2}},
		{"they are slow", writers, writers, gatherTime * 3 / 10, 1, gatherTime, []int{writers, 4, writers - 4}},
		{"an entry is full", writers, writers, gatherTime / 20, maxEntryBytes/4 - 100, 4 * gatherTime / 20, []int{writers, 4, 4, 4, 4}},
		{"they are few", gatherFrom / 2, 2, gatherTime / 20, 1, 0, []int{gatherFrom / 2, 1, 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newEnsemble(t)
				e.run()
				e.commitIn(time.Millisecond)
				e.log.delay = round
				stream, _, hangUp := e.forward(0)
				stream.in <- writes(2, 1, seqs(c.first, 1)...)
				time.Sleep(round)
				begun := time.Now()
				for i := range c.back {
					stream.in <- writes(2, c.size, uint64(c.first+1+i))
					time.Sleep(c.after)
				}
				time.Sleep(20 * round)
				counted(t, e.log.seqs(2), c.first+c.back)
				if d := e.log.begun[1].Sub(begun); d != c.waits {
					t.Errorf("the second entry began after %v, want %v", d, c.waits)
				}
				if n := e.log.lengths(); !slices.Equal(n, c.entries) {
					t.Errorf("entries of %d, want %d", n, c.entries)
				}
				hangUp()
				e.end()
			})
		})
	}
}

// An entry names the members whose writes it has. The leader's own transactions are for all members.
func TestEntryNamesItsSenders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t)
		e.log.delay = 10 * time.Millisecond
		e.run()
		two, _, hangUp2 := e.forward(0)
		three, _, hangUp3 := e.forward(0)
		two.in <- writes(2, 10, 1)
		synctest.Wait() // the first entry is under way
		two.in <- writes(2, 10, 2)
		synctest.Wait()
		three.in <- writes(3, 10, 1)
		synctest.Wait()
		two.in <- writes(2, 10, 3)
		time.Sleep(e.log.delay + minOverlapDelay/2) // so is the second
		two.in <- writes(2, 10, 4)
		synctest.Wait() // the third waits for the second, and takes both
		e.intake.enqueueReapWhenRoom(&proto.Txn{Op: int32(jute.OpReap)})
		time.Sleep(20 * time.Millisecond)
		want := [][]uint32{{2}, {2, 3}, nil}
		e.log.mu.Lock()
		got := slices.Clone(e.log.from)
		e.log.mu.Unlock()
		if !slices.EqualFunc(got, want, slices.Equal) || got[2] != nil {
			t.Errorf("the entries are from %v, want %v", got, want)
		}
		hangUp2()
		hangUp3()
		e.end()
	})
}

// lengths returns the number of transactions in each proposed entry.
func (f *fakeLog) lengths() (n []int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, entry := range f.proposed {
		n = append(n, len(entry.Txns))
	}
	return n
}

// An entry is limited in size, and in its number of transactions.
func TestEntriesAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t)
		e.run()
		stream, _, hangUp := e.forward(0)
		seq := uint64(0)
		next := func(n, size int) {
			f := &proto.Forwarded{Member: 2, Incarnation: 77, Nonce: nonce}
			for range n {
				seq++
				f.Txns = append(f.Txns, writes(2, size, seq).Txns...)
			}
			stream.in <- f
		}
		next(1, 1)
		next(3*maxEntryOps, 1)
		next(20, maxEntryBytes/8)
		next(1, 2*maxEntryBytes)
		next(10, 1)
		e.at(time.Second)
		counted(t, e.log.seqs(2), 3*maxEntryOps+32)
		for i, entry := range e.log.proposed {
			if n := len(entry.Txns); n > maxEntryOps || e.log.sizes[i] > maxEntryBytes+20*n+100 && n > 1 {
				t.Errorf("entry %d: %d transactions, %d bytes", i, n, e.log.sizes[i])
			}
		}
		if n := len(e.log.proposed); n > 12 {
			t.Errorf("%d entries", n)
		}
		hangUp()
		e.end()
	})
}

// In an entry each operation of a multi counts like a transaction. A multi with more operations
// than an entry takes goes alone, and the transactions after it are in the next entry.
func TestOperationsOfAMultiCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t)
		e.log.delay = 10 * time.Millisecond
		e.run()
		stream, _, hangUp := e.forward(0)
		f := writes(2, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)
		multi := func(i, n int) {
			ops := make([]jute.MultiOp, n)
			for i := range ops {
				ops[i] = jute.MultiOp{Op: jute.OpDelete, Delete: jute.DeleteRequest{Path: []byte("/")}}
			}
			f.Txns[i].Op, f.Txns[i].Body = int32(jute.OpMulti), jute.AppendMulti(nil, ops)
		}
		multi(2, maxTaken/2)
		multi(3, maxTaken-maxTaken/2-2) // fills the entry
		multi(5, maxTaken-1)
		multi(7, 3*maxEntryOps)
		multi(8, 0) // counts as one
		stream.in <- f
		e.at(time.Second)
		if got, want := e.log.lengths(), []int{4, 2, 1, 1, 3}; !slices.Equal(got, want) {
			t.Errorf("entries of %v transactions, want %v", got, want)
		}
		hangUp()
		e.end()
	})
}

// A rejected proposal ends the term, and every stream with it.
func TestRefusedProposalEndsTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t)
		e.log.fail = 2
		e.run()
		stream, ended, _ := e.forward(0)
		idle, idleEnded, _ := e.forward(0)
		stream.in <- writes(2, 10, 1)
		time.Sleep(time.Second)
		if len(e.ended) != 0 {
			t.Fatal("the term ended early")
		}
		stream.in <- writes(2, 10, 2)
		select {
		case err := <-e.ended:
			if !errors.Is(err, errLost) {
				t.Errorf("Run: %v, want %v", err, errLost)
			}
		case <-time.After(time.Minute):
			t.Fatal("the term goes on after a refused proposal")
		}
		if err := <-ended; status.Code(err) != codes.FailedPrecondition {
			t.Errorf("Forward: %v", err)
		}
		if err := <-idleEnded; status.Code(err) != codes.FailedPrecondition {
			t.Errorf("Forward of an idle member: %v", err)
		}
		_ = idle
		late, lateEnded, _ := e.forward(1)
		late.in <- writes(3, 10, 1)
		if err := <-lateEnded; status.Code(err) != codes.FailedPrecondition {
			t.Errorf("Forward after the term: %v", err)
		}
		if len(e.log.proposed) != 2 {
			t.Errorf("%d entries proposed", len(e.log.proposed))
		}
		e.stop()
		e.streams.Wait()
	})
}

// Stepping down does not wait for a log that hangs.
func TestRunEndsThoughLogHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t)
		e.log.hang = true
		e.run()
		stream, _, _ := e.forward(0)
		for seq := uint64(1); seq < 10; seq++ {
			stream.in <- writes(2, 10, seq)
		}
		e.end()
	})
}

// Members' streams end even while the log does not accept an entry.
func TestStreamsEndThoughLogBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t)
		e.log.block = make(chan struct{})
		e.run()
		stream, ended, _ := e.forward(0)
		stream.in <- writes(2, 10, 1)
		synctest.Wait()
		e.stop()
		synctest.Wait()
		if len(ended) != 1 || len(e.ended) != 0 {
			t.Errorf("ended: the stream %d, Run %d", len(ended), len(e.ended))
		}
		close(e.log.block)
		e.end()
	})
}

// While the log does not keep up, a member's stream is not read. When it does again, all writes
// arrive, in order. Another member is not delayed by it.
func TestBackPressure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t)
		e.log.delay = time.Second
		e.run()
		const size, n = 100_000, 300
		stream, _, hangUp := e.forward(n)
		for seq := uint64(1); seq <= n; seq++ {
			stream.in <- writes(2, size, seq)
		}
		synctest.Wait()
		read := n - len(stream.in)
		if most := (maxWaitingBytes+2*maxEntryBytes)/size + 2; read > most || read < maxWaitingBytes/size {
			t.Errorf("read %d messages of %d bytes ahead of the log, want %d at most", read, size, most)
		}
		other, _, hangUpOther := e.forward(1)
		other.in <- writes(3, 10, 1)
		synctest.Wait()
		if len(other.in) != 0 {
			t.Error("the other member's stream is not read")
		}
		e.at(time.Minute)
		counted(t, e.log.seqs(2), n)
		counted(t, e.log.seqs(3), 1)
		hangUp()
		hangUpOther()
		e.end()
	})
}

// A member's new stream ends its old one. Nothing more is taken from the old one, not even writes
// that were read and wait for room.
func TestNewStreamEndsOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t)
		e.log.delay = time.Second
		e.run()
		old, ended, _ := e.forward(200)
		for seq := uint64(1); seq <= 100; seq++ {
			old.in <- writes(2, 100_000, seq)
		}
		synctest.Wait() // the reader has a message in hand
		taken := 100 - len(old.in) - 1
		fresh, freshEnded, _ := e.forward(200)
		fresh.in <- writes(2, 100_000, 1000)
		if err := <-ended; status.Code(err) != codes.Aborted {
			t.Errorf("the old stream ended with %v", err)
		}
		e.at(time.Minute)
		fresh.in <- writes(2, 100_000, 1001)
		e.at(2 * time.Minute)
		seqs := e.log.seqs(2)
		if n := len(seqs); n != taken+2 || seqs[n-2] != 1000 || seqs[n-1] != 1001 {
			t.Errorf("applied %v; want %d of the old stream, and 1000, 1001", seqs, taken)
		}
		_, thirdEnded, _ := e.forward(0) // says nothing yet: whose it is, is not known
		synctest.Wait()
		if len(freshEnded)+len(thirdEnded) != 0 {
			t.Error("a stream that said nothing ended another")
		}
		e.end()
	})
}

// A newer stream also ends an idle one.
func TestNewStreamEndsIdleOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t)
		e.run()
		old, ended, _ := e.forward(0)
		old.in <- writes(2, 10)
		other, otherEnded, _ := e.forward(0)
		other.in <- writes(3, 10)
		synctest.Wait() // until both streams have said whose they are
		fresh, _, _ := e.forward(0)
		fresh.in <- writes(2, 10)
		synctest.Wait()
		if len(ended) != 1 || len(otherEnded) != 0 {
			t.Errorf("ended: the old stream %d, another member's %d", len(ended), len(otherEnded))
		}
		e.end()
	})
}

// A queue that is never empty does not grow without bound.
func TestIntakeIsCompacted(t *testing.T) {
	q := newIntake(new(metrics.Sizes), nil)
	f := &forwarding{member: 2}
	q.replaceStream(f)
	for seq := uint64(1); seq < 10_000; seq++ {
		q.enqueueForwardedWhenRoom(f, writes(2, 1, 2*seq, 2*seq+1).Txns)
		if seq == 1 {
			continue
		}
		if txns, _ := q.takeTxns(2, maxEntryBytes); len(txns) != 2 {
			t.Fatal("take(2) has not two")
		}
	}
	if len(q.waiting)-q.head != 2 || cap(q.waiting) > 100 {
		t.Errorf("%d wait, in room for %d", len(q.waiting)-q.head, cap(q.waiting))
	}
}

func TestForwardRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t)
		e.run()
		change := func(change func(f *proto.Forwarded)) *proto.Forwarded {
			f := writes(2, 1, 1)
			change(f)
			return f
		}
		tests := []struct {
			name string
			sent []*proto.Forwarded
			code codes.Code
		}{
			{"another term", []*proto.Forwarded{change(func(f *proto.Forwarded) { f.Nonce++ })}, codes.FailedPrecondition},
			{"no member", []*proto.Forwarded{writes(9, 1, 1)}, codes.InvalidArgument},
			{"the leader's own", []*proto.Forwarded{change(func(f *proto.Forwarded) { f.Txns[0].Member = 0 })}, codes.InvalidArgument},
			{"another boot's", []*proto.Forwarded{change(func(f *proto.Forwarded) { f.Txns[0].Incarnation++ })}, codes.InvalidArgument},
			{"another member's name", []*proto.Forwarded{writes(2, 1), change(func(f *proto.Forwarded) { f.Member = 3 })}, codes.InvalidArgument},
			{"another member's later", []*proto.Forwarded{writes(2, 1), writes(3, 1, 1)}, codes.InvalidArgument},
			{"another term's later", []*proto.Forwarded{writes(2, 1), change(func(f *proto.Forwarded) { f.Nonce++ })}, codes.FailedPrecondition},
			{"the member hangs up", nil, codes.OK},
		}
		for _, tt := range tests {
			stream, ended, _ := e.forward(2)
			for _, f := range tt.sent {
				stream.in <- f
			}
			close(stream.in)
			if err := <-ended; status.Code(err) != tt.code {
				t.Errorf("%s: %v, want %s", tt.name, err, tt.code)
			}
		}
		if len(e.log.proposed) != 0 {
			t.Errorf("proposed %v", e.log.proposed)
		}
		e.end()
	})
}

func TestNewChecksConfig(t *testing.T) {
	good := newEnsemble(t).cfg
	for name, spoil := range map[string]func(c *Config){
		"tick": func(c *Config) { c.Tick = 0 }, "sync limit": func(c *Config) { c.SyncLimit = 0 },
		"clock": func(c *Config) { c.WallClock = nil }, "log": func(c *Config) { c.Log = nil },
		"sessions": func(c *Config) { c.Sessions = nil }, "applied": func(c *Config) { c.AppliedIndex = nil },
		"raft": func(c *Config) { c.Raft = nil }, "link": func(c *Config) { c.LinkTo = nil },
		"present": func(c *Config) { c.ReachableServers = nil }, "nodes": func(c *Config) { c.Nodes = nil },
		"interval": func(c *Config) { c.Reaping.Interval = -1 }, "pace": func(c *Config) { c.Reaping.PerMinute = -1 },
		"age": func(c *Config) { c.Reaping.NeverUsed = -1 },
	} {
		cfg := good
		spoil(&cfg)
		if _, err := New(cfg); err == nil {
			t.Errorf("New without a good %s: no error", name)
		}
	}
	good.Logger = nil
	if _, err := New(good); err != nil {
		t.Errorf("New: %v", err)
	}
}

// What goes into the log while sessions are due keeps its session, and nothing does so at other times. An attach
// does not keep it, because its sender may not know the password.
func TestWritersKeepTheirSessions(t *testing.T) {
	const timeout = 10 * time.Second
	for _, tt := range []struct {
		name    string
		watched bool
		op      jute.Op
		touched bool
	}{
		{"while sessions are due", true, jute.OpSetData, true},
		{"while none is due", false, jute.OpSetData, false},
		{"an attach", true, jute.OpAttach, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			begun := time.Now()
			e := &expiry{sessions: sessiontracker.NewGlobalTable(begun, time.Second, slices.Values([]sessiontracker.TrackedSession{{ID: 7, Timeout: timeout}}))}
			e.hasUndecided.Store(tt.watched)
			now := begun.Add(timeout / 2)
			e.touchWriters([]*proto.Txn{{Session: 7, Op: int32(tt.op)}}, now)
			heard, _ := e.sessions.LastHeard(7, now)
			if touched := heard.Ago == 0; touched != tt.touched {
				t.Errorf("touched %t, want %t", touched, tt.touched)
			}
		})
	}
}
