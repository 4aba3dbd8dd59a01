package view

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"

	"rollcall/operator/api"
	"rollcall/operator/clients"
	"rollcall/proto"
)

// Pages of connections, put together, have each connection of each member once, by member. A member that
// was silent on one page is not asked for the next.
func TestConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, 4)
		var want []string
		for id, n := range map[uint32]int{1: 5, 2: 0, 3: 4, 4: 7} {
			for i := range n {
				f.conns[id] = append(f.conns[id], &proto.ConnectionRow{Number: uint64(2*i + 1)})
			}
		}
		for id := uint32(1); id <= 4; id++ {
			for _, c := range f.conns[id] {
				want = append(want, fmt.Sprintf("%d-%d", id, c.Number))
			}
		}
		list := func(limit int) (got []string, pages int, silent []api.Silence) {
			for p := (Page{Limit: limit}); ; {
				a, err := f.Connections(t.Context(), ConnectionFilter{}, p)
				if err != nil {
					t.Fatal(err)
				}
				for _, c := range a.Items {
					got = append(got, fmt.Sprintf("%d-%d", c.MemberID, c.Number))
				}
				if pages++; a.NextCursor == "" {
					return got, pages, a.Silent
				}
				p.Cursor = a.NextCursor
			}
		}
		for _, limit := range []int{1, 2, 3, 4, 5, 8, 16, 17} {
			if got, pages, _ := list(limit); !slices.Equal(got, want) || pages != (len(want)+limit-1)/limit {
				t.Errorf("%d pages of %d: %v, want %v", pages, limit, got, want)
			}
		}
		f.peers[3].requests()
		f.peers[3].answer = late
		want = slices.DeleteFunc(want, func(c string) bool { return c[0] == '3' })
		got, _, silent := list(2)
		if !slices.Equal(got, want) || len(silent) != 1 || silent[0].Reason != ReasonSkipped || len(f.peers[3].requests()) != 1 {
			t.Errorf("with a silent member: %v, want %v; silent %+v", got, want, silent)
		}
	})
}

// When a member has started again, its connections are listed from its first one on.
func TestConnectionsAfterRestart(t *testing.T) {
	parts := map[uint32]memberPart[api.Connection]{1: {incarnation: 7, rows: []api.Connection{{MemberID: 1}, {MemberID: 1}}, next: clients.WatchPlace{Connection: 9}}}
	rows, rest := joinParts([]uint32{1}, parts, 5, func(c api.Connection) clients.WatchPlace { return clients.WatchPlace{Connection: c.Number} })
	if len(rows) != 2 || rest.Member != 1 || rest.Boot != 7 || rest.First != 9 {
		t.Errorf("a short part: %d rows, then %+v", len(rows), rest)
	}
	f := newFake(t, 1)
	f.conns[1] = []*proto.ConnectionRow{{Number: 1}, {Number: 2}, {Number: 3}}
	a, err := f.Connections(t.Context(), ConnectionFilter{}, Page{Cursor: position{Member: 1, Boot: 99, First: 3}.encodeCursor(connectionList, nil)})
	if err != nil || len(a.Items) != 3 || len(a.Silent) > 0 {
		t.Errorf("a cursor of another run: %+v, %v, want all connections", a, err)
	}
	if a, err = f.Connections(t.Context(), ConnectionFilter{}, Page{Cursor: position{Member: 1, Boot: 1, First: 3}.encodeCursor(connectionList, nil)}); err != nil || len(a.Items) != 1 {
		t.Errorf("a cursor of this run: %+v, %v, want one connection", a, err)
	}
}

// A filter asks one member alone, and each of the members that are asked for one address.
func TestConnectionFilter(t *testing.T) {
	f := newFake(t, 3)
	for id := uint32(1); id <= 3; id++ {
		for i := range uint64(4) {
			f.conns[id] = append(f.conns[id], &proto.ConnectionRow{Number: i + 1, Address: fmt.Append(nil, "10.0.0.", i%2, ":1")})
		}
	}
	for _, tt := range []struct {
		filter ConnectionFilter
		want   string
		asked  string // members
	}{
		{ConnectionFilter{Member: 2}, "[2-1 2-2 2-3 2-4]", "[2]"},
		{ConnectionFilter{Address: "10.0.0.1:1"}, "[1-2 1-4 2-2 2-4 3-2 3-4]", "[1 2 3]"},
		{ConnectionFilter{Member: 3, Address: "10.0.0.0:1"}, "[3-1 3-3]", "[3]"},
		{ConnectionFilter{Member: 9}, "[]", "[]"}, // there is no such member
	} {
		for _, limit := range []int{1, 2, 10} {
			got, asked := []string{}, map[uint32]bool{}
			for p := (Page{Limit: limit}); ; {
				a, err := f.Connections(t.Context(), tt.filter, p)
				if err != nil || len(a.Silent) > 0 {
					t.Fatalf("%+v: %+v, %v", tt.filter, a.Silent, err)
				}
				for _, c := range a.Items {
					got = append(got, fmt.Sprintf("%d-%d", c.MemberID, c.Number))
				}
				if p.Cursor = a.NextCursor; a.NextCursor == "" {
					break
				}
			}
			for id, peer := range f.peers {
				if len(peer.requests()) > 0 {
					asked[id] = true
				}
			}
			if who := slices.Sorted(maps.Keys(asked)); fmt.Sprint(got) != tt.want || fmt.Sprint(who) != tt.asked {
				t.Errorf("%+v, pages of %d: %v of members %v, want %s of %s", tt.filter, limit, got, who, tt.want, tt.asked)
			}
		}
	}
}

// Pages of the watches that cover a path, put together, have each of them once, by member, connection and
// path. A page may end between two watches of one connection.
func TestWatches(t *testing.T) {
	f := newFake(t, 3)
	row := func(connection uint64, path string) *proto.WatchRow {
		return &proto.WatchRow{Connection: connection, Path: []byte(path), Recursive: path != "/a/b"}
	}
	f.watching[1] = []*proto.WatchRow{row(4, "/"), row(4, "/a"), row(4, "/a/b"), row(5, "/a")}
	f.watching[3] = []*proto.WatchRow{row(1, "/a/b"), row(2, "/"), row(2, "/a/b")}
	want := []string{"1-4/", "1-4/a", "1-4/a/b", "1-5/a", "3-1/a/b", "3-2/", "3-2/a/b"}
	for limit := 1; limit <= 8; limit++ {
		var got []string
		for p := (Page{Limit: limit}); ; {
			a, err := f.PathWatches(t.Context(), "/a/b", p)
			if err != nil || len(a.Silent) > 0 || len(got) > len(want) {
				t.Fatalf("%+v, %v", a, err)
			}
			for _, w := range a.Items {
				got = append(got, fmt.Sprintf("%d-%d%s", w.MemberID, w.Connection, w.Path))
			}
			if a.NextCursor == "" {
				break
			}
			p.Cursor = a.NextCursor
		}
		if !slices.Equal(got, want) {
			t.Errorf("pages of %d: %v, want %v", limit, got, want)
		}
	}
}

// The watches of a session come from the member that it is attached to, page by page.
func TestSessionWatches(t *testing.T) {
	f := newFake(t, 3)
	f.open(9)
	for _, limit := range []int{1, 2, 5, 9} {
		var got []string
		for p := (Page{Limit: limit}); ; {
			a, err := f.SessionWatches(t.Context(), 3, p)
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range a.Items {
				if got = append(got, w.Path); w.MemberID != 3 || w.SessionID != "0x3" || !w.Data {
					t.Errorf("%+v", w)
				}
			}
			if a.NextCursor == "" {
				break
			}
			p.Cursor = a.NextCursor
		}
		if want := []string{"/0", "/1", "/2", "/3", "/4"}; !slices.Equal(got, want) {
			t.Errorf("pages of %d: %v, want %v", limit, got, want)
		}
	}
	if n := len(f.peers[2].requests()); n != 0 {
		t.Errorf("another member was asked %d times", n)
	}
	f.sessions[0].Member = 0
	for _, id := range []int{1, 77} {
		if a, err := f.SessionWatches(t.Context(), 1, Page{}); err != nil || len(a.Items) > 0 {
			t.Errorf("session %d: %+v, %v", id, a, err)
		}
	}
}
