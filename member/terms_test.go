package member_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/cluster"
	"rollcall/member"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// When a term ends and raft still leads, the next one opens in the same term of raft. That may
// happen any number of times: clients see a pause, and each of their writes is there once.
func TestTermsWithinOneOfRaft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const writes = 60
		e := cluster.Start(t, 3, cluster.Options{Write: 200 * time.Microsecond})
		leader := e.Ready()
		term := raftTerm(e, leader)
		var clients []*cluster.Client
		for _, id := range e.IDs() {
			clients = append(clients, e.Connect(4*time.Second, id))
		}
		done := make(chan error, len(clients))
		for i, c := range clients {
			go func() {
				for n := range writes {
					time.Sleep(23 * time.Millisecond)
					if _, err := c.Create(fmt.Sprintf("/n-%d-%d", i, n), nil, jute.Ephemeral); err != nil {
						done <- fmt.Errorf("client %d, write %d: %w", i, n, err)
						return
					}
				}
				done <- nil
			}()
		}
		ended := 0
		for left := len(clients); left > 0; {
			select {
			case err := <-done:
				if left--; err != nil {
					t.Error(err)
				}
			case <-time.After(101 * time.Millisecond):
				e.Member(leader).EndTerm()
				ended++
			}
		}
		if ended < 5 || raftTerm(e, leader) != term {
			t.Errorf("%d terms ended, raft's went from %d to %d: this test has shown nothing", ended, term, raftTerm(e, leader))
		}
		for i, c := range clients {
			if c.Disconnects() != 0 || c.Err() != nil {
				t.Errorf("client %d: %d disconnects, %v", i, c.Disconnects(), c.Err())
			}
		}
		e.Equal()
		s := e.Member(leader).State()
		s.RLock()
		defer s.RUnlock()
		if got := s.TreeView().EphemeralCount(); got != writes*len(clients) {
			t.Errorf("%d nodes, want %d", got, writes*len(clients))
		}
	})
}

// A term that hangs in the log is over on its member before that member's next one opens, even if raft has lost and regained
// leadership meanwhile: two terms would write at the same time.
func TestTermsDoNotOverlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := cluster.Start(t, 3, cluster.Options{})
		leader := e.Ready()
		e.Joined()
		other := e.Followers()[0]
		c := e.Connect(20*time.Second, other)
		e.Gate(leader).Hold()
		written := make(chan error, 1)
		go func() {
			_, err := c.Create("/n", nil, jute.Persistent)
			written <- err
		}()
		e.Wait("the write to hang", time.Minute, func() bool { return e.Gate(leader).Waiting() == 1 })
		first := termOf(e, other)
		for _, pair := range [][2]uint32{{leader, other}, {other, leader}} {
			e.Wait("the former term", time.Minute, func() bool { return e.Member(pair[0]).Leading() })
			if err := e.Member(pair[0]).HandOverTo(t.Context(), pair[1]); err != nil {
				t.Fatalf("hand over from %d to %d: %v", pair[0], pair[1], err)
			}
			e.Wait("the next leader", time.Minute, func() bool { return e.Member(pair[1]).Leading() })
		}
		time.Sleep(2 * time.Second)
		if now := termOf(e, other); !e.Member(leader).Leading() || now.Leader == leader && now != first {
			t.Errorf("raft leads on member %d: %t; its term %+v has opened while %+v hangs there", leader, e.Member(leader).Leading(), now, first)
		}
		e.Gate(leader).Release()
		if err := <-written; err != nil {
			t.Errorf("the write: %v", err)
		}
		e.Equal()
	})
}

// If stallLoop is slow to end a term, and the disk continues and the next term opens meanwhile, the
// next term is left alone.
func TestLateStallSparesTheNextTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := cluster.Start(t, 3, cluster.Options{})
		leader := e.Ready()
		c := e.Connect(10*time.Second, leader)
		e.Member(leader).StallSlowly(func() { time.Sleep(time.Second) })
		if role := e.Member(leader).Role(); role != "leader" {
			t.Fatalf("the next term has opened, and the member says it is a %q", role)
		}
		if _, err := c.Create("/n", nil, jute.Persistent); err != nil || c.Disconnects() > 0 {
			t.Errorf("a write in the next term: %v, %d disconnects", err, c.Disconnects())
		}
	})
}

// An entry has the highest format that all announced members know.
func TestFormat(t *testing.T) {
	for lowest, want := range map[uint32]uint32{0: znode.FormatLevel, znode.FormatLevel: znode.FormatLevel, znode.FormatLevel + 1: znode.FormatLevel} {
		if got := member.FormatOf(lowest); got != want {
			t.Errorf("lowest %d: format %d, want %d", lowest, got, want)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		e := cluster.Start(t, 3, cluster.Options{})
		e.Ready()
		e.Equal()
		for _, id := range e.IDs() {
			if got := e.Member(id).MinFormat(); got != znode.FormatLevel {
				t.Errorf("member %d knows of format %d", id, got)
			}
		}
	})
}

func raftTerm(e *cluster.Ensemble, at uint32) uint64 { return termOf(e, at).Term }

// termOf returns the newest term that a member has applied.
func termOf(e *cluster.Ensemble, at uint32) znode.Term {
	s := e.Member(at).State()
	s.RLock()
	defer s.RUnlock()
	return s.Term()
}
