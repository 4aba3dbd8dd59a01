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
		f.push(request{txn: &proto.Txn{}, cost: cost{size: size, weight: weight}}, time.Time{})
	}
	sends := func(what string, want ...uint64) {
		t.Helper()
		for _, seq := range want {
			if r := f.next(); r == nil || r.txn.Seq != seq {
				t.Fatalf("%s: sends %v, want number %d", what, r, seq)
			}
		}
		if r := f.next(); r != nil {
			t.Fatalf("%s: sends number %d, want none", what, r.txn.Seq)
		}
	}
	sends("empty")
	push(10, 1)
	push(10, maxHeavy)
	if n := f.sendable(time.Time{}); n != 1 || f.full() {
		t.Errorf("%d classes beside the heaviest writes, want the light ones; full: %t", n, f.full())
	}
	push(10, 1)
	if !f.full() {
		t.Error("not full with the most writes")
	}
	sends("all", 1, 2, 3)
	if f.has(2) || !f.has(1) {
		t.Error("the oldest is not number 1")
	}
	f.pop()
	f.rewind()
	sends("again", 2, 3)
	f.rewind()
	f.pop()
	f.pop()
	sends("all are applied")
	if f.bytes != 0 || f.heavy != 0 || f.full() || f.has(4) {
		t.Errorf("left: %d bytes, %d heavy", f.bytes, f.heavy)
	}
	push(100, 1)
	if !f.full() || f.last != 4 {
		t.Errorf("number %d, full: %t with the most bytes", f.last, f.full())
	}
}

// Heavy writes have half of the bytes. A place is freed, with its write counted, when there is room.
func TestCapacity(t *testing.T) {
	c := capacity{maxWrites: 10, maxBytes: 100}
	light, heavy := cost{size: 10, weight: 1}, cost{size: 50, weight: lightWeight + 1}
	c.add(heavy)
	if !c.full(true) || c.full(false) {
		t.Errorf("with half of the bytes heavy: full for heavy ones %t, for light ones %t", c.full(true), c.full(false))
	}
	first := c.block(heavy, nil).Value.(*place)
	for range 5 {
		c.add(light)
	}
	second := c.block(light, nil).Value.(*place)
	c.admit()
	if first.freed || second.freed {
		t.Error("admitted without room")
	}
	c.remove(light)
	c.admit()
	if first.freed || !second.freed || c.bytes != 100 {
		t.Errorf("admitted: heavy %t, light %t; %d bytes", first.freed, second.freed, c.bytes)
	}
	c.remove(heavy)
	c.admit()
	if !first.freed || c.bytes != 100 || c.heavyBytes != 50 || c.writes != 6 {
		t.Errorf("the heavy one admitted: %t; %+v", first.freed, c)
	}
}

// Only a change of leader while writes wait makes a gap.
func TestWriteStall(t *testing.T) {
	var s writeStall
	now := time.Now()
	s.begin(now)
	s.changed = true
	s.entryApplied(now.Add(time.Second)) // without a write
	for range 2 {
		s.progress = true
		s.entryApplied(now.Add(2 * time.Second))
	}
	wantSum(t, "one gap", s.gaps.Buckets(), 1, 2*time.Second)
}
