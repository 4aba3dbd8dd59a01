package follower

import (
	"testing"
	"time"

	"rollcall/proto"
	"rollcall/znode"
)

// An answer to a ping has the marks, with their version, and the wall clock. A proof has neither.
func TestPongHasMarks(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		r.raftTerm.Store(1)
		r.state.marks = []znode.Mark{{Index: 3, Digest: 33}, {Index: 7, Digest: 77}}
		s := r.pings(1, 11)
		s.ping(&proto.Ping{Number: 1})
		pong := s.pong(0)
		if want := time.Now().UnixMilli(); pong.ClockMs != want {
			t.Errorf("clock %d, want %d", pong.ClockMs, want)
		}
		m := pong.Marks
		if m == nil || m.Version != znode.DigestVersion || len(m.Indexes) != 2 || m.Indexes[1] != 7 || len(m.Digests) != 2 || m.Digests[1] != 77 {
			t.Errorf("marks %v", m)
		}
		s.ping(&proto.Ping{Proof: 1})
		if pong := s.pong(0); pong.Marks != nil || pong.ClockMs != 0 {
			t.Errorf("a proof with %v", pong)
		}
		s.hangUp()
	})
}

// hangUp ends the stream, and waits for its end.
func (s *fakePings) hangUp() {
	s.cancel()
	err := <-s.ended
	s.t.Logf("the stream ended: %v", err)
}
