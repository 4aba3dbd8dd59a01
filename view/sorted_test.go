package view

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/jute"
	"rollcall/proto"
)

// The first sessions of an order are those of all sessions, also if these are many pages, with all that is known of them.
func TestSessionsBy(t *testing.T) {
	for _, tt := range []struct {
		name     string
		sessions int
		by       Order
		filter   Filter
		want     []jute.SessionID
	}{
		{"least time left", 350, ByLeft, Filter{}, []jute.SessionID{350, 349, 348, 347, 346}},
		{"most watches", 2500, ByWatches, Filter{}, []jute.SessionID{2499, 2498, 2497, 2495, 2494}}, // every fourth has no connection
		{"most ephemeral nodes", 2500, ByEphemerals, Filter{}, []jute.SessionID{2500, 2499, 2498, 2497, 2496}},
		{"of a member", 2500, ByEphemerals, Filter{Member: 3}, []jute.SessionID{2499, 2496, 2493, 2490, 2487}},
		{"in a state", 2500, ByEphemerals, Filter{State: Disconnected}, []jute.SessionID{2500, 2496, 2492, 2488, 2484}},
		{"equal ones by id", 350, ByWatches, Filter{State: Disconnected}, []jute.SessionID{4, 8, 12, 16, 20}},
		{"one", 350, ByLeft, Filter{ID: 7}, []jute.SessionID{7}},
		{"fewer than a page", 2, ByLeft, Filter{}, []jute.SessionID{2, 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake(t, 3)
			f.open(tt.sessions)
			a, err := f.SessionsBy(t.Context(), tt.filter, tt.by, Page{Limit: 5})
			if err != nil || len(a.Silent) > 0 || a.Next != "" {
				t.Fatalf("%+v, %q, %v", a.Silent, a.Next, err)
			}
			if got := ids(a.Rows); !slices.Equal(got, tt.want) {
				t.Errorf("%v, want %v", got, tt.want)
			}
			for _, s := range a.Rows {
				if (s.Connection != nil) != (s.ID%4 != 0) || !s.Timed {
					t.Errorf("%+v lacks what the members know", s)
				}
			}
		})
	}
}

// Without the leader, nobody knows how much time sessions have left: they come by their ids, and the leader is named. It is
// waited for once.
func TestSessionsByOfSilentLeader(t *testing.T) {
	f := newFake(t, 3)
	f.open(2500)
	f.peers[2].answer = func(context.Context, *proto.ViewRequest) (*proto.ViewReply, error) { return nil, errors.New("refused") }
	a, err := f.SessionsBy(t.Context(), Filter{}, ByLeft, Page{Limit: 3})
	if err != nil || len(a.Silent) != 1 || a.Silent[0].Member != 2 || !slices.Equal(ids(a.Rows), []jute.SessionID{1, 2, 3}) {
		t.Errorf("%v, silent %+v, %v", ids(a.Rows), a.Silent, err)
	}
	if n := len(f.peers[2].requests()); n != 1 {
		t.Errorf("the leader was asked %d times", n)
	}
}

// If there are too many sessions for the deadline, that is an error. There is no second page.
func TestSessionsByTooMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, 3)
		f.open(5000)
		truth := f.peers[1].answer
		f.peers[1].answer = func(ctx context.Context, r *proto.ViewRequest) (*proto.ViewReply, error) {
			time.Sleep(deadline * 3 / 10)
			return truth(ctx, r)
		}
		a, err := f.SessionsBy(t.Context(), Filter{}, ByEphemerals, Page{})
		if err == nil || !strings.Contains(err.Error(), "too many sessions to sort: 3000 of them took") || len(a.Rows) > 0 {
			t.Errorf("%d rows, %v", len(a.Rows), err)
		}
		if _, err := f.SessionsBy(t.Context(), Filter{}, ByLeft, Page{From: "x"}); !errors.Is(err, ErrCursor) {
			t.Errorf("a second page: %v", err)
		}
		if _, err := f.SessionsBy(t.Context(), Filter{}, ByLeft, Page{Limit: MaxRows + 1}); err == nil {
			t.Error("a page of any length")
		}
	})
}
