package integration

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/cluster"
	"rollcall/operator/api"
	"rollcall/operator/view"
	"rollcall/zk/jute"
)

// viewed is an ensemble with a few sessions on each member, some of them without a connection.
type viewed struct {
	*cluster.Ensemble
	t       *testing.T
	leader  uint32
	owner   *cluster.Client           // has ephemeral nodes and watches, on the leader
	members map[jute.SessionID]uint32 // each session's member
	lost    map[jute.SessionID]bool   // sessions without a connection
}

const viewTimeout = 20 * time.Second

func startViewed(t *testing.T) *viewed {
	t.Helper()
	e := cluster.Start(t, 3, cluster.Options{HTTP: true})
	v := &viewed{Ensemble: e, t: t, leader: e.Ready(), members: map[jute.SessionID]uint32{}, lost: map[jute.SessionID]bool{}}
	e.Joined()
	v.owner = e.Connect(viewTimeout, v.leader)
	v.members[v.owner.Session()] = v.leader
	for i := range 3 {
		if _, err := v.owner.Create(fmt.Sprintf("/lock-%d", i), nil, jute.Ephemeral); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 12 {
		at := e.IDs()[i%3]
		conn, granted := e.Open(at, viewTimeout)
		if v.members[granted.SessionID] = at; i%4 == 3 {
			v.lost[granted.SessionID] = true
			_ = conn.Close()
		}
	}
	synctest.Wait()
	e.Equal()
	return v
}

// sessions returns all sessions as a member shows them, in pages of five, and the members that were silent, with the
// reasons of the first page on which they were. The times that come from the leader are left out, because they change.
func (v *viewed) sessions(at uint32, f view.SessionFilter) (all []api.Session, silent []api.Silence) {
	v.t.Helper()
	for p := (view.Page{Limit: 5}); ; {
		begun := time.Now()
		a, err := v.Member(at).View().Sessions(v.t.Context(), f, p)
		if took := time.Since(begun); err != nil || took > viewDeadline {
			v.t.Fatalf("member %d: after %v: %v", at, took, err)
		}
		for _, one := range a.Silent {
			if one.Reason != view.ReasonSkipped {
				silent = append(silent, one)
			}
		}
		for _, s := range a.Items {
			s.HeardMs, s.LeftMs = nil, nil
			all = append(all, s)
		}
		if a.NextCursor == "" {
			return all, silent
		}
		p.Cursor = a.NextCursor
	}
}

// viewDeadline is within how much time a member shows a page: a tick.
const viewDeadline = time.Second

// Every member shows the same sessions, with their members, connections and times, and finds the owner of
// a node, the watches on a path and all connections.
func TestViewFromAnyMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := startViewed(t)
		watcher := v.Connect(viewTimeout, v.Followers()[0])
		v.members[watcher.Session()] = v.Followers()[0]
		for _, c := range []*cluster.Client{v.owner, watcher} {
			if _, err := c.Exists("/lock-1", true); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := v.owner.Do(jute.OpAddWatch, &jute.AddWatchRequest{Path: []byte("/"), Mode: jute.AddWatchPersistentRecursive}); err != nil {
			t.Fatal(err)
		}
		v.Equal()
		var first []api.Session
		for _, at := range v.IDs() {
			got, silent := v.sessions(at, view.SessionFilter{})
			if len(silent) > 0 || len(got) != len(v.members) {
				t.Fatalf("member %d shows %d sessions, want %d; silent: %+v", at, len(got), len(v.members), silent)
			}
			v.compare(at, got, 0)
			if first == nil {
				first = got
			}
			if !sameSessions(first, got) {
				t.Errorf("member %d shows\n%+v, and member 1\n%+v", at, got, first)
			}
			v.showsTimes(at)
			v.showsOwner(at)
			v.showsWatches(at, watcher)
			v.showsConnections(at)
			v.showsStatus(at)
		}
	})
}

func idOf(s api.Session) jute.SessionID {
	id, _ := jute.ParseSessionID(s.ID)
	return id
}

// compare checks rows against the known sessions. The sessions of a silent member are unknown.
func (v *viewed) compare(at uint32, rows []api.Session, silent uint32) {
	v.t.Helper()
	for i, s := range rows {
		want := view.StateConnected
		switch {
		case s.MemberID == silent:
			want = view.StateUnknown
		case v.lost[idOf(s)]:
			want = view.StateDisconnected
		}
		ephemerals := 0
		if idOf(s) == v.owner.Session() {
			ephemerals = 3
		}
		if s.MemberID != v.members[idOf(s)] || s.State != want || s.TimeoutMs != viewTimeout.Milliseconds() || s.EphemeralCount != ephemerals {
			v.t.Errorf("member %d shows %+v, want member %d, %v, %d ephemerals", at, s, v.members[idOf(s)], want, ephemerals)
		}
		if i > 0 && uint64(idOf(s)) <= uint64(idOf(rows[i-1])) ||
			(s.Connection != nil && s.Connection.SessionID == s.ID) != (want == view.StateConnected) {
			v.t.Errorf("member %d shows %+v after %v", at, s, rows[max(i, 1)-1].ID)
		}
	}
}

// showsTimes checks the leader's times of each session: it was heard when it was opened, or since.
func (v *viewed) showsTimes(at uint32) {
	v.t.Helper()
	a, err := v.Member(at).View().Sessions(v.t.Context(), view.SessionFilter{}, view.Page{})
	if err != nil {
		v.t.Fatal(err)
	}
	for _, s := range a.Items {
		if lived := time.Since(s.CreatedAt); s.HeardMs == nil || s.LeftMs == nil ||
			*s.HeardMs+*s.LeftMs != viewTimeout.Milliseconds() || *s.HeardMs > (lived+time.Second).Milliseconds() {
			v.t.Errorf("member %d: session %v of %v ago: %+v, of %v", at, s.ID, lived, s, viewTimeout)
		}
	}
}

func (v *viewed) showsOwner(at uint32) {
	v.t.Helper()
	m := v.Member(at).View()
	for path, want := range map[string]string{"/lock-1": view.KindEphemeral, "/zookeeper": view.KindPersistent, "/nowhere": view.KindNone} {
		o, err := m.NodeOwner(v.t.Context(), path)
		if err != nil || o.Kind != want || (want == view.KindEphemeral) != (o.SessionID == v.owner.Session().String()) || len(o.Silent) > 0 {
			v.t.Errorf("member %d: owner of %s: %+v, %v", at, path, o, err)
		}
	}
	o, err := m.NodeOwner(v.t.Context(), "/")
	var names []string
	for _, child := range o.Children {
		names = append(names, child.Name)
		if child.SessionID != v.owner.Session().String() || child.MemberID != v.owner.Member() || child.SessionEnded {
			v.t.Errorf("member %d: a child of /: %+v", at, child)
		}
	}
	if want := []string{"lock-0", "lock-1", "lock-2"}; err != nil || o.EphemeralCount != 3 || o.ChildrenCut || !slices.Equal(names, want) {
		v.t.Errorf("member %d: children of /: %+v, %v, want %q", at, o, err, want)
	}
	for size := 1; size <= 4; size++ {
		var paths []string
		for p := (view.Page{Limit: size}); ; {
			a, err := m.Ephemerals(v.t.Context(), v.owner.Session(), p)
			if err != nil {
				v.t.Fatal(err)
			}
			for _, one := range a.Items {
				paths = append(paths, one.Path)
			}
			if a.NextCursor == "" {
				break
			}
			p.Cursor = a.NextCursor
		}
		if !slices.Equal(paths, []string{"/lock-0", "/lock-1", "/lock-2"}) {
			v.t.Errorf("member %d: pages of %d ephemerals: %v", at, size, paths)
		}
	}
}

func (v *viewed) showsWatches(at uint32, watcher *cluster.Client) {
	v.t.Helper()
	const watches = 3 // two of the owner's connection
	var all []api.Watch
	for p := (view.Page{Limit: 1}); len(all) == 0 || p.Cursor != ""; {
		a, err := v.Member(at).View().PathWatches(v.t.Context(), "/lock-1", p)
		if err != nil || len(a.Silent) > 0 || len(all) > watches {
			v.t.Fatalf("member %d: watches: %+v, %v", at, a, err)
		}
		all, p.Cursor = append(all, a.Items...), a.NextCursor
	}
	if len(all) != watches || !slices.ContainsFunc(all, func(w api.Watch) bool {
		return w.SessionID == v.owner.Session().String() && w.Path == "/" && w.Recursive
	}) {
		v.t.Errorf("member %d: not the watches of sessions %v and %v, and the recursive one of the first: %+v", at, v.owner.Session(), watcher.Session(), all)
	}
	for _, c := range []*cluster.Client{v.owner, watcher} {
		if !slices.ContainsFunc(all, func(w api.Watch) bool {
			return w.SessionID == c.Session().String() && w.MemberID == c.Member() && w.Path == "/lock-1" && w.Data && !w.Persistent
		}) {
			v.t.Errorf("member %d: no watch of session %v: %+v", at, c.Session(), all)
		}
	}
	one, err := v.Member(at).View().SessionWatches(v.t.Context(), watcher.Session(), view.Page{})
	if err != nil || len(one.Items) != 1 || one.Items[0].Path != "/lock-1" {
		v.t.Errorf("member %d: watches of session %v: %+v, %v", at, watcher.Session(), one, err)
	}
}

func (v *viewed) showsConnections(at uint32) {
	v.t.Helper()
	var all []api.Connection
	for p := (view.Page{Limit: 2}); ; {
		a, err := v.Member(at).View().Connections(v.t.Context(), view.ConnectionFilter{}, p)
		if err != nil || len(a.Silent) > 0 {
			v.t.Fatalf("member %d: %+v, %v", at, a, err)
		}
		if all = append(all, a.Items...); a.NextCursor == "" {
			break
		}
		p.Cursor = a.NextCursor
	}
	if want := len(v.members) - len(v.lost); len(all) != want {
		v.t.Errorf("member %d shows %d connections, want %d", at, len(all), want)
	}
	for _, c := range all {
		id, _ := jute.ParseSessionID(c.SessionID)
		if v.members[id] != c.MemberID || v.lost[id] {
			v.t.Errorf("member %d shows %+v", at, c)
		}
	}
}

// showsConnectionsOf checks that the connections of one member, or at one address, are the sessions' connections.
func (v *viewed) showsConnectionsOf(at uint32, all []api.Session) {
	v.t.Helper()
	address := ""
	for _, s := range all {
		if s.State == view.StateConnected {
			address = s.Address
		}
	}
	for _, filter := range []view.ConnectionFilter{{Member: 2}, {Address: address}, {Address: "10.9.8.7"}} {
		want := 0
		for _, s := range all {
			if s.State == view.StateConnected && (filter.Member == 0 || s.MemberID == filter.Member) &&
				(filter.Address == "" || s.Address == filter.Address) {
				want++
			}
		}
		a, err := v.Member(at).View().Connections(v.t.Context(), filter, view.Page{})
		if err != nil || len(a.Items) != want || (want > 0) != (filter.Address != "10.9.8.7") {
			v.t.Errorf("member %d: %d connections of %+v, want %d: %v", at, len(a.Items), filter, want, err)
		}
	}
}

func (v *viewed) showsStatus(at uint32) {
	v.t.Helper()
	a, err := v.Member(at).View().MemberStatuses(v.t.Context())
	if err != nil || len(a.Items) != 3 {
		v.t.Fatalf("member %d: %+v, %v", at, a, err)
	}
	for _, s := range a.Items {
		carried := 0
		for id, member := range v.members {
			if member == s.MemberID && !v.lost[id] {
				carried++
			}
		}
		role := "follower"
		if s.MemberID == v.leader {
			role = "leader"
		}
		if s.Role != role || s.LeaderID != v.leader || s.Sessions != carried || s.Connections != carried || s.Lag == nil || *s.Lag != 0 ||
			s.Version != "dev" || s.ClientAddress == "" || s.QuorumAddress == "" || s.IsJoining || s.StallReason != "" || s.DamageReason != "" || s.Zxid == "0x0" || s.DigestVerdict == view.DigestDiffers {
			v.t.Errorf("member %d shows %+v, want a %s with %d sessions", at, s, role, carried)
		}
	}
}

// withoutOne are the ways in which a member may be missing.
var withoutOne = []struct {
	name string
	do   func(e *cluster.Ensemble, id uint32)
	asks bool // whether the member itself still shows the ensemble
}{
	{"killed", (*cluster.Ensemble).Kill, false},
	{"stopped", (*cluster.Ensemble).Pause, false},
	{"cut off", (*cluster.Ensemble).Isolate, true},
	{"packets to it are lost", func(e *cluster.Ensemble, id uint32) {
		e.Shut(id, cluster.GRPCPort, cluster.In|cluster.Out|cluster.Silent)
	}, true},
}

// While one member is killed, stopped, cut off or shut, every member that hears the others names it,
// and shows the same rows within the deadline. The one that is cut off shows all sessions too, and names
// the others.
func TestViewWithoutOneMember(t *testing.T) {
	for _, tt := range withoutOne {
		for _, leads := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, leads=%t", tt.name, leads), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					v := startViewed(t)
					gone := v.leader
					if !leads {
						gone = v.Followers()[0]
					}
					tt.do(v.Ensemble, gone)
					var before []api.Session
					for _, at := range v.IDs() {
						if at == gone {
							continue
						}
						got, silent := v.sessions(at, view.SessionFilter{})
						if len(silent) != 1 || silent[0].MemberID != gone || silent[0].Reason != view.ReasonDown && silent[0].Reason != view.ReasonLate {
							t.Errorf("member %d: silent %+v, want member %d", at, silent, gone)
						}
						if before == nil {
							before = got
							v.compare(at, got, gone)
						}
						if !sameSessions(got, before) {
							t.Errorf("member %d shows\n%+v, and another\n%+v", at, got, before)
						}
					}
					if tt.asks {
						got, silent := v.sessions(gone, view.SessionFilter{})
						if len(got) != len(v.members) || len(silent) != 2 {
							t.Errorf("member %d shows %d sessions of %d; silent %+v", gone, len(got), len(v.members), silent)
						}
					}
				})
			})
		}
	}
}

// sameSessions compares lists of sessions, with what their connections hold, without the rates: they depend on the moment of the
// question.
func sameSessions(a, b []api.Session) bool {
	return slices.EqualFunc(a, b, func(a, b api.Session) bool { return reflect.DeepEqual(withoutRates(a), withoutRates(b)) })
}

func withoutRates(s api.Session) api.Session {
	if s.Connection != nil {
		c := *s.Connection
		c.RequestsPerS, c.BytesPerS = 0, 0
		s.Connection = &c
	}
	return s
}

// Filters select sessions by id, member, state and address, the same on every member.
func TestViewFilters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := startViewed(t)
		for _, at := range v.IDs() {
			all, _ := v.sessions(at, view.SessionFilter{})
			for name, tt := range map[string]struct {
				filter view.SessionFilter
				want   func(s api.Session) bool
			}{
				"id":           {view.SessionFilter{ID: idOf(all[3])}, func(s api.Session) bool { return s.ID == all[3].ID }},
				"member":       {view.SessionFilter{Member: 2}, func(s api.Session) bool { return s.MemberID == 2 }},
				"state":        {view.SessionFilter{State: view.StateDisconnected}, func(s api.Session) bool { return v.lost[idOf(s)] }},
				"address":      {view.SessionFilter{Address: all[1].Address}, func(s api.Session) bool { return s.Address == all[1].Address }},
				"all of these": {view.SessionFilter{Member: 1, State: view.StateConnected, Address: all[0].Address}, func(s api.Session) bool { return s.MemberID == 1 && !v.lost[idOf(s)] && s.Address == all[0].Address }},
				"nowhere":      {view.SessionFilter{Address: "10.9.8.7"}, func(api.Session) bool { return false }},
			} {
				want := slices.DeleteFunc(slices.Clone(all), func(s api.Session) bool { return !tt.want(s) })
				if got, _ := v.sessions(at, tt.filter); !sameSessions(got, want) {
					t.Errorf("member %d, %s:\n%+v, want\n%+v", at, name, got, want)
				}
			}
			v.showsConnectionsOf(at, all)
		}
	})
}

// A member whose disk hangs serves on, and says so, instead of waiting for its disk.
func TestViewOfStalledMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := startViewed(t)
		stalled := v.Followers()[0]
		v.Disk(stalled).Stall()
		if _, err := v.owner.Create("/more", nil, jute.Persistent); err != nil {
			t.Fatal(err)
		}
		var row api.Member
		v.Wait("the member to notice that its disk hangs", 20*time.Second, func() bool {
			a, err := v.Member(v.leader).View().MemberStatuses(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			row = a.Items[slices.IndexFunc(a.Items, func(s api.Member) bool { return s.MemberID == stalled })]
			return row.StallReason != ""
		})
		if row.Role != "follower" || row.Zxid == "0x0" || row.Lag == nil || *row.Lag != 0 ||
			!strings.Contains(row.StallReason, "its disk hangs") {
			t.Errorf("%+v, want a follower that serves, whose disk hangs", row)
		}
		v.Disk(stalled).Release()
	})
}

// The pages of a session's ephemeral nodes and of its watches end at a number of bytes, too. Put together
// they have each path once.
func TestViewOfLongPaths(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := cluster.Start(t, 1, cluster.Options{})
		id := e.Ready()
		k := e.Connect(viewTimeout, id)
		var want []string
		for i := range 25 {
			path := fmt.Sprintf("/%02d%s", i, strings.Repeat("x", 60<<10))
			if _, err := k.Create(path, nil, jute.Ephemeral); err != nil {
				t.Fatal(err)
			}
			if _, err := k.Exists(path, true); err != nil {
				t.Fatal(err)
			}
			want = append(want, path)
		}
		m := e.Member(id).View()
		read := func(what string, page func(view.Page) ([]string, string, error)) {
			var got []string
			pages := 0
			for p := (view.Page{}); pages == 0 || p.Cursor != ""; pages++ {
				paths, next, err := page(p)
				if err != nil || len(paths) > 18 {
					t.Fatalf("%s: %d paths, %v", what, len(paths), err)
				}
				got, p.Cursor = append(got, paths...), next
			}
			if !slices.Equal(got, want) || pages != 2 {
				t.Errorf("%s: %d paths on %d pages, want %d on 2", what, len(got), pages, len(want))
			}
		}
		read("ephemerals", func(p view.Page) (paths []string, next string, err error) {
			a, err := m.Ephemerals(t.Context(), k.Session(), p)
			for _, one := range a.Items {
				paths = append(paths, one.Path)
			}
			return paths, a.NextCursor, err
		})
		read("watches", func(p view.Page) (paths []string, next string, err error) {
			a, err := m.SessionWatches(t.Context(), k.Session(), p)
			for _, w := range a.Items {
				paths = append(paths, w.Path)
			}
			return paths, a.NextCursor, err
		})
	})
}
