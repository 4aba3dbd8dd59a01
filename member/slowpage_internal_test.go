package member

import (
	"testing"
	"time"

	"rollcall/internal/stages"
	"rollcall/proto"
)

// A page of slow requests without rows is empty. The limit comes from another member, and 0 stopped the process.
func TestPageOfNoSlowRequests(t *testing.T) {
	s := &slowRequests{recorder: stages.New(stages.Thresholds{}, time.Now)}
	now := s.recorder.Now()
	s.recorder.Keep(&stages.Request{Received: now, Queued: now + 1})
	if r := s.slowRows(&proto.ViewSlow{}); len(r.Rows) != 0 || r.Next != 0 {
		t.Errorf("%+v", r)
	}
}
