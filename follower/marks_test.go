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

// A verdict counts if it is about the present state, and not from a leader whose term is over.
func TestVerdict(t *testing.T) {
	tests := []struct {
		name  string
		v     *proto.Verdict
		term  uint64
		taken bool
	}{
		{"of a mark that is here", &proto.Verdict{Index: 7, Own: 77, Theirs: 1, Agree: 2, Members: 3}, 2, true},
		{"of another digest there", &proto.Verdict{Index: 7, Own: 78, Theirs: 1}, 2, false},
		{"of an index that is not marked", &proto.Verdict{Index: 8, Own: 77, Theirs: 1}, 2, false},
		{"of no difference", &proto.Verdict{Index: 7, Own: 77, Theirs: 77}, 2, false},
		{"none", nil, 2, false},
		{"from an old leader", &proto.Verdict{Index: 7, Own: 77, Theirs: 1}, 1, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, nil, func(t *testing.T, r *rig) {
				r.raftTerm.Store(2)
				r.state.marks = []znode.Mark{{Index: 3, Digest: 33}, {Index: 7, Digest: 77}}
				s := r.pings(tt.term, 11)
				s.ping(&proto.Ping{Number: 1, Verdict: tt.v})
				s.hangUp()
				r.mu.Lock()
				defer r.mu.Unlock()
				const why = "after log entry 7 this member's state has the digest 000000000000004d, that of 2 of 3 members has 0000000000000001"
				if got := len(r.damages) > 0; got != tt.taken || got && r.damages[0] != why {
					t.Errorf("taken %t, want %t: %q", got, tt.taken, r.damages)
				}
			})
		})
	}
}
