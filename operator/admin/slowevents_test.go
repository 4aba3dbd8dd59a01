package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"rollcall/operator/api"
	"rollcall/operator/view"
)

// slowListOps has one list of slow requests, or an error.
type slowListOps struct {
	Operations
	list api.List[api.SlowRequest]
	err  error
}

func (o *slowListOps) SlowRequests(_ context.Context, _ view.SlowFilter, p view.Page) (api.List[api.SlowRequest], error) {
	if p.Limit != maxSlowEvents {
		return api.List[api.SlowRequest]{}, fmt.Errorf("%d are asked for", p.Limit)
	}
	return o.list, o.err
}

// Each request is found once, when its stages are known, and not if they were known at the beginning, or when its member
// replied for the first time.
func TestSlowFollower(t *testing.T) {
	ops := &slowListOps{}
	f := slowFollower{ops: ops}
	for i, poll := range []struct {
		rows   string // newest first; ? means that the stages are not known
		silent []api.Silence
		err    error
		want   string // oldest first
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
	} {
		ops.list, ops.err = api.List[api.SlowRequest]{Silent: poll.silent}, poll.err
		for _, row := range strings.Fields(poll.rows) {
			id, incomplete := strings.CutSuffix(row, "?")
			ops.list.Items = append(ops.list.Items, api.SlowRequest{ID: id, Complete: !incomplete})
		}
		var got []string
		for _, r := range f.newRequests(t.Context()) {
			got = append(got, r.ID)
		}
		if strings.Join(got, " ") != poll.want {
			t.Errorf("poll %d found %q; want %s", i, got, poll.want)
		}
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
					{ID: "1-4", Op: "ping", Complete: true}, {ID: "1-3", Path: "/b/secret", Complete: true},
					{ID: "1-2", Path: "/open/e", Complete: true}, {ID: "1-1", Path: "/open/old", Complete: true},
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
