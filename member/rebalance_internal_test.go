package member

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"rollcall/api"
	"rollcall/proto"
	"rollcall/view"
)

// A member moves no clients by itself without autoRebalance, closes connections for one rebalance at a time, and keeps to the bounds of a request.
func TestRebalanceBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithTimeout(t.Context(), time.Hour)
		defer end()
		b := &rebalancer{m: new(Member)}
		if err := b.loop(ctx); err != nil || ctx.Err() != nil {
			t.Errorf("%v, and a loop without the key", err)
		}
		b.closing.Store(true)
		if _, err := b.close(ctx, 1, 0); status.Code(err) != codes.Aborted {
			t.Errorf("beside another rebalance: %v", err)
		}
	})
	for _, tt := range []struct {
		asked, overMs uint64
		n             int
		over          time.Duration
	}{{7, 5000, 7, 5 * time.Second}, {5001, 5000, 5000, 5 * time.Second}, {1 << 60, 1 << 60, 60_000, time.Minute}, {7, 0, 0, 0}} {
		if n, over := boundsOf(&proto.RebalanceRequest{Connections: tt.asked, OverMs: tt.overMs}); n != tt.n || over != tt.over {
			t.Errorf("%+v: %d over %v", tt, n, over)
		}
	}
}

// A member is over if it has clearly more clients than its share. Those that take no clients have no share.
func TestExcess(t *testing.T) {
	for _, tt := range []struct {
		clients      []int
		slack, least int
		want         string
	}{
		{[]int{300, 300, 0}, 5, 2, "[{1 100} {2 100}]"},
		{[]int{12, 0, 0}, 5, 2, "[{1 8}]"},
		{[]int{5, 4, 3}, 5, 2, "[]"},             // one more than the share
		{[]int{6, 3, 3}, 5, 2, "[{1 2}]"},        // two more
		{[]int{210, 195, 195}, 5, 2, "[]"},       // 5 % more
		{[]int{211, 195, 194}, 5, 2, "[{1 11}]"}, // more than that
		{[]int{18, 6, 6}, 20, 10, "[]"},
		{[]int{20, 6, 4}, 20, 10, "[{1 10}]"},
		{[]int{2, 1, 0}, 0, 1, "[{1 1}]"},
		{[]int{100}, 5, 2, "[]"},
		{nil, 5, 2, "[]"},
	} {
		var loads []load
		for i, n := range tt.clients {
			loads = append(loads, load{uint32(i + 1), n})
		}
		if got := fmt.Sprint(excess(loads, tt.slack, tt.least)); got != tt.want {
			t.Errorf("%v: %s, want %s", tt.clients, got, tt.want)
		}
	}
	serving := view.Status{Member: 1, Role: "observer", Clients: "a:1", Sessions: 7}
	rows := []view.Status{serving, {Member: 2, Clients: "a:1"}, {Member: 3, Role: api.ReadOnly, Clients: "a:1"}}
	for i, unfit := range []func(*view.Status){
		func(s *view.Status) { s.Clients = "" }, func(s *view.Status) { s.Drained = true }, func(s *view.Status) { s.Joining = true },
		func(s *view.Status) { s.Removed = true }, func(s *view.Status) { s.Stalled = "disk" }, func(s *view.Status) { s.Damaged = "entry 7" },
	} {
		row := serving
		row.Member = uint32(10 + i)
		unfit(&row)
		rows = append(rows, row)
	}
	if got := fmt.Sprint(loadsOf(rows)); got != "[{1 7}]" {
		t.Errorf("members that take clients: %s", got)
	}
}
