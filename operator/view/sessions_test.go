package view

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/operator/api"
	"rollcall/proto"
	"rollcall/zk/jute"
)

// Pages of sessions, put together, have each session once, with what its member and the leader say. Only
// they are asked about it.
func TestSessions(t *testing.T) {
	f := newFake(t, 3)
	f.open(50)
	for _, limit := range []int{1, 7, 49, 50, 51, 0} {
		var all []api.Session
		for p := (Page{Limit: limit}); ; {
			a, err := f.Sessions(t.Context(), SessionFilter{}, p)
			if err != nil || len(a.Silent) > 0 {
				t.Fatalf("%+v, %v", a.Silent, err)
			}
			if all = append(all, a.Items...); a.NextCursor == "" {
				break
			}
			p.Cursor = a.NextCursor
		}
		if len(all) != 50 {
			t.Fatalf("pages of %d: %v", limit, ids(all))
		}
		for i, got := range all {
			n := uint64(i + 1)
			conn, heard, left := apiConnection(uint32(i%3+1), &proto.ConnectionRow{Number: n, Session: n}), int64(10*n), int64(4000-10*n)
			want := api.Session{
				ID: jute.SessionID(n).String(), State: StateConnected, MemberID: uint32(i%3 + 1), TimeoutMs: 4000, CreatedAt: timeOf(0), EphemeralCount: i,
				WatchCount: int(n), Connection: &conn, HeardMs: &heard, LeftMs: &left,
			}
			if i%4 == 3 {
				want.State, want.WatchCount, want.Connection = StateDisconnected, 0, nil
			}
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("pages of %d:\n%+v, want\n%+v", limit, got, want)
			}
		}
	}
	for id, p := range f.peers {
		for _, r := range p.requests() {
			for _, session := range r.GetFacts().GetIds() {
				if id != f.leader && uint32((session-1)%3+1) != id {
					t.Fatalf("member %d was asked about session %d", id, session)
				}
			}
		}
	}
}

// If a member is silent, the state of its sessions is unknown, and if the leader is, their times are. The
// pages that follow do not wait for it again.
func TestSessionsOfSilentMembers(t *testing.T) {
	for silent := uint32(2); silent <= 3; silent++ {
		t.Run(fmt.Sprint(silent), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(t, 3)
				f.open(60)
				f.peers[silent].answer = late
				begun, reason := time.Now(), ReasonLate
				var all []api.Session
				for p := (Page{Limit: 10}); ; {
					a, err := f.Sessions(t.Context(), SessionFilter{}, p)
					if err != nil || len(a.Silent) != 1 || a.Silent[0].MemberID != silent || a.Silent[0].Reason != reason {
						t.Fatalf("silent %+v, %v, want member %d, %v", a.Silent, err, silent, reason)
					}
					reason = ReasonSkipped
					if all = append(all, a.Items...); a.NextCursor == "" {
						break
					}
					p.Cursor = a.NextCursor
				}
				if took := time.Since(begun); took != deadline || len(all) != 60 {
					t.Errorf("%d sessions in %v, want 60 in %v", len(all), took, deadline)
				}
				for _, s := range all {
					if (s.State == StateUnknown) != (s.MemberID == silent) || (s.LeftMs != nil) == (silent == f.leader) {
						t.Errorf("member %d is silent: %+v", silent, s)
					}
				}
				if n := len(f.peers[silent].requests()); n != 1 {
					t.Errorf("member %d was asked %d times", silent, n)
				}
			})
		})
	}
}

// A filter by state looks at more than one page of the state, but ends.
func TestSessionsByState(t *testing.T) {
	f := newFake(t, 3)
	f.open(40)
	f.sessions[5].Member = 0
	count := 0
	for p := (Page{Limit: 5}); ; {
		a, err := f.Sessions(t.Context(), SessionFilter{State: StateDisconnected}, p)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range a.Items {
			if count++; s.State != StateDisconnected || (idOf(s)-1)%4 != 3 && idOf(s) != 6 {
				t.Errorf("%+v", s)
			}
		}
		if len(a.Items) < 5 && a.NextCursor != "" {
			t.Errorf("a page of %d of %d, and another follows", len(a.Items), p.Limit)
		}
		if a.NextCursor == "" {
			break
		}
		p.Cursor = a.NextCursor
	}
	if count != 11 {
		t.Errorf("%d sessions are disconnected, want 11", count)
	}
	f.open(100 * maxRounds)
	for _, p := range f.peers {
		p.requests()
	}
	a, err := f.Sessions(t.Context(), SessionFilter{State: StateUnknown}, Page{Limit: 5})
	if err != nil || len(a.Items) != 0 || a.NextCursor == "" {
		t.Errorf("%+v, %v, want no rows, and a next page", a, err)
	}
	asked := 0
	for _, r := range f.peers[1].requests() {
		if r.GetSessions() != nil {
			asked++
		}
	}
	if asked != maxRounds {
		t.Errorf("%d parts of the state, want %d", asked, maxRounds)
	}
}

// Members that answer in time, but slowly, do not hold up a filtered page longer than half the deadline
// and their last answer.
func TestSlowMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, 3)
		f.open(1000)
		slow := f.peers[3].answer
		f.peers[3].answer = func(ctx context.Context, r *proto.ViewRequest) (*proto.ViewReply, error) {
			time.Sleep(deadline / 5)
			return slow(ctx, r)
		}
		begun := time.Now()
		a, err := f.Sessions(t.Context(), SessionFilter{State: StateUnknown}, Page{Limit: 5})
		if took := time.Since(begun); err != nil || len(a.Silent) > 0 || took > deadline*3/4 || a.NextCursor == "" {
			t.Errorf("%v, silent %+v, next %q, %v", took, a.Silent, a.NextCursor, err)
		}
	})
}

func TestSession(t *testing.T) {
	f := newFake(t, 3)
	f.open(9)
	if a, err := f.SessionByID(t.Context(), 5); err != nil || len(a.Items) != 1 || a.Items[0].ID != "0x5" || a.Items[0].State != StateConnected || a.NextCursor != "" {
		t.Errorf("%+v, %v", a, err)
	}
	f.sessions = slices.Delete(f.sessions, 4, 5)
	if a, err := f.SessionByID(t.Context(), 5); err != nil || len(a.Items) != 0 {
		t.Errorf("a session that does not exist: %+v, %v", a, err)
	}
	o, err := f.NodeOwner(t.Context(), "/x")
	if err != nil || o.Kind != KindEphemeral || o.SessionID != "0x2" || o.Session == nil || o.Session.ID != "0x2" || o.Session.State != StateConnected || o.SessionEnded {
		t.Errorf("%+v, %v", o, err)
	}
	f.sessions = f.sessions[2:]
	if o, err = f.NodeOwner(t.Context(), "/x"); err != nil || o.SessionID != "0x2" || !o.SessionEnded || o.Session != nil {
		t.Errorf("an owner that has just ended: %+v, %v", o, err)
	}
}

// A reply that a member could not honestly give is refused as a whole.
func TestLies(t *testing.T) {
	sessions := func(rows []*proto.SessionRow, next uint64) *proto.ViewReply {
		return &proto.ViewReply{About: &proto.ViewReply_Sessions{Sessions: &proto.SessionRows{Rows: rows, Next: next}}}
	}
	facts := func(rows ...*proto.FactRow) *proto.ViewReply {
		return &proto.ViewReply{About: &proto.ViewReply_Facts{Facts: &proto.FactRows{Rows: rows}}}
	}
	conns := func(next uint64, numbers ...uint64) *proto.ViewReply {
		r := &proto.ConnectionRows{Next: next}
		for _, n := range numbers {
			r.Rows = append(r.Rows, &proto.ConnectionRow{Number: n})
		}
		return &proto.ViewReply{About: &proto.ViewReply_Connections{Connections: r}}
	}
	watches := func(session uint64, next string, paths ...string) *proto.ViewReply {
		r := &proto.WatchRows{NextPath: []byte(next)}
		for i, path := range paths {
			r.Rows = append(r.Rows, &proto.WatchRow{Connection: uint64(i), Session: session, Path: []byte(path)})
		}
		return &proto.ViewReply{About: &proto.ViewReply_Watches{Watches: r}}
	}
	ofThePath := func(connection uint64, paths ...string) *proto.ViewReply {
		r := &proto.WatchRows{Next: connection, NextPath: []byte("/")}
		for _, path := range paths {
			r.Rows = append(r.Rows, &proto.WatchRow{Connection: connection, Path: []byte(path), Recursive: true})
		}
		return &proto.ViewReply{About: &proto.ViewReply_Watches{Watches: r}}
	}
	paths := func(next string, all ...string) *proto.ViewReply {
		r := &proto.EphemeralRows{Next: []byte(next)}
		for _, path := range all {
			r.Paths = append(r.Paths, []byte(path))
		}
		return &proto.ViewReply{About: &proto.ViewReply_Ephemerals{Ephemerals: r}}
	}
	owner := func(kind proto.NodeKind, session uint64) *proto.ViewReply {
		return &proto.ViewReply{About: &proto.ViewReply_Owner{Owner: &proto.OwnerRow{Kind: kind, Session: session}}}
	}
	state := func(s *proto.MemberStatus) *proto.ViewReply {
		s.Member = 1
		return &proto.ViewReply{About: &proto.ViewReply_Status{Status: s}}
	}
	row := func(id uint64) *proto.SessionRow { return &proto.SessionRow{Id: id} }
	three := Page{Limit: 3}
	list := func(c *Collector, ctx context.Context) ([]api.Silence, error) {
		_, err := c.Sessions(ctx, SessionFilter{}, three)
		return nil, err
	}
	asFacts := func(c *Collector, ctx context.Context) ([]api.Silence, error) {
		a, err := c.Sessions(ctx, SessionFilter{}, three)
		return a.Silent, err
	}
	ofPath := func(c *Collector, ctx context.Context) ([]api.Silence, error) {
		a, err := c.PathWatches(ctx, "/x", three)
		return a.Silent, err
	}
	ofSession := func(c *Collector, ctx context.Context) ([]api.Silence, error) {
		a, err := c.SessionWatches(ctx, 1, three)
		return a.Silent, err
	}
	all := func(c *Collector, ctx context.Context) ([]api.Silence, error) {
		a, err := c.Connections(ctx, ConnectionFilter{}, three)
		return a.Silent, err
	}
	members := func(c *Collector, ctx context.Context) ([]api.Silence, error) {
		a, err := c.MemberStatuses(ctx)
		return a.Silent, err
	}
	who := func(c *Collector, ctx context.Context) ([]api.Silence, error) {
		o, err := c.NodeOwner(ctx, "/x")
		return o.Silent, err
	}
	ephemerals := func(c *Collector, ctx context.Context) ([]api.Silence, error) {
		a, err := c.Ephemerals(ctx, 1, three)
		return a.Silent, err
	}
	removals := func(next int64, rows ...*proto.RemovalRow) *proto.ViewReply {
		return &proto.ViewReply{About: &proto.ViewReply_Removals{Removals: &proto.RemovalRows{Rows: rows, NextZxid: next, NextPart: 1}}}
	}
	removal := func(zxid int64, path string, cause proto.RemovalCause) *proto.RemovalRow {
		return &proto.RemovalRow{Zxid: zxid, Part: 1, Path: []byte(path), Cause: cause}
	}
	const byDelete = proto.RemovalCause_REMOVAL_CAUSE_DELETE
	why := func(c *Collector, ctx context.Context) ([]api.Silence, error) {
		a, err := c.NodeRemovals(ctx, "/x", Page{Limit: 3, Cursor: position{Zxid: 100, Part: 2}.encodeCursor(removalList, nil)})
		return a.Silent, err
	}
	buckets := func(tick uint32, rows ...*proto.BucketRow) *proto.ViewReply {
		return &proto.ViewReply{About: &proto.ViewReply_Buckets{Buckets: &proto.BucketRows{Leads: true, TickMs: tick, Rows: rows}}}
	}
	axis := func(c *Collector, ctx context.Context) ([]api.Silence, error) {
		b, err := c.ExpiryBuckets(ctx)
		return b.Silent, err
	}
	slow := func(next uint64, rows ...*proto.SlowRow) *proto.ViewReply {
		return &proto.ViewReply{About: &proto.ViewReply_Slow{Slow: &proto.SlowRows{Rows: rows, Next: next}}}
	}
	slowRow := func(number, session uint64, address string) *proto.SlowRow {
		return &proto.SlowRow{Number: number, Session: session, Address: []byte(address)}
	}
	ofOneClient := func(c *Collector, ctx context.Context) ([]api.Silence, error) {
		a, err := c.SlowRequests(ctx, SlowFilter{Session: 5, Address: "10.0.0.7"}, three)
		return a.Silent, err
	}
	tests := []struct {
		name  string
		reply *proto.ViewReply
		ask   func(*Collector, context.Context) ([]api.Silence, error)
		want  string
	}{
		{"too many sessions", sessions([]*proto.SessionRow{row(1), row(2), row(3), row(4)}, 0), list, "4 rows, at most 3"},
		{"unsorted sessions", sessions([]*proto.SessionRow{row(2), row(1)}, 0), list, "session 0x1 is out of order"},
		{"a session twice", sessions([]*proto.SessionRow{row(2), row(2)}, 0), list, "session 0x2 is out of order"},
		{"a page without an end", sessions([]*proto.SessionRow{row(2)}, 2), list, "would begin at session 0x2"},
		{"facts of other sessions", facts(&proto.FactRow{Id: 77}), asFacts, "session 0x4d was not asked for"},
		{"facts twice", facts(&proto.FactRow{Id: 1}, &proto.FactRow{Id: 1}), asFacts, "session 0x1 was not asked for, or is out of order"},
		{"another session's connection", facts(&proto.FactRow{Id: 1, Connection: &proto.ConnectionRow{Session: 2}}), asFacts, "carries another one"},
		{"connections instead of facts", conns(0), asFacts, "about something else"},
		{"too many connections", conns(0, 1, 2, 3, 4), all, "4 rows, at most 3"},
		{"unsorted connections", conns(0, 2, 1), all, "connection 1 is out of order"},
		{"connections without an end", conns(2, 1, 2), all, "would begin at connection 2"},
		{"watches above the path that do not cover it", watches(1, "", "/"), ofPath, `a watch on "/"`},
		{"watches that are out of order", ofThePath(2, "/x", "/"), ofPath, `connection 2 is out of order, with path "/"`},
		{"a watch twice", ofThePath(2, "/x", "/x"), ofPath, `connection 2 is out of order, with path "/x"`},
		{"watches of a path without an end", ofThePath(2, "/"), ofPath, `would begin at connection 2, "/"`},
		{"watches on another path", watches(1, "", "/y"), ofPath, `a watch on "/y"`},
		{"unsorted watches", watches(1, "", "/b", "/a"), ofSession, `the path "/a" is out of order`},
		{"watches of another session", watches(2, "", "/a"), ofSession, "a watch of session 0x2"},
		{"watches without an end", watches(1, "/a", "/a"), ofSession, `would begin at "/a"`},
		{"too many watches", watches(1, "", "/a", "/b", "/c", "/d"), ofSession, "4 rows, at most 3"},
		{"too many ephemerals", paths("", "/a", "/b", "/c", "/d"), ephemerals, "4 rows, at most 3"},
		{"unsorted ephemerals", paths("", "/b", "/a"), ephemerals, `the path "/a" is out of order`},
		{"an owner of a plain node", owner(proto.NodeKind_NODE_KIND_PLAIN, 1), who, "a node of kind"},
		{"an unknown kind", owner(77, 0), who, "a node of kind 77"},
		{"marks without digests", state(&proto.MemberStatus{StateHashes: &proto.StateHashes{Indexes: []uint64{1}}}), members, "1 marks with 0 digests"},
		{"too many marks", state(&proto.MemberStatus{StateHashes: &proto.StateHashes{Indexes: make([]uint64, 65), Digests: make([]uint64, 65)}}), members, "at most 64"},
		{"connections instead of removals", conns(0), why, "about something else"},
		{"too many removals", removals(0, make([]*proto.RemovalRow, 4)...), why, "4 rows, at most 3"},
		{"removals from after the cursor", removals(0, &proto.RemovalRow{Zxid: 100, Part: 2, Path: []byte("/x"), Cause: byDelete}), why, "removal 2 of transaction 0x64 is out of order"},
		{"unsorted removals", removals(0, removal(8, "/x", byDelete), removal(9, "/x", byDelete)), why, "transaction 0x9 is out of order"},
		{"a removal twice", removals(0, removal(8, "/x", byDelete), removal(8, "/x", byDelete)), why, "transaction 0x8 is out of order"},
		{"a removal by no transaction", removals(0, removal(0, "/x", byDelete)), why, "transaction 0x0 is out of order"},
		{"a removal of another node", removals(0, removal(8, "/y", byDelete)), why, `"/y", which was not asked for`},
		{"a removal without a cause", removals(0, removal(8, "/x", 0)), why, "by cause 0"},
		{"a removal by the end of no session", removals(0, removal(8, "/x", proto.RemovalCause_REMOVAL_CAUSE_SESSION_ENDED)), why, "session 0x0"},
		{"removals without an end", removals(9, removal(8, "/x", byDelete)), why, "with which this one does not end"},
		{"no removals without an end", removals(100), why, "with which this one does not end"},
		{"removals that skip", removals(7, removal(8, "/x", byDelete)), why, "with which this one does not end"},
		{"connections instead of slow requests", conns(0), ofOneClient, "about something else"},
		{"a slow request of another session", slow(0, slowRow(9, 6, "10.0.0.7:1")), ofOneClient, "slow request 9 is of another client than the query"},
		{"a slow request of another address", slow(0, slowRow(9, 5, "10.0.0.8:1")), ofOneClient, "slow request 9 is of another client than the query"},
		{"unsorted slow requests", slow(0, slowRow(8, 5, "10.0.0.7:1"), slowRow(9, 5, "10.0.0.7:1")), ofOneClient, "slow request 9 is out of order"},
		{"slow requests without an end", slow(9, slowRow(8, 5, "10.0.0.7:1")), ofOneClient, "with which this one does not end"},
		{"connections instead of buckets", conns(0), axis, "about something else"},
		{"too many buckets", buckets(9, make([]*proto.BucketRow, MaxRows+1)...), axis, "1001 rows, at most 1000"},
		{"buckets without a width", buckets(0), axis, "without a width"},
		{"unsorted buckets", buckets(9, &proto.BucketRow{DueMs: 5, Sessions: 1}, &proto.BucketRow{DueMs: 5, Sessions: 1}), axis, "due in 5 ms, comes after one that is due in 5 ms"},
		{"an empty bucket", buckets(9, &proto.BucketRow{DueMs: 5}), axis, "a bucket of 0 sessions"},
		{"no console", state(&proto.MemberStatus{Operators: "javascript:alert(1)"}), members, "no URL with an address alone"},
		{"a long text", state(&proto.MemberStatus{Version: strings.Repeat("x", maxTextBytes+1)}), members, "a text of 4097 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake(t, 1)
			f.leader = 1
			f.open(3)
			honest := f.peers[1].answer
			f.peers[1].answer = func(ctx context.Context, r *proto.ViewRequest) (*proto.ViewReply, error) {
				if truth, err := honest(ctx, r); r.GetSessions() != nil && tt.reply.GetSessions() == nil {
					return truth, err
				}
				return tt.reply, nil
			}
			silent, err := tt.ask(f.Collector, t.Context())
			text := fmt.Sprint(err)
			if err == nil && len(silent) == 1 && silent[0].Reason == ReasonWrong {
				text = silent[0].Detail
			}
			if !strings.Contains(text, tt.want) {
				t.Errorf("%v, %+v, want %q", err, silent, tt.want)
			}
		})
	}
}
