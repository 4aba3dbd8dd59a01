package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/operator/api"
	"rollcall/operator/view"
)

// slowListOps has one list of slow requests, or an error. A cursor is the number of rows before the page.
type slowListOps struct {
	Operations
	list  api.List[api.SlowRequest]
	err   error
	pages int // that were read
}

func (o *slowListOps) SlowRequests(_ context.Context, f view.SlowFilter, p view.Page) (a api.List[api.SlowRequest], err error) {
	if p.Limit != slowPageRows || f != (view.SlowFilter{}) {
		return a, fmt.Errorf("%d of %+v are asked for", p.Limit, f)
	}
	from := 0
	if p.Cursor != "" {
		if from, err = strconv.Atoi(p.Cursor); err != nil {
			return a, err
		}
	}
	o.pages++
	a.Silent, a.Items = o.list.Silent, o.list.Items[from:]
	if len(a.Items) > p.Limit {
		a.Items, a.NextCursor = a.Items[:p.Limit], strconv.Itoa(from+p.Limit)
	}
	return a, o.err
}

// Each request is found once, when its stages are known, and not if they were known at the beginning, or when its member
// replied for the first time.
func TestSlowFollower(t *testing.T) {
	ops, now := &slowListOps{}, time.Unix(0, 0)
	f := slowFollower{ops: ops}
	for i, poll := range []struct {
		rows   string // newest first; ? means that the stages are not known
		silent []api.Silence
		err    error
		after  time.Duration // since the poll before
		want   string        // oldest first
	}{
		{err: errors.New("busy")},
		{rows: "1-5 2-3?", silent: silentThree},
		{err: errors.New("busy")},
		{rows: "1-6 2-3 1-5 3-9", want: "2-3 1-6"},
		{rows: "3-a 1-7? 1-6 2-3 1-5 3-9", want: "3-a"},
		{rows: "3-a 1-7? 1-6 2-3 1-5 3-9", silent: silentThree},
		{rows: "3-b 3-a 1-7 1-6 2-3 1-5 3-9", want: "1-7 3-b"},
		{rows: "3-b 1-7 1-6 2-3 2-2 1-5 1-4 3-8"}, // slower ones were dropped, and older ones are in the page again
		{rows: "x"},
		{rows: "3-d? 3-c? 3-b", want: ""},
		{silent: silentThree},
		{rows: "3-d 3-c? 3-b", want: "3-d"}, // it was silent while their stages were not known
		{silent: silentThree, after: maxSlowWait - 3*time.Second},
		{silent: silentThree, after: time.Second, want: "3-c?"},
		{rows: "3-e? 3-c 3-b"},
		{rows: "3-c", want: "3-e?"}, // a slower one replaced it
	} {
		now = now.Add(max(time.Second, poll.after))
		ops.list, ops.err = api.List[api.SlowRequest]{Silent: poll.silent}, poll.err
		for _, row := range strings.Fields(poll.rows) {
			id, incomplete := strings.CutSuffix(row, "?")
			ops.list.Items = append(ops.list.Items, api.SlowRequest{ID: id, Complete: !incomplete})
		}
		var got []string
		for _, r := range f.newRequests(t.Context(), now) {
			if !r.Complete {
				r.ID += "?"
			}
			got = append(got, r.ID)
		}
		if strings.Join(got, " ") != poll.want {
			t.Errorf("poll %d found %q; want %s", i, got, poll.want)
		}
	}
}

// loadOf returns the slow requests that a member has kept each second from one to another, newest first, in lists of all
// members. Their stages are known once a second is before known.
func loadOf(members, from, to, known int, silent uint32) (rows []api.SlowRequest) {
	for second := to - 1; second >= from; second-- {
		for i := range maxSlowOfSecond * members {
			if r := slowOfLoad(members, second, i); r.MemberID != silent {
				r.Complete = second < known
				rows = append(rows, r)
			}
		}
	}
	return rows
}

// slowOfLoad returns the request at place i among the ones of a second, newest first.
func slowOfLoad(members, second, i int) api.SlowRequest {
	member := uint32(i%members) + 1
	return api.SlowRequest{ID: view.SlowID(member, uint64(1000*second+999-i/members)), MemberID: member}
}

const maxSlowOfSecond = 8 // that a member keeps

// Each request of members that keep as many as they can is found once, while a hanging member delays their stages for longer
// than a page reaches, and another one misses some polls.
func TestSlowFollowerUnderLoad(t *testing.T) {
	const begins, ends, delay = 100, 140, 11 // seconds
	for _, members := range []int{2, 9} {
		ops := &slowListOps{}
		f := slowFollower{ops: ops}
		times := map[string]int{}
		for second := begins; second < ends+delay+20; second++ {
			silent := uint32(0)
			if ops.list.Silent = nil; second >= begins+5 && second < begins+9 {
				silent, ops.list.Silent = 2, []api.Silence{{MemberID: 2}}
			}
			ops.list.Items = loadOf(members, begins-20, min(second, ends), second-delay, silent)
			found := f.newRequests(t.Context(), time.Unix(int64(second), 0))
			if len(found) > maxSlowEvents {
				t.Fatalf("%d are found at once", len(found))
			}
			for _, r := range found {
				times[r.ID]++
				of, err := view.ParseSlowID(r.ID)
				if old := of.Number < 1000*(begins-delay); err != nil || old || !r.Complete || times[r.ID] > 1 {
					t.Fatalf("%d members: %s is found %d times, complete: %t", members, r.ID, times[r.ID], r.Complete)
				}
			}
		}
		for second := begins; second < ends; second++ {
			for i := range maxSlowOfSecond * members {
				if id := slowOfLoad(members, second, i).ID; times[id] == 0 {
					t.Fatalf("%d members: %s is not found", members, id)
				}
			}
		}
		if len(f.pending)+len(f.order) > 0 {
			t.Errorf("%d members: %d are pending at the end, and %d in order", members, len(f.pending), len(f.order))
		}
		ops.pages = 0
		f.newRequests(t.Context(), time.Unix(ends+100, 0))
		if ops.pages != 1 {
			t.Errorf("%d members: %d pages are read though nothing is new", members, ops.pages)
		}
	}
}

// Requests from before the stream that come to light when newer ones were dropped are not found, whether their members were silent
// at the beginning or not.
func TestSlowFollowerOfFullPage(t *testing.T) {
	newer, older := loadOf(1, 100, 110, 110, 0), []api.SlowRequest{{ID: "2-ff", Complete: true}, {ID: "3-fe", Complete: true}}
	ops := &slowListOps{list: api.List[api.SlowRequest]{Items: append(newer, older[0]), Silent: silentThree}}
	f := slowFollower{ops: ops}
	found := f.newRequests(t.Context(), time.Unix(110, 0))
	ops.list = api.List[api.SlowRequest]{Items: append(newer, older...)}
	found = append(found, f.newRequests(t.Context(), time.Unix(111, 0))...)
	ops.list.Items = append([]api.SlowRequest{{ID: "3-fffff1", Complete: true}, {ID: "2-fffff0", Complete: true}}, older...)
	found = append(found, f.newRequests(t.Context(), time.Unix(112, 0))...)
	if len(found) != 2 || found[0].ID != "2-fffff0" || found[1].ID != "3-fffff1" {
		t.Errorf("found %+v; want 2-fffff0 and 3-fffff1", found)
	}
}

// rowsOf returns finished requests of member 1 with n numbers up to newest, newest first.
func rowsOf(n int, newest uint64) (rows []api.SlowRequest) {
	for i := range uint64(n) {
		rows = append(rows, api.SlowRequest{ID: view.SlowID(1, newest-i), Complete: true})
	}
	return rows
}

// When a member replies again after some polls, all requests that it has recorded meanwhile are read. The records of a
// member that replies for the first time are old, also beyond the pages that are read.
func TestSlowFollowerOfReturningMembers(t *testing.T) {
	ops := &slowListOps{list: api.List[api.SlowRequest]{Items: rowsOf(1, 0x10), Silent: silentThree}}
	f := slowFollower{ops: ops}
	last := []api.SlowRequest{{ID: "2-20", Complete: true}, {ID: "3-2", Complete: true}}
	var found []api.SlowRequest
	for i, list := range []api.List[api.SlowRequest]{
		ops.list,
		{Items: rowsOf(1, 0x1000), Silent: []api.Silence{{MemberID: 2}, {MemberID: 3}}},
		{Items: slices.Concat(rowsOf(70, 0x2000), rowsOf(70, 0x1000), last[:1], rowsOf(1, 0x10)), Silent: silentThree},
		{Items: slices.Concat(rowsOf(70, 0x3000), rowsOf(70, 0x2000), last)},
		{Items: last[1:]},
	} {
		ops.list = list
		for _, r := range f.newRequests(t.Context(), time.Unix(int64(i), 0)) {
			if of, err := view.ParseSlowID(r.ID); err != nil || of.Member != 1 {
				found = append(found, r)
			}
		}
	}
	if len(found) != 1 || found[0].ID != "2-20" {
		t.Errorf("of the members that were silent, %+v are found; want 2-20", found)
	}
}

// Requests that no page reports as done are bounded: the oldest are sent as they are.
func TestSlowFollowerIsBounded(t *testing.T) {
	ops := &slowListOps{}
	f := slowFollower{ops: ops}
	f.newRequests(t.Context(), time.Unix(0, 0))
	const rows = slowPageRows * maxSlowPages
	var got []api.SlowRequest
	for poll := range 4 {
		ops.list.Items = nil
		for i := range rows {
			ops.list.Items = append(ops.list.Items, api.SlowRequest{ID: view.SlowID(1, uint64((poll+1)*rows-i))})
		}
		ops.list.Silent = nil
		got = append(got, f.newRequests(t.Context(), time.Unix(0, 0))...)
		if len(f.order) > maxSlowPending || len(f.pending) != len(f.order) {
			t.Fatalf("poll %d: %d are pending, and %d in order", poll, len(f.pending), len(f.order))
		}
	}
	if len(got) != 3*maxSlowEvents || got[0].ID != "1-1" {
		t.Errorf("%d were sent", len(got))
	}
}

// A stream has the slow requests that are new, each with its path if the reader may see it.
func TestSlowEvents(t *testing.T) {
	for _, tt := range []struct {
		name, header string
		want         []string
	}{
		{"an administrator", "Authorization: Bearer " + testToken + "\r\n", []string{"/open/e", "/b/secret", ""}},
		{"a reader without credentials", "", []string{"/open/e", "", ""}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ops := &watchedOps{fakeOps: newFakeOps()}
				rows := []api.SlowRequest{
					{ID: "1-4", Op: "ping", Complete: true},
					{ID: "1-3", Path: "/b/secret", Complete: true},
					{ID: "1-2", Path: "/open/e", Complete: true},
					{ID: "1-1", Path: "/open/old", Complete: true},
				}
				ops.slowLists = []api.List[api.SlowRequest]{{Items: rows[3:]}, {Items: rows}}
				h, _ := newTestHTTP(t, "leader", func(cfg *HTTPConfig) {
					cfg.Source, cfg.Operations, cfg.AnonymousAccess = guardedSource{cfg.Source.(*fakeSource)}, ops, AnonymousAccess{}
				})
				p, stop := serveOn(t, h)
				defer stop()
				synctest.Wait()
				l := listen(t, p, "/v1/events", tt.header)
				defer func() { _ = l.Close() }()
				for i, want := range tt.want {
					var got api.SlowRequest
					if err := json.Unmarshal([]byte(l.until(t, "slow")), &got); err != nil {
						t.Fatal(err)
					}
					if id := fmt.Sprintf("1-%d", 2+i); got.ID != id || got.Path != want {
						t.Errorf("event %d is of %s, %q; want %s, %q", i, got.ID, got.Path, id, want)
					}
				}
			})
		})
	}
}
