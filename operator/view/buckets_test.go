package view

import (
	"context"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/operator/api"
	"rollcall/proto"
)

// The leader alone is asked for the buckets. If there is none, or the one that is asked no longer leads, there are
// none; if it does not answer, it is named.
func TestBuckets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, 3)
		rows := &proto.BucketRows{Leads: true, TickMs: 2000, ClockMs: 7000, Later: 9, Rows: []*proto.BucketRow{{DueMs: math.MinInt64 + 1, Sessions: 1}, {DueMs: -5, Sessions: 2}, {DueMs: math.MaxInt64, Sessions: 3}}}
		f.peers[2].answer = func(_ context.Context, r *proto.ViewRequest) (*proto.ViewReply, error) {
			if r.GetBuckets().GetLimit() != MaxRows {
				t.Errorf("asked for %v", r)
			}
			return &proto.ViewReply{About: &proto.ViewReply_Buckets{Buckets: rows}}, nil
		}
		want := []api.Bucket{{DueMs: -maxShownTime.Milliseconds(), Sessions: 1}, {DueMs: -5, Sessions: 2}, {DueMs: maxShownTime.Milliseconds(), Sessions: 3}}
		b, err := f.ExpiryBuckets(t.Context())
		if err != nil || !slices.Equal(b.Buckets, want) || b.LeaderID != 2 || b.TickMs != 2000 || !b.At.Equal(time.UnixMilli(7000)) || b.LaterSessions != 9 || len(b.Silent) > 0 {
			t.Errorf("%+v, %v", b, err)
		}
		rows.Leads = false
		if b, err := f.ExpiryBuckets(t.Context()); err != nil || b.LeaderID != 0 || len(b.Buckets) > 0 || len(b.Silent) > 0 {
			t.Errorf("of one that does not lead: %+v, %v", b, err)
		}
		f.peers[2].answer = late
		if b, err := f.ExpiryBuckets(t.Context()); err != nil || b.LeaderID != 2 || len(b.Silent) != 1 || b.Silent[0].Reason != ReasonLate {
			t.Errorf("of one that is silent: %+v, %v", b, err)
		}
		f.leader = 0
		if b, err := f.ExpiryBuckets(t.Context()); err != nil || b.LeaderID != 0 || len(b.Silent) > 0 {
			t.Errorf("without a leader: %+v, %v", b, err)
		}
		if len(f.peers[1].requests())+len(f.peers[3].requests()) > 0 {
			t.Error("other members were asked")
		}
	})
}
