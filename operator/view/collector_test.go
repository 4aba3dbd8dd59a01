package view

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/operator/api"
	"rollcall/proto"
	"rollcall/zk/jute"
)

// A member that does not answer is named with the reason. The others' rows are there at the deadline at
// the latest, and at once if no member is late.
func TestSilence(t *testing.T) {
	deaf := make(chan struct{})
	tests := []struct {
		name   string
		answer func(context.Context, *proto.ViewRequest) (*proto.ViewReply, error)
		want   api.Silence
		after  time.Duration
	}{
		{"late", late, api.Silence{MemberID: 3, Reason: ReasonLate, Detail: "no answer within 1s"}, deadline},
		{"deaf to its context", func(context.Context, *proto.ViewRequest) (*proto.ViewReply, error) {
			<-deaf
			return nil, errors.New("far too late")
		}, api.Silence{MemberID: 3, Reason: ReasonLate, Detail: "no answer within 1s"}, deadline},
		{"down", func(context.Context, *proto.ViewRequest) (*proto.ViewReply, error) {
			return nil, errors.New("connection refused")
		}, api.Silence{MemberID: 3, Reason: ReasonDown, Detail: "connection refused"}, 0},
		{
			"busy", func(context.Context, *proto.ViewRequest) (*proto.ViewReply, error) { return nil, ErrBusy },
			api.Silence{MemberID: 3, Reason: ReasonBusy, Detail: "it has too many queries under way: try again"},
			0,
		},
		{
			"too long", func(context.Context, *proto.ViewRequest) (*proto.ViewReply, error) { return nil, ErrTooLong },
			api.Silence{MemberID: 3, Reason: ReasonWrong, Detail: "the reply has more than 10485760 bytes"},
			0,
		},
		{
			"about something else", func(context.Context, *proto.ViewRequest) (*proto.ViewReply, error) { return &proto.ViewReply{}, nil },
			api.Silence{MemberID: 3, Reason: ReasonWrong, Detail: "the reply is about something else"},
			0,
		},
		{"another member's", func(context.Context, *proto.ViewRequest) (*proto.ViewReply, error) {
			return &proto.ViewReply{About: &proto.ViewReply_Status{Status: &proto.MemberStatus{Member: 2}}}, nil
		}, api.Silence{MemberID: 3, Reason: ReasonWrong, Detail: "it is the status of member 2"}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				deaf = make(chan struct{})
				f := newFake(t, 3)
				f.peers[3].answer = tt.answer
				begun := time.Now()
				a, err := f.MemberStatuses(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if len(a.Items) != 2 || a.Items[0].MemberID != 1 || a.Items[1].MemberID != 2 {
					t.Errorf("rows %+v, want those of members 1 and 2", a.Items)
				}
				if !slices.Equal(a.Silent, []api.Silence{tt.want}) {
					t.Errorf("silent %+v, want %+v", a.Silent, tt.want)
				}
				if took := time.Since(begun); took != tt.after {
					t.Errorf("it took %v, want %v", took, tt.after)
				}
				close(deaf)
			})
		})
	}
}

// Members that do not answer are listed by their ids, and not in the order in which that was noticed.
func TestSilentMembersAreSorted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, 3)
		f.peers[2].answer = late
		f.peers[3].answer = func(context.Context, *proto.ViewRequest) (*proto.ViewReply, error) {
			return nil, errors.New("connection refused")
		}
		a, err := f.MemberStatuses(t.Context())
		if err != nil || len(a.Silent) != 2 || a.Silent[0].MemberID != 2 || a.Silent[1].MemberID != 3 {
			t.Errorf("silent %+v, %v, want members 2 and 3", a.Silent, err)
		}
	})
}

// A question waits for a place, and no longer than the deadline. When its caller gives up, it fails.
func TestTooManyQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, 3)
		f.peers[3].answer = func(ctx context.Context, r *proto.ViewRequest) (*proto.ViewReply, error) {
			time.Sleep(deadline / 2)
			return late(ctx, r)
		}
		for range maxQueries {
			go func() { _, _ = f.MemberStatuses(t.Context()) }()
		}
		synctest.Wait()
		if n := len(f.peers[3].requests()); n != maxQueries {
			t.Errorf("%d questions under way, want %d", n, maxQueries)
		}
		ctx, cancel := context.WithTimeout(t.Context(), deadline/4)
		defer cancel()
		if _, err := f.MemberStatuses(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a caller that gave up: %v", err)
		}
		if n := len(f.peers[3].requests()); n != 0 {
			t.Errorf("%d more were asked", n)
		}
		if _, err := f.MemberStatuses(t.Context()); err != nil {
			t.Errorf("when the first were over: %v", err)
		}
		stuck := make(chan struct{})
		defer close(stuck)
		for range maxQueries {
			f.querySlots <- struct{}{}
		}
		if _, err := f.MemberStatuses(t.Context()); !errors.Is(err, ErrBusy) {
			t.Errorf("no place within the deadline: %v", err)
		}
	})
}

// Answers about the replicated state need this member.
func TestSelfIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, 3)
		f.peers[1].answer = late
		want := "view: this member, 1: no answer in time: no answer within 1s"
		_, err := f.Sessions(t.Context(), SessionFilter{}, Page{})
		_, werr := f.SessionWatches(t.Context(), 1, Page{})
		_, oerr := f.NodeOwner(t.Context(), "/x")
		_, eerr := f.Ephemerals(t.Context(), 1, Page{})
		for _, err := range []error{err, werr, oerr, eerr} {
			if err == nil || err.Error() != want {
				t.Errorf("%v, want %s", err, want)
			}
		}
		if a, err := f.MemberStatuses(t.Context()); err != nil || len(a.Items) != 2 || len(a.Silent) != 1 {
			t.Errorf("status: %+v, %v, want the others' rows", a, err)
		}
	})
}

// What a caller asks for is checked before any member is asked.
func TestBadQuestions(t *testing.T) {
	f := newFake(t, 3)
	f.open(9)
	page, err := f.Sessions(t.Context(), SessionFilter{}, Page{Limit: 2})
	if err != nil || page.NextCursor == "" {
		t.Fatalf("%+v, %v", page, err)
	}
	for _, p := range f.peers {
		p.requests()
	}
	ctx := t.Context()
	for name, ask := range map[string]func() error{
		"limit":             func() error { _, err := f.Sessions(ctx, SessionFilter{}, Page{Limit: MaxRows + 1}); return err },
		"negative limit":    func() error { _, err := f.Connections(ctx, ConnectionFilter{}, Page{Limit: -1}); return err },
		"garbled cursor":    func() error { _, err := f.Sessions(ctx, SessionFilter{}, Page{Cursor: "x"}); return err },
		"base64 of garbage": func() error { _, err := f.Sessions(ctx, SessionFilter{}, Page{Cursor: "eHh4"}); return err },
		"another list's": func() error {
			_, err := f.Connections(ctx, ConnectionFilter{}, Page{Cursor: page.NextCursor})
			return err
		},
		"no path":          func() error { _, err := f.PathWatches(ctx, "", Page{}); return err },
		"owner of no path": func() error { _, err := f.NodeOwner(ctx, ""); return err },
		"session 0":        func() error { _, err := f.SessionByID(ctx, 0); return err },
	} {
		if ask() == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := f.Ephemerals(ctx, 1, Page{Cursor: page.NextCursor}); !errors.Is(err, ErrBadCursor) {
		t.Errorf("a cursor of another list: %v", err)
	}
	for id, p := range f.peers {
		if n := len(p.requests()); n != 0 {
			t.Errorf("member %d was asked %d times", id, n)
		}
	}
}

func TestNew(t *testing.T) {
	good := Config{Self: 1, Members: func() []Member { return []Member{{ID: 1}} }, ServerList: func() Ensemble { return Ensemble{} }, Leader: func() uint32 { return 1 }, Deadline: 1, Now: time.Now}
	if _, err := New(good); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*Config){
		"deadline": func(c *Config) { c.Deadline = 0 }, "leader": func(c *Config) { c.Leader = nil },
		"clock": func(c *Config) { c.Now = nil }, "members": func(c *Config) { c.Members = nil }, "ensemble": func(c *Config) { c.ServerList = nil },
	} {
		bad := good
		if change(&bad); func() error { _, err := New(bad); return err }() == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// A question is asked of the members that the ensemble has when it begins.
func TestMembersComeAndGo(t *testing.T) {
	f := newFake(t, 4)
	all := f.members
	f.members = []Member{all[3], all[0], all[1]}
	if a, err := f.MemberStatuses(t.Context()); err != nil || len(a.Items) != 3 || a.Items[1].MemberID != 2 || a.Items[2].MemberID != 4 || len(a.Silent) != 0 {
		t.Errorf("without member 3: %+v, %v", a, err)
	}
	f.members = all[:2]
	a, err := f.Connections(t.Context(), ConnectionFilter{}, Page{})
	if err != nil || len(a.Silent) != 0 || len(f.peers[3].requests()) != 0 {
		t.Errorf("without members 3 and 4: %+v, %v", a, err)
	}
	if got := len(f.peers[4].requests()); got != 1 {
		t.Errorf("member 4 was asked %d times, want once", got)
	}
}

// idOf returns the id of a session.
func idOf(s api.Session) jute.SessionID {
	id, _ := jute.ParseSessionID(s.ID)
	return id
}

// ids returns the ids of sessions.
func ids(rows []api.Session) (ids []jute.SessionID) {
	for _, row := range rows {
		ids = append(ids, idOf(row))
	}
	return ids
}
