package quorum

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// fakeInner records what reaches the wire.
type fakeInner struct {
	inner
	sent     []raft.AppendEntriesRequest
	pipe     raft.AppendPipeline
	handlers int
}

func (f *fakeInner) AppendEntries(_ raft.ServerID, _ raft.ServerAddress, req *raft.AppendEntriesRequest, _ *raft.AppendEntriesResponse) error {
	f.sent = append(f.sent, *req)
	return nil
}

func (f *fakeInner) AppendEntriesPipeline(raft.ServerID, raft.ServerAddress) (raft.AppendPipeline, error) {
	return f.pipe, nil
}

func (f *fakeInner) SetHeartbeatHandler(func(raft.RPC)) { f.handlers++ }

// fakePipeline answers what it is told.
type fakePipeline struct {
	sent   []raft.AppendEntriesRequest
	done   chan raft.AppendFuture
	closed chan struct{}
}

func (f *fakePipeline) AppendEntries(req *raft.AppendEntriesRequest, _ *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	f.sent = append(f.sent, *req)
	return nil, nil
}
func (f *fakePipeline) Consumer() <-chan raft.AppendFuture { return f.done }
func (f *fakePipeline) Close() error                       { close(f.closed); return nil }

type fakeFuture struct {
	raft.AppendFuture
	err  error
	resp raft.AppendEntriesResponse
}

func (f *fakeFuture) Error() error                          { return f.err }
func (f *fakeFuture) Response() *raft.AppendEntriesResponse { return &f.resp }

// No request on the wire tells of a commit beyond what it proves.
func TestCommitIsClamped(t *testing.T) {
	tests := []struct {
		prev, entries, commit, want uint64
	}{
		{prev: 0, entries: 0, commit: 0, want: 0}, // a heartbeat
		{prev: 10, entries: 0, commit: 12, want: 10},
		{prev: 10, entries: 3, commit: 12, want: 12},
		{prev: 10, entries: 3, commit: 13, want: 13},
		{prev: 10, entries: 3, commit: 14, want: 13},
		{prev: 0, entries: 2, commit: 9, want: 2},
	}
	pipe := &fakePipeline{done: make(chan raft.AppendFuture), closed: make(chan struct{})}
	wire := &fakeInner{pipe: pipe}
	tr := &transport{inner: wire, raft: func() *raft.Raft { return nil }, stalled: noStall}
	p, err := tr.AppendEntriesPipeline("2", "m2:1")
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for i, tt := range tests {
		req := &raft.AppendEntriesRequest{PrevLogEntry: tt.prev, LeaderCommitIndex: tt.commit}
		for i := range tt.entries {
			req.Entries = append(req.Entries, &raft.Log{Index: tt.prev + 1 + i})
		}
		if err := tr.AppendEntries("2", "m2:1", req, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := p.AppendEntries(req, nil); err != nil {
			t.Fatal(err)
		}
		if got := wire.sent[i].LeaderCommitIndex; got != tt.want {
			t.Errorf("%+v: sent %d", tt, got)
		}
		if got := pipe.sent[i].LeaderCommitIndex; got != tt.want {
			t.Errorf("%+v: pipelined %d", tt, got)
		}
	}
}

func TestNoHeartbeatHandler(t *testing.T) {
	wire := &fakeInner{}
	(&transport{inner: wire}).SetHeartbeatHandler(func(raft.RPC) {})
	if wire.handlers != 0 {
		t.Error("raft's heartbeat fast path is on")
	}
}

// A pipeline passes its first bad answer on, and is closed, which frees its sender.
func TestPipelineEndsAtFirstFailure(t *testing.T) {
	for name, bad := range map[string]*fakeFuture{
		"refused": {},
		"failed":  {err: errors.New("broken pipe"), resp: raft.AppendEntriesResponse{Success: true}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fake := &fakePipeline{done: make(chan raft.AppendFuture), closed: make(chan struct{})}
				p := newPipeline(fake, func() (commit, last, term uint64) { return 0, 0, 0 }, noStall)
				good := &fakeFuture{resp: raft.AppendEntriesResponse{Success: true}}
				fake.done <- good
				if got := <-p.Consumer(); got != good {
					t.Error("the good answer is lost")
				}
				synctest.Wait()
				select {
				case <-fake.closed:
					t.Fatal("closed after a good answer")
				default:
				}
				fake.done <- bad
				if got := <-p.Consumer(); got != bad {
					t.Error("the bad answer is lost")
				}
				<-fake.closed
				fake.closed = make(chan struct{})
				p.Close()
			})
		})
	}
}

// compact makes the ensemble take snapshots soon and keep little log.
func (e *ensemble) compact() {
	for _, m := range e.members {
		m.adjust = func(c *Config) { c.SnapshotEvery, c.TrailingBytes = 20, 1 }
	}
}

// outdate kills a member after the command a, and has the other two go on until only a
// snapshot can bring it back. It returns all commands.
func (e *ensemble) outdate(id uint32, size int) []string {
	e.t.Helper()
	rest := others(id)
	e.kill(id)
	all := []string{"a"}
	for i := range 3 * minTrailing {
		all = append(all, fmt.Sprint(i, strings.Repeat(".", size)))
		e.propose(all[len(all)-1], rest...)
	}
	e.compacted(3, rest...)
	return all
}

// compacted waits until the logs of members begin above index.
func (e *ensemble) compacted(index uint64, ids ...uint32) {
	e.t.Helper()
	for _, id := range ids {
		e.wait("a shorter log", func() bool {
			first, _ := e.members[id].stores.Log.FirstIndex()
			return first > index
		})
	}
}

// A member that is too far behind gets a snapshot.
func TestSnapshotIsInstalled(t *testing.T) {
	for _, wiped := range []bool{false, true} {
		t.Run(fmt.Sprintf("wiped=%t", wiped), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newEnsemble(t, 3)
				e.compact()
				e.begin()
				late := others(e.leader(1, 2, 3))[0]
				all := e.outdate(late, 10)
				if wiped {
					e.wipe(late)
				}
				e.start(late)
				e.applied(all, late)
				if e.members[late].machine.restored == 0 {
					t.Error("no snapshot was installed")
				}
				e.joined(late)
				e.propose("z", 1, 2, 3)
				e.applied(append(all, "z"), 1, 2, 3)
			})
		})
	}
}

// A leader that dies while it sends a snapshot, without as much as closing the
// connection, does not keep the receiver from electing another.
func TestLeaderDiesSendingSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 3)
		e.compact()
		e.begin()
		lead := e.leader(1, 2, 3)
		late, other := others(lead)[0], others(lead)[1]
		all := e.outdate(late, 10_000)
		lead = e.leader(lead, other)
		other = others(lead)[0] + others(lead)[1] - late

		pair := [2]uint32{lead, late}
		e.net.mu.Lock()
		e.net.muteAt[pair] = e.net.wrote[pair] + 1<<20
		e.net.mu.Unlock()
		e.start(late)
		e.wait("a snapshot under way", func() bool {
			e.net.mu.Lock()
			defer e.net.mu.Unlock()
			return e.net.mute[pair]
		})
		e.members[lead].node.fatal(errKilled)
		begin := time.Now()
		if got := e.leader(other, late); got != other {
			t.Errorf("member %d leads, want %d", got, other)
		}
		if took := time.Since(begin); took > 10*minElection {
			t.Errorf("elected after %v: the receiver was held up", took)
		}
		e.applied(all, late)
		if took := time.Since(begin); took > stallTimeout/2 {
			t.Errorf("caught up after %v: the next leader's snapshot was to take the first one's place at once", took)
		}
		if err := e.ended(lead); !errors.Is(err, errKilled) {
			t.Errorf("Run: %v", err)
		}
	})
}

// A member whose log runs past a snapshot, with entries that were never committed, asks
// for a restart after installing it: raft would go on by the old log's end. After the
// restart it is like the others.
func TestConflictingLogRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 3)
		e.compact()
		e.begin()
		lead := e.leader(1, 2, 3)
		rest := others(lead)
		e.net.partition(lead, rest[0])
		e.net.partition(lead, rest[1])
		for i := range 6 * minTrailing {
			e.members[lead].node.Propose([]byte(fmt.Sprint("never", i)))
		}
		e.wait("a new leader", func() bool { return !e.members[lead].node.Leading() })
		all := []string{"a"}
		for i := range 3 * minTrailing {
			all = append(all, fmt.Sprint(i))
			e.propose(all[len(all)-1], rest...)
		}
		e.compacted(10, rest...)
		e.net.heal()
		if err := e.ended(lead); !errors.Is(err, ErrRestart) || !strings.Contains(err.Error(), "the log had reached") {
			t.Fatalf("Run: %v, want ErrRestart at the first install", err)
		}
		e.start(lead)
		e.propose("z", 1, 2, 3)
		e.applied(append(all, "z"), 1, 2, 3)
	})
}

// A snapshot that holds nothing new is answered without raft, which would drop what comes
// after it; asked for once more, the member restarts.
func TestSecondInstallRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 1)
		e.start(1)
		e.propose("a", 1)
		e.propose("b", 1)
		n := e.members[1].node
		r, last := n.raft.Load(), n.LastIndex()
		install := func(term, index uint64, body string) (raft.InstallSnapshotResponse, error) {
			req := &raft.InstallSnapshotRequest{
				RPCHeader: raft.RPCHeader{ProtocolVersion: 3, ID: []byte("2"), Addr: []byte("m2:3888")}, SnapshotVersion: 1,
				Term: term, LastLogIndex: index, LastLogTerm: term, Size: int64(len(body)),
			}
			got, err := n.trans.install(raft.RPC{Reader: strings.NewReader(body)}, req)
			if resp, ok := got.(*raft.InstallSnapshotResponse); ok {
				return *resp, err
			}
			return raft.InstallSnapshotResponse{}, err
		}
		if resp, err := install(r.CurrentTerm()-1, last-1, "x"); err != nil || resp.Success || resp.Term != r.CurrentTerm() {
			t.Errorf("of an older term: %+v, %v", resp, err)
		}
		if resp, err := install(r.CurrentTerm()+1, last-1, "x"); err == nil {
			t.Errorf("of a newer term, not heard of: %+v", resp)
		}
		if resp, err := install(r.CurrentTerm(), last-1, "x"); err != nil || !resp.Success {
			t.Errorf("nothing new: %+v, %v", resp, err)
		}
		if n.LastIndex() != last || e.members[1].machine.restored != 0 {
			t.Error("raft went back")
		}
		if resp, err := install(r.CurrentTerm(), last-1, "x"); !errors.Is(err, ErrRestart) {
			t.Errorf("again: %+v, %v", resp, err)
		}
		if err := e.ended(1); !errors.Is(err, ErrRestart) {
			t.Errorf("Run: %v", err)
		}
	})
}

// A body that stalls or drips ends the connection; waiting for a request does not.
func TestInConnDeadlines(t *testing.T) {
	tests := []struct {
		name  string
		pause time.Duration // before each byte but the first
		ends  time.Duration
	}{
		{"stalls", time.Hour, stallTimeout},
		{"drips", stallTimeout / 2, rateGrace},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := net.Pipe()
				defer b.Close()
				c := &inConn{Conn: a, owner: newConns(nil)}
				stop := make(chan struct{})
				go func() {
					time.Sleep(24 * time.Hour) // idle
					for {
						if _, err := b.Write([]byte{1}); err != nil {
							return
						}
						select {
						case <-time.After(tt.pause):
						case <-stop:
							return
						}
					}
				}()
				buf := make([]byte, 10)
				if _, err := c.Read(buf); err != nil {
					t.Fatalf("idle: %v", err)
				}
				begin := time.Now()
				var err error
				for err == nil {
					_, err = c.Read(buf)
				}
				if took := time.Since(begin); took != tt.ends {
					t.Errorf("ended after %v, want %v", took, tt.ends)
				}
				if _, err := b.Write([]byte{1}); err == nil {
					t.Error("still open")
				}
				close(stop)
			})
		})
	}
}

// A member behind the same bind address as another is another candidate all the same:
// raft is told the advertised addresses. (All listeners of memNetwork have one.)
func TestAdvertisedAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 3)
		e.start(1, 2, 3)
		lead := e.leader(1, 2, 3)
		for _, id := range []uint32{1, 2, 3} {
			addr, _ := e.members[id].node.raft.Load().LeaderWithID()
			if string(addr) != e.peers[lead-1].Addr {
				t.Errorf("member %d: leader %d is at %q", id, lead, addr)
			}
		}
		vote, err := e.members[lead].stores.Stable.Get([]byte("LastVoteCand"))
		if err != nil || string(vote) != e.peers[lead-1].Addr {
			t.Errorf("the leader voted for %q, %v", vote, err)
		}
	})
}

// A snapshot takes the place of one of its own or an earlier term, unless that is whole.
func TestReceipts(t *testing.T) {
	var s receipts
	first := s.begin(5)
	if s.begin(4) != nil {
		t.Error("replaced by one of an earlier term")
	}
	second := s.begin(5)
	if second == nil || s.complete(first) {
		t.Error("not replaced by its own leader's next one")
	}
	s.end(first)
	third := s.begin(6)
	if third == nil || s.complete(second) {
		t.Error("not replaced by a later leader's")
	}
	if !s.complete(third) || s.begin(7) != nil {
		t.Error("replaced while raft is given it")
	}
	s.end(third)
	if s.begin(1) == nil {
		t.Error("its place is not free")
	}
}
