package follower

import (
	"testing"
	"time"

	"rollcall/proto"
)

// Numbers count up from 1. After a rewind, what is not applied is sent again, in the same order.
func TestInFlight(t *testing.T) {
	f := inFlight{maxWrites: 3, maxBytes: 100}
	push := func(size, weight int) {
		f.pushNumbered(queuedWrite{txn: &proto.Txn{}, cost: cost{size: size, weight: weight}}, time.Time{})
	}
	sends := func(what string, want ...uint64) {
		t.Helper()
		for _, seq := range want {
			if r := f.takeUnsent(); r == nil || r.txn.Seq != seq {
				t.Fatalf("%s: sends %v, want number %d", what, r, seq)
			}
		}
		if r := f.takeUnsent(); r != nil {
			t.Fatalf("%s: sends number %d, want none", what, r.txn.Seq)
		}
	}
	sends("empty")
	push(10, 1)
	push(10, maxHeavy)
	if n := f.sendableClasses(time.Time{}); n != 1 || f.isFull() {
		t.Errorf("%d classes beside the heaviest writes, want the light ones; full: %t", n, f.isFull())
	}
	push(10, 1)
	if !f.isFull() {
		t.Error("not full with the most writes")
	}
	sends("all", 1, 2, 3)
	if f.isOldest(2) || !f.isOldest(1) {
		t.Error("the oldest is not number 1")
	}
	f.popOldest()
	f.rewind()
	sends("again", 2, 3)
	f.rewind()
	f.popOldest()
	f.popOldest()
	sends("all are applied")
	if f.totalBytes != 0 || f.heavyWeight != 0 || f.isFull() || f.isOldest(4) {
		t.Errorf("left: %d bytes, %d heavy", f.totalBytes, f.heavyWeight)
	}
	push(100, 1)
	if !f.isFull() || f.lastNumber != 4 {
		t.Errorf("number %d, full: %t with the most bytes", f.lastNumber, f.isFull())
	}
}

// Heavy writes have half of the bytes. A place is freed, with its write counted, when there is room.
func TestCapacity(t *testing.T) {
	c := capacity{maxWrites: 10, maxBytes: 100}
	light, heavy := cost{size: 10, weight: 1}, cost{size: 50, weight: lightWeight + 1}
	c.addWrite(heavy)
	if !c.isFull(true) || c.isFull(false) {
		t.Errorf("with half of the bytes heavy: full for heavy ones %t, for light ones %t", c.isFull(true), c.isFull(false))
	}
	first := c.enqueueBlocked(heavy, nil).Value.(*blockedSubmit)
	for range 5 {
		c.addWrite(light)
	}
	second := c.enqueueBlocked(light, nil).Value.(*blockedSubmit)
	c.admitWhileRoom()
	if first.isAdmitted || second.isAdmitted {
		t.Error("admitted without room")
	}
	c.removeWrite(light)
	c.admitWhileRoom()
	if first.isAdmitted || !second.isAdmitted || c.queuedBytes != 100 {
		t.Errorf("admitted: heavy %t, light %t; %d bytes", first.isAdmitted, second.isAdmitted, c.queuedBytes)
	}
	c.removeWrite(heavy)
	c.admitWhileRoom()
	if !first.isAdmitted || c.queuedBytes != 100 || c.heavyBytes != 50 || c.queuedWrites != 6 {
		t.Errorf("the heavy one admitted: %t; %+v", first.isAdmitted, c)
	}
}

// Only a change of leader while writes wait makes a gap.
func TestWriteStall(t *testing.T) {
	var s writeStall
	now := time.Now()
	s.restartTimer(now)
	s.leaderChanged = true
	s.endIfWritesApplied(now.Add(time.Second)) // without a write
	for range 2 {
		s.writesApplied = true
		s.endIfWritesApplied(now.Add(2 * time.Second))
	}
	wantSum(t, "one gap", s.gaps.Buckets(), 1, 2*time.Second)
}
