package follower

import (
	"slices"
	"testing"

	"rollcall/proto"
)

// An acknowledgement that has been taken to be carried out does not change when another one is
// merged into it. It is read without a lock.
func TestMergeLeavesWhatWasTaken(t *testing.T) {
	for _, more := range [][]int64{nil, {0}, {4, 1}} {
		a := ack{through: 1, refusedSessions: append(make([]int64, 0, 16), 3, 1, 2)}
		taken := a
		a.merge(ack{through: 2, refusedSessions: more})
		if want := []int64{3, 1, 2}; !slices.Equal(taken.refusedSessions, want) {
			t.Errorf("merged with %v, what was taken is %v, want %v", more, taken.refusedSessions, want)
		}
		want := slices.Compact(slices.Sorted(slices.Values(append([]int64{1, 2, 3}, more...))))
		if !slices.Equal(a.refusedSessions, want) {
			t.Errorf("merged with %v: %v, want %v", more, a.refusedSessions, want)
		}
	}
}

// Rejected sessions are processed once, before the commit that the acknowledgement waits for. Acknowledgements of a new
// leader replace its predecessor's. An acknowledgement for another incarnation does not count.
func TestAckQueue(t *testing.T) {
	q := newAckQueue(ourBoot)
	add := func(nonce, boot, through, commit uint64, refused ...int64) {
		if err := q.queueAckFrom(&proto.Ping{Nonce: nonce, Ack: &proto.Ack{Incarnation: boot, Through: through, Commit: commit, Refused: refused}}); err != nil {
			t.Error(err)
		}
	}
	add(1, ourBoot+1, 9, 1)
	add(1, ourBoot, 1, 10, 8)
	add(2, ourBoot, 2, 20, 9)
	if _, ok := q.takeRefusals(1); ok {
		t.Error("refusals of the leader before")
	}
	if a, ok := q.takeRefusals(2); !ok || !slices.Equal(a.refusedSessions, []int64{9}) {
		t.Errorf("refusals %v, want those of the present leader", a.refusedSessions)
	}
	if _, ok := q.takeRefusals(2); ok {
		t.Error("refusals are taken twice")
	}
	if a, ok := q.takeDue(19); ok {
		t.Errorf("due before its commit: %+v", a)
	}
	<-q.work
	for index := uint64(19); index <= 20; index++ {
		q.signalIfDue(index)
		if got, want := len(q.work) == 1, index == 20; got != want {
			t.Errorf("signalled at index %d: %t", index, got)
		}
	}
	if a, ok := q.takeDue(20); !ok || a.through != 2 || !a.refusalsCut {
		t.Errorf("due at its commit: %+v, %t", a, ok)
	}
	if _, ok := q.takeDue(20); ok {
		t.Error("due twice")
	}
}

// The parts of one acknowledgement carry a bounded number of rejected sessions: a leader could otherwise fill the
// member's memory.
func TestEndlessRefusals(t *testing.T) {
	const boot, inPart = 7, 1 << 17
	q := newAckQueue(boot)
	parts := 0
	for next := int64(1); parts <= 2*maxRefusals/inPart; parts++ {
		part := &proto.Ping{Nonce: 1, Ack: &proto.Ack{Incarnation: boot, Refused: make([]int64, inPart)}}
		for i := range part.Ack.Refused {
			part.Ack.Refused[i] = next
			next++
		}
		if err := q.queueAckFrom(part); err != nil {
			break
		}
	}
	if parts != maxRefusals/inPart {
		t.Errorf("%d parts of %d refused sessions are taken, want %d", parts, inPart, maxRefusals/inPart)
	}
}
