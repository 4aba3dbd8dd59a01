package member_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/cluster"
	"rollcall/operator/api"
	"rollcall/operator/view"
	"rollcall/zk/jute"
)

// A member counts connections without a session, too, and tells the time of its clock, not that of its start.
func TestStatusOfAMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := cluster.Start(t, 3, cluster.Options{})
		at := e.Ready()
		e.Open(at, 20*time.Second)
		time.Sleep(5 * time.Second)
		if _, err := e.Dial(at); err != nil {
			t.Fatal(err)
		}
		e.Wait("two connections", time.Minute, func() bool { return statusOf(t, e, at).Connections == 2 })
		if s := statusOf(t, e, at); s.Sessions != 1 || max(s.ClockMs, -s.ClockMs) > 1000 || time.Since(s.Started) < 5*time.Second {
			t.Errorf("%+v, want one session, and a clock of now", s)
		}
	})
}

// statusOf returns the status of a member as it shows itself.
func statusOf(t *testing.T, e *cluster.Ensemble, id uint32) api.Member {
	t.Helper()
	a, err := e.Member(id).View().MemberStatuses(t.Context())
	i := slices.IndexFunc(a.Items, func(s api.Member) bool { return s.MemberID == id })
	if err != nil || i < 0 {
		t.Fatalf("member %d is not among %+v: %v", id, a, err)
	}
	return a.Items[i]
}

// The ephemeral nodes of a session are shown without those of the session that comes after it.
func TestEphemeralsOfOneSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := cluster.Start(t, 1, cluster.Options{})
		at := e.Ready()
		var owners []*cluster.Client
		for i := range 3 {
			c := e.Connect(20*time.Second, at)
			for j := range 2 {
				if _, err := c.Create(fmt.Sprintf("/of-%d-%d", i, j), nil, jute.Ephemeral); err != nil {
					t.Fatal(err)
				}
			}
			owners = append(owners, c)
		}
		for i, c := range owners {
			a, err := e.Member(at).View().Ephemerals(t.Context(), c.Session(), view.Page{})
			want := []api.Ephemeral{{Path: fmt.Sprintf("/of-%d-0", i)}, {Path: fmt.Sprintf("/of-%d-1", i)}}
			if err != nil || !slices.Equal(a.Items, want) {
				t.Errorf("session %v has %v, %v; want %v", c.Session(), a.Items, err, want)
			}
		}
	})
}

// The watches that cover a path come in pages, each of which goes on where the one before ended.
func TestWatchesInPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := cluster.Start(t, 3, cluster.Options{})
		e.Ready()
		at := e.Followers()[0]
		var want []string
		for range 3 {
			c, session := e.Open(at, 20*time.Second)
			if _, _, err := c.Call(1, jute.OpExists, &jute.WatchedPath{Path: []byte("/w"), Watch: true}); err != nil {
				t.Fatal(err)
			}
			want = append(want, session.SessionID.String())
		}
		var got []string
		for p := (view.Page{Limit: 1}); len(got) == 0 || p.Cursor != ""; {
			a, err := e.Member(at).View().PathWatches(t.Context(), "/w", p)
			if err != nil || len(got) > len(want) {
				t.Fatalf("after %d watches: %+v, %v", len(got), a, err)
			}
			for _, w := range a.Items {
				got = append(got, w.SessionID)
			}
			p.Cursor = a.NextCursor
		}
		slices.Sort(want)
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("watches of sessions %v, want %v", got, want)
		}
	})
}

// A page that follows one from before a restart of its member begins with that member's first connection:
// connections are numbered anew.
func TestConnectionsAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const clients = 4
		e := cluster.Start(t, 3, cluster.Options{})
		e.Ready()
		at := e.Followers()[0]
		open := func() {
			for range clients {
				if _, err := e.Dial(at); err != nil {
					t.Fatal(err)
				}
			}
			e.Wait("all connections", time.Minute, func() bool { return statusOf(t, e, at).Connections == clients })
		}
		open()
		only := view.ConnectionFilter{Member: at}
		page, err := e.Member(at).View().Connections(t.Context(), only, view.Page{Limit: clients - 1})
		if err != nil || len(page.Items) != clients-1 || page.NextCursor == "" {
			t.Fatalf("the first page: %+v, %v", page, err)
		}
		e.Stop(at)
		e.Boot(at)
		e.Ready()
		open()
		rest, err := e.Member(at).View().Connections(t.Context(), only, view.Page{Cursor: page.NextCursor})
		if err != nil || len(rest.Items) != clients {
			t.Errorf("after the restart: %d connections, %v; want %d", len(rest.Items), err, clients)
		}
	})
}
