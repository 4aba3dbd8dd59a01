package member

import (
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/internal/stages"
	"rollcall/proto"
)

// The times of an entry come to another member as they were recorded, with every member's arrivals and acknowledgements.
func TestTimesOfEntriesAreSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowRequests{recorder: stages.New(stages.Thresholds{}, time.Now)}
		r, data, arrivals := s.recorder, []byte{1}, stages.Arrivals{}
		step := func() { time.Sleep(time.Millisecond) }
		for member := range uint32(stages.MaxMembers) {
			step()
			arrivals.Add(member+1, r.Now())
		}
		step()
		r.Sealed(data, &arrivals)
		step()
		r.Stored(9, data)
		step()
		r.Durable(9, 9)
		for member := range uint32(4) { // the followers of five voters
			step()
			r.Acked(member+2, 9, 9)
		}
		for _, note := range []func(uint64){r.CommitKnown, r.ApplyBegun, r.ApplyLocked, r.Applied} {
			step()
			note(9)
		}
		r.BeginCause(stages.Snapshot)
		step()
		r.EndCause(stages.Snapshot)
		step()
		want := r.Records([]uint64{9})
		if e := want.Entries[0]; e.Acks[3].Member == 0 || e.Arrivals[0].Member == 0 || e.Locked == 0 {
			t.Fatalf("recorded: %+v", e)
		}
		if got := recordsOf(s.timeRows(&proto.ViewTimes{Indexes: []uint64{9}})); !reflect.DeepEqual(got, want) {
			t.Errorf("sent: %+v; want %+v", got, want)
		}
	})
}

// A page of slow requests without rows is empty. The limit comes from another member, and 0 stopped the process.
func TestPageOfNoSlowRequests(t *testing.T) {
	s := &slowRequests{recorder: stages.New(stages.Thresholds{}, time.Now)}
	now := s.recorder.Now()
	s.recorder.Keep(&stages.Request{Received: now, Queued: now + 1})
	if r := s.slowRows(&proto.ViewSlow{}); len(r.Rows) != 0 || r.Next != 0 {
		t.Errorf("%+v", r)
	}
}
