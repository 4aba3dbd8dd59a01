package quorum

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"rollcall/quorum/disk"
	"rollcall/quorum/wire"
)

// stallLog hangs in every write until a certain moment. It sleeps before it enters the store,
// because a goroutine that waits for a lock held by a sleeping one would stop the bubble's clock.
type stallLog struct {
	*raft.InmemStore
	until atomic.Int64 // nanoseconds since 1970
}

func (s *stallLog) stall(d time.Duration) { s.until.Store(time.Now().Add(d).UnixNano()) }

func (s *stallLog) StoreLogs(logs []*raft.Log) error {
	time.Sleep(time.Until(time.Unix(0, s.until.Load())))
	return s.InmemStore.StoreLogs(logs)
}

// stallMachine hangs in Apply.
type stallMachine struct {
	StateMachine
	until    atomic.Int64
	verified atomic.Bool // Verify has read a snapshot
}

func (s *stallMachine) ReadLease() (lease time.Duration, index uint64) { return 0, math.MaxUint64 - 1 }

func (s *stallMachine) OwnReadLease() time.Duration { return 0 }

func (s *stallMachine) ReadLeaseOf([]byte) (time.Duration, bool) { return 0, false }

func (s *stallMachine) Verify(r io.Reader) (disk.SnapshotContents, error) {
	defer s.verified.Store(true)
	return s.StateMachine.Verify(r)
}

func (s *stallMachine) Apply(batch []CommittedEntry) error {
	time.Sleep(time.Until(time.Unix(0, s.until.Load())))
	return s.StateMachine.Apply(batch)
}

// stalls makes an ensemble with logs and machines that can hang.
func stalls(t *testing.T, adjust func(*Config)) (*ensemble, map[uint32]*stallLog, map[uint32]*stallMachine) {
	return stallsOf(t, 3, adjust)
}

// stallsOf does the same with so many members.
func stallsOf(t *testing.T, members int, adjust func(*Config)) (*ensemble, map[uint32]*stallLog, map[uint32]*stallMachine) {
	e := newEnsemble(t, members)
	logs, machines := map[uint32]*stallLog{}, map[uint32]*stallMachine{}
	for id, m := range e.members {
		logs[id] = &stallLog{InmemStore: m.stores.Log.(*raft.InmemStore)}
		m.stores.Log = logs[id]
		m.adjust = func(c *Config) {
			machines[id] = &stallMachine{StateMachine: c.StateMachine}
			c.StateMachine = machines[id]
			adjust(c)
		}
	}
	e.begin()
	return e, logs, machines
}

// hangs reports whether err says that something hangs.
func hangs(err error) bool {
	return err != nil && strings.Contains(err.Error(), "a store or the state machine hangs")
}

// If a leader's machine hangs, or its log while raft waits for it to store a configuration, the leader is replaced within 5 seconds,
// but not before the limit. When it responds again it is a follower that has lost nothing and can lead.
func TestStalledLeaderIsReplaced(t *testing.T) {
	t.Parallel()
	for _, where := range []string{"log", "machine"} {
		t.Run(where, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, logs, machines := stalls(t, func(*Config) {})
				old := e.leader(1, 2, 3)
				rest := others(old)
				const long = 30 * time.Second
				if where == "log" {
					logs[old].stall(long)
					newcomer := wire.Peer{ID: 9, DiskID: 9, Addr: "m9:3888"}
					e.members[old].node.status.raft.Load().AddNonvoter(newcomer.ServerID(), newcomer.ServerAddress(), 0, 0)
				} else {
					machines[old].until.Store(time.Now().Add(long).UnixNano())
				}
				begin := time.Now()
				go e.members[old].node.Propose([]byte("hangs"), nil)
				time.Sleep(testStallLimit - time.Millisecond)
				if e.leader(rest[0], old) != old || e.members[old].node.StallError() != nil {
					t.Fatal("replaced before the limit")
				}
				next := e.leader(rest...)
				e.propose("b", rest...)
				if took := time.Since(begin); took > 5*time.Second {
					t.Errorf("member %d leads after %v", next, took)
				}
				if err := e.members[old].node.StallError(); !hangs(err) ||
					!strings.Contains(fmt.Sprint(err), "log") && !strings.Contains(fmt.Sprint(err), "applying") {
					t.Errorf("Stalled: %v", err)
				}
				peer := e.peers[next-1]
				err := e.members[old].node.transport.RequestPreVote(peer.ServerID(), raft.ServerAddress(peer.Addr), &raft.RequestPreVoteRequest{}, &raft.RequestPreVoteResponse{})
				if !hangs(err) {
					t.Errorf("asks for votes: %v", err)
				}
				time.Sleep(10 * time.Second)
				if e.members[old].node.status.IsLeader() && where == "machine" || e.leader(rest...) != next {
					t.Error("it leads again while it hangs")
				}
				time.Sleep(long)
				if err := e.members[old].node.StallError(); err != nil {
					t.Errorf("Stalled, after it woke: %v", err)
				}
				e.propose("c", 1, 2, 3)
				e.wait("all to have applied the same", func() bool {
					a, b, c := e.members[1].machine.commands(), e.members[2].machine.commands(), e.members[3].machine.commands()
					return slices.Equal(a, b) && slices.Equal(b, c) && a[len(a)-1] == "c"
				})
				lead := e.leader(1, 2, 3)
				for _, id := range rest {
					if id != lead {
						e.kill(id)
						break
					}
				}
				e.propose("d", e.running()...) // its word counts
			})
		})
	}
}

// A follower's log hangs for half a minute. After that, the leader that the follower had catches it
// up.
func TestStalledFollowerCatchesUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, logs, _ := stalls(t, func(*Config) {})
		lead := e.leader(1, 2, 3)
		late := others(lead)[0]
		term := e.members[lead].node.status.Term()
		logs[late].stall(30 * time.Second)
		all := []string{"a"}
		for i := range 60 {
			all = append(all, fmt.Sprint(i))
			e.propose(all[len(all)-1], lead)
			time.Sleep(500 * time.Millisecond)
		}
		begin := time.Now()
		e.awaitApplied(all, 1, 2, 3)
		if took := time.Since(begin); took > 10*time.Second {
			t.Errorf("caught up %v after it woke", took)
		}
		if e.leader(1, 2, 3) != lead || e.members[lead].node.status.Term() != term {
			t.Error("another term: the leader was not to be disturbed")
		}
	})
}

// A snapshot arrives while a follower's state machine hangs. Its leader gives up waiting for the reply, twice. When the
// machine responds again, the member is caught up. If it has taken the snapshot for a second one, that happens after a
// restart.
func TestSnapshotForAStalledMachine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, _, machines := stalls(t, func(c *Config) { c.SnapshotEvery, c.TrailingBytes = 20, 1 })
		lead := e.leader(1, 2, 3)
		late, other := others(lead)[0], others(lead)[1]
		e.wait("all to take part", func() bool { return !e.members[late].node.IsJoining() && !e.members[other].node.IsJoining() })
		machines[late].until.Store(time.Now().Add(time.Minute).UnixNano())
		all := []string{"a", "hangs"}
		e.propose("hangs", lead, other)
		time.Sleep(time.Second)
		e.net.partition(lead, late)
		e.net.partition(other, late)
		for i := range 3 * minTrailing {
			all = append(all, fmt.Sprint(i))
			e.propose(all[len(all)-1], lead, other)
		}
		e.awaitCompacted(3, lead, other)
		e.net.heal()
		e.wait("the snapshot to have been read", func() bool { return machines[late].verified.Load() })
		synctest.Wait() // and to be with raft
		if e.members[late].node.StallError() == nil {
			t.Error("the machine does not hang any more: this test shows nothing")
		}
		term := e.members[lead].node.status.Term()
		time.Sleep(time.Until(time.Unix(0, machines[late].until.Load())) + time.Second)
		if err := e.members[late].node.failure.endError(); err != nil {
			if err := e.awaitEnd(late); !errors.Is(err, wire.ErrRestart) {
				t.Fatalf("Run: %v", err)
			}
			e.start(late)
		}
		e.awaitApplied(all, 1, 2, 3)
		if e.leader(1, 2, 3) != lead || e.members[lead].node.status.Term() != term {
			t.Error("another term: the leader was not to be disturbed")
		}
	})
}

// A member that runs alone continues when its disk does.
func TestStalledAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 1)
		log := &stallLog{InmemStore: e.members[1].stores.Log.(*raft.InmemStore)}
		e.members[1].stores.Log = log
		e.start(1)
		e.propose("a", 1)
		log.stall(10 * time.Second)
		p := e.members[1].node.Propose([]byte("b"), nil)
		time.Sleep(testStallLimit + time.Millisecond)
		if e.members[1].node.StallError() == nil {
			t.Error("not stalled")
		}
		if err := p.Error(); err != nil {
			t.Errorf("b: %v", err)
		}
		if err := e.members[1].node.StallError(); err != nil {
			t.Errorf("still stalled: %v", err)
		}
		e.awaitApplied([]string{"a", "b"}, 1)
	})
}
