package view

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/operator/api"
	"rollcall/proto"
	"rollcall/zk/jute"
)

// The first sessions of an order are those of all sessions, also if these are many pages, with all that is known of them.
func TestSessionsBy(t *testing.T) {
	for _, tt := range []struct {
		name     string
		sessions int
		by       SessionOrder
		filter   SessionFilter
		want     []jute.SessionID
	}{
		{"least time left", 350, ByTimeLeft, SessionFilter{}, []jute.SessionID{350, 349, 348, 347, 346}},
		{"most watches", 2500, ByWatches, SessionFilter{}, []jute.SessionID{2499, 2498, 2497, 2495, 2494}}, // every fourth has no connection
		{"most ephemeral nodes", 2500, ByEphemerals, SessionFilter{}, []jute.SessionID{2500, 2499, 2498, 2497, 2496}},
		{"of a member", 2500, ByEphemerals, SessionFilter{Member: 3}, []jute.SessionID{2499, 2496, 2493, 2490, 2487}},
		{"in a state", 2500, ByEphemerals, SessionFilter{State: StateDisconnected}, []jute.SessionID{2500, 2496, 2492, 2488, 2484}},
		{"equal ones by id", 350, ByWatches, SessionFilter{State: StateDisconnected}, []jute.SessionID{4, 8, 12, 16, 20}},
		{"one", 350, ByTimeLeft, SessionFilter{ID: 7}, []jute.SessionID{7}},
		{"fewer than a page", 2, ByTimeLeft, SessionFilter{}, []jute.SessionID{2, 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake(t, 3)
			f.open(tt.sessions)
			a, err := f.SessionsBy(t.Context(), tt.filter, tt.by, Page{Limit: 5})
			if err != nil || len(a.Silent) > 0 || a.NextCursor != "" {
				t.Fatalf("%+v, %q, %v", a.Silent, a.NextCursor, err)
			}
			if got := ids(a.Items); !slices.Equal(got, tt.want) {
				t.Errorf("%v, want %v", got, tt.want)
			}
			for _, s := range a.Items {
				if (s.Connection != nil) != (idOf(s)%4 != 0) || s.LeftMs == nil {
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
	a, err := f.SessionsBy(t.Context(), SessionFilter{}, ByTimeLeft, Page{Limit: 3})
	if err != nil || len(a.Silent) != 1 || a.Silent[0].MemberID != 2 || !slices.Equal(ids(a.Items), []jute.SessionID{1, 2, 3}) {
		t.Errorf("%v, silent %+v, %v", ids(a.Items), a.Silent, err)
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
		a, err := f.SessionsBy(t.Context(), SessionFilter{}, ByEphemerals, Page{})
		if err == nil || !strings.Contains(err.Error(), "too many sessions to sort: 3000 of them took") || len(a.Items) > 0 {
			t.Errorf("%d rows, %v", len(a.Items), err)
		}
		if _, err := f.SessionsBy(t.Context(), SessionFilter{}, ByTimeLeft, Page{Cursor: "x"}); !errors.Is(err, ErrBadCursor) {
			t.Errorf("a second page: %v", err)
		}
		if _, err := f.SessionsBy(t.Context(), SessionFilter{}, ByTimeLeft, Page{Limit: MaxRows + 1}); err == nil {
			t.Error("a page of any length")
		}
	})
}

// A member that hangs is waited for once, for a part of the deadline. The first sessions are those of the others, with what they say.
func TestSessionsByOfHangingMember(t *testing.T) {
	for _, tt := range []struct {
		by     SessionOrder
		member uint32
		want   []jute.SessionID
	}{
		{ByWatches, 3, []jute.SessionID{2498, 2497, 2495, 2494, 2491}}, // every third session is one of member 3
		{ByTimeLeft, 2, []jute.SessionID{1, 2, 3, 4, 5}},               // only the leader knows
	} {
		t.Run(tt.by.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(t, 3)
				f.open(2500)
				f.peers[tt.member].answer = late
				begun := time.Now()
				a, err := f.SessionsBy(t.Context(), SessionFilter{}, tt.by, Page{Limit: 5})
				if want := []api.Silence{lateSilenceAfter(tt.member, deadline/scanWaitDivisor)}; err != nil || !slices.Equal(a.Silent, want) {
					t.Fatalf("silent %+v, %v, want %+v", a.Silent, err, want)
				}
				if got := ids(a.Items); !slices.Equal(got, tt.want) {
					t.Errorf("%v, want %v", got, tt.want)
				}
				for _, s := range a.Items {
					if s.MemberID != tt.member && idOf(s)%4 != 0 && s.WatchCount != int(idOf(s)) {
						t.Errorf("%+v lacks its watches", s)
					}
				}
				if took, want := time.Since(begun), deadline/scanWaitDivisor+2*scanPause; took != want || len(f.peers[tt.member].requests()) != 1 {
					t.Errorf("took %v, want %v and one question", took, want)
				}
			})
		})
	}
}

// onSecond has a member call then when it is asked for facts the second time: about the rows of the page, if the scan had one part.
func (f *fake) onSecond(member uint32, then func(context.Context, *proto.ViewRequest) (*proto.ViewReply, error)) {
	truth, asked := f.peers[member].answer, 0
	f.peers[member].answer = func(ctx context.Context, r *proto.ViewRequest) (*proto.ViewReply, error) {
		if r.GetFacts() != nil {
			if asked++; asked == 2 {
				return then(ctx, r)
			}
		}
		return truth(ctx, r)
	}
}

// If a member answers while all sessions are looked at, and hangs after that, its rows keep what it has said.
func TestSessionsByKeepsAnswers(t *testing.T) {
	for _, tt := range []struct {
		by     SessionOrder
		member uint32
		want   []jute.SessionID
	}{
		{ByWatches, 3, []jute.SessionID{350, 349, 347, 346, 345}},
		{ByTimeLeft, 2, []jute.SessionID{350, 349, 348, 347, 346}},
	} {
		t.Run(tt.by.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(t, 3)
				f.open(350)
				f.onSecond(tt.member, late)
				a, err := f.SessionsBy(t.Context(), SessionFilter{}, tt.by, Page{Limit: 5})
				if err != nil || len(a.Silent) != 1 || a.Silent[0].MemberID != tt.member || !slices.Equal(ids(a.Items), tt.want) {
					t.Fatalf("%v, silent %+v, %v, want %v", ids(a.Items), a.Silent, err, tt.want)
				}
				for _, s := range a.Items {
					known := s.State == StateConnected && s.WatchCount == int(idOf(s)) && s.Connection != nil
					if tt.by == ByTimeLeft {
						known = s.LeftMs != nil && *s.LeftMs == 4000-10*int64(idOf(s))
					}
					if !known {
						t.Errorf("%+v lacks what its member has said", s)
					}
				}
			})
		})
	}
}

// A session whose connection ends while all sessions are looked at has no watches, and is no longer among those that are connected.
func TestSessionsByStateAtLast(t *testing.T) {
	for _, tt := range []struct {
		state string
		want  []jute.SessionID
	}{
		{"", []jute.SessionID{350, 347, 346, 345, 349}},
		{StateConnected, []jute.SessionID{350, 347, 346, 345}},
	} {
		f := newFake(t, 3)
		f.open(350)
		truth := f.peers[1].answer
		f.onSecond(1, func(ctx context.Context, r *proto.ViewRequest) (*proto.ViewReply, error) {
			f.carried[1][349] = false
			return truth(ctx, r)
		})
		a, err := f.SessionsBy(t.Context(), SessionFilter{State: tt.state}, ByWatches, Page{Limit: 5})
		if err != nil || len(a.Silent) > 0 || !slices.Equal(ids(a.Items), tt.want) {
			t.Errorf("state %v: %v, silent %+v, %v, want %v", tt.state, ids(a.Items), a.Silent, err, tt.want)
		}
	}
}

// All sessions are looked at for one question at a time, which leaves places for other questions. Those for which too little time is
// left are told that the member is busy.
func TestSessionsByOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, 3)
		f.open(2500)
		truth, part, open := f.peers[1].answer, deadline*3/10, 0
		f.peers[1].answer = func(ctx context.Context, r *proto.ViewRequest) (*proto.ViewReply, error) {
			if r.GetSessions() == nil {
				return truth(ctx, r)
			}
			if open++; open > 1 {
				t.Error("sessions are looked at for two questions at a time")
			}
			time.Sleep(part)
			open--
			return truth(ctx, r)
		}
		ask := func(n int, filter SessionFilter) (answered, busy int) {
			var all sync.WaitGroup
			errs := make(chan error, n)
			for range n {
				all.Go(func() {
					_, err := f.SessionsBy(t.Context(), filter, ByEphemerals, Page{Limit: 5})
					errs <- err
				})
			}
			synctest.Wait()
			begun := time.Now()
			if _, err := f.MemberStatuses(t.Context()); err != nil || time.Since(begun) > 0 {
				t.Errorf("another question: %v after %v", err, time.Since(begun))
			}
			all.Wait()
			for range n {
				switch err := <-errs; {
				case err == nil:
					answered++
				case errors.Is(err, ErrBusy):
					busy++
				default:
					t.Error(err)
				}
			}
			return answered, busy
		}
		if answered, busy := ask(2*maxQueries, SessionFilter{ID: 7}); answered != 3 || busy != 2*maxQueries-3 {
			t.Errorf("%d answered and %d refused, want 3 answered one after the other", answered, busy)
		}
		part = deadline * 4 / 10
		first := make(chan error, 1)
		go func() {
			_, err := f.SessionsBy(t.Context(), SessionFilter{ID: 7}, ByTimeLeft, Page{})
			first <- err
		}()
		synctest.Wait()
		if answered, busy := ask(1, SessionFilter{}); answered != 0 || busy != 1 || <-first != nil {
			t.Errorf("%d answered and %d refused, want 1 refused, because it has waited", answered, busy)
		}
	})
}
