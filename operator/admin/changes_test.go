package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/operator/api"
	"rollcall/operator/past"
	"rollcall/operator/past/pasttest"
	"rollcall/operator/past/served"
	"rollcall/zk/jute"
)

// fakeLog is a served.Log with what an ensemble has recorded.
type fakeLog struct{ *pasttest.Ensemble }

// Chains implements served.Log.
func (l fakeLog) Chains(bool) ([]past.Chain, error) { return []past.Chain{l.Ensemble}, nil }

// LastIndex implements served.Log.
func (l fakeLog) LastIndex() (uint64, error) { return uint64(len(l.Log)), nil }

// secretData and secretUser must be in no reply about changes.
const secretData, secretUser = "the-data-of-a-node", "digest-of-a-user"

// withPast returns an ensemble with a small night, and an HTTP that has its log.
func withPast(t *testing.T) (*HTTP, *pasttest.Ensemble) {
	t.Helper()
	e := pasttest.New(t, began.UnixMilli())
	c := e.Connect("10.0.0.7:1")
	c.Create("/lock", secretData, 0)
	e.Apply(c.SetACLTxn("/lock", []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: []byte("digest"), ID: []byte("user:" + secretUser)}}}))
	c.Create("/jobs", "", 0)
	for range 2 {
		c.Create("/jobs/lock-", "", jute.EphemeralSequential)
	}
	e.NowMs += 60_000
	gone := e.Connect("10.0.0.8:2")
	gone.Create("/jobs/lock-", "", jute.EphemeralSequential)
	e.Snapshot()
	gone.Expire()
	e.NowMs += 60_000
	c.Close()
	l, err := past.Open(t.Context(), e, past.Moment{})
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	h, _ := newTestHTTP(t, "leader", func(cfg *HTTPConfig) { cfg.Past = served.New(fakeLog{e}, l.State(), slog.New(slog.DiscardHandler)) })
	return h, e
}

// changesOf returns the rows of a list.
func changesOf(t *testing.T, body *bytes.Buffer) (rows []api.Change) {
	t.Helper()
	for d := json.NewDecoder(body); d.More(); {
		var c api.Change
		if err := d.Decode(&c); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, c)
	}
	return rows
}

// The changes are lines of JSON, for all or for some nodes and sessions. The last line names the last zxid. They have no
// data, no list and no password.
func TestV1Changes(t *testing.T) {
	for _, tt := range []struct{ query, want string }{
		{"", "0.1 open session,1.1 create /lock,2.1 set acl /lock,3.1 create /jobs,4.1 create /jobs/lock-0000000000,5.1 create /jobs/lock-0000000001,6.1 open session,7.1 create /jobs/lock-0000000002,8.1 expire session,8.2 delete /jobs/lock-0000000002,9.1 close session,9.2 delete /jobs/lock-0000000000,9.3 delete /jobs/lock-0000000001,9.0 passed"},
		{"?path=/jobs&from=0x100000007", "8.2 delete /jobs/lock-0000000002,9.2 delete /jobs/lock-0000000000,9.3 delete /jobs/lock-0000000001,9.0 passed"},
		{"?from=0x100000009&number=2", "9.3 delete /jobs/lock-0000000001,9.0 passed"},
		{"?from=0x100000009&follow=false", "9.0 passed"},
		{"?session=0x100000000000066&to=0x100000008", "6.1 open session,7.1 create /jobs/lock-0000000002,8.1 expire session,8.2 delete /jobs/lock-0000000002,8.0 passed"},
		{"?from=" + url.QueryEscape(began.Add(time.Minute).Format(time.RFC3339)), "9.1 close session,9.2 delete /jobs/lock-0000000000,9.3 delete /jobs/lock-0000000001,9.0 passed"},
	} {
		h, _ := withPast(t)
		w := visit{method: "GET", path: "/v1/changes" + tt.query, header: signedIn}.to(h)
		if w.Code != 200 || w.Header().Get("Content-Type") != "application/x-ndjson" {
			t.Fatalf("%s: %d %s", tt.query, w.Code, w.Body)
		}
		for _, secret := range []string{secretData, secretUser, "AQEBAQ", "0101010101"} {
			if strings.Contains(w.Body.String(), secret) {
				t.Errorf("%s: %s is in %s", tt.query, secret, w.Body)
			}
		}
		var got []string
		for _, c := range changesOf(t, w.Body) {
			got = append(got, strings.TrimSpace(fmt.Sprintf("%s.%d %s %s", strings.TrimPrefix(c.Zxid, "0x10000000"), c.Number, c.Operation, c.Path)))
		}
		if text := strings.Join(got, ","); text != tt.want {
			t.Errorf("%s:\n%s, want\n%s", tt.query, text, tt.want)
		}
	}
}

// What cannot be listed or shown has a reason, and only administrators on the member's own machine get the past.
func TestPastIsRejected(t *testing.T) {
	for _, tt := range []struct {
		visit  visit
		status int
		want   string
	}{
		{visit{path: "/v1/changes?from=yesterday", header: signedIn}, 400, "from="},
		{visit{path: "/v1/changes?to=10", header: signedIn}, 400, "to="},
		{visit{path: "/v1/changes?follow=true&to=0x100000002", header: signedIn}, 400, "leave one of them out"},
		{visit{path: "/v1/changes?follow=yes", header: signedIn}, 400, "follow="},
		{visit{path: "/v1/changes?number=2", header: signedIn}, 400, "from must be the zxid"},
		{visit{path: "/v1/changes?limit=2", header: signedIn}, 400, "unknown parameter"},
		{visit{path: "/v1/changes?from=0x200000000", header: signedIn}, 404, "this member has applied the log up to zxid 0x100000009"},
		{visit{path: "/v1/changes"}, 401, "credentials"},
		{visit{path: "/v1/changes", header: signedIn, from: "10.0.0.9:5"}, 403, "own machine"},
		{visit{path: "/v1/sessions?at=0x200000000", header: signedIn}, 404, "the newest moment that can be built is zxid 0x100000009"},
		{visit{path: "/v1/sessions?at=now", header: signedIn}, 400, "at="},
		{visit{path: "/v1/sessions/0x99?at=0x100000002", header: signedIn}, 404, "there is no session 0x99"},
		{visit{path: "/v1/status?at=0x100000002", header: signedIn}, 400, "unknown parameter"},
		{visit{path: "/v1/sessions"}, 200, "items"},
		{visit{path: "/v1/sessions?at=0x100000002"}, 401, "credentials"},
		{visit{path: "/v1/sessions?at"}, 401, "credentials"},
		{visit{path: "/v1/members?at=0x100000002", header: signedIn, from: "10.0.0.9:5"}, 403, "own machine"},
	} {
		h, _ := withPast(t)
		tt.visit.method = "GET"
		if w := tt.visit.to(h); w.Code != tt.status || !strings.Contains(w.Body.String(), tt.want) {
			t.Errorf("%+v: %d %s, want %d %s", tt.visit, w.Code, w.Body, tt.status, tt.want)
		}
	}
	h, _ := newTestHTTP(t, "leader")
	for _, path := range []string{"/v1/changes", "/v1/sessions?at=1m"} {
		if w := (visit{method: "GET", path: path, header: signedIn}).to(h); w.Code != 409 {
			t.Errorf("%s of a member without a past: %d %s", path, w.Code, w.Body)
		}
	}
}

// Failures about states that a member does not build name the command that builds them.
func TestPastFailure(t *testing.T) {
	for _, tt := range []struct {
		err    error
		status int
		reason string
		want   string
	}{
		{fmt.Errorf("%w: 70 MiB", past.ErrTooLarge), 501, api.ReasonTooLarge, "rollcall sessions --at"},
		{fmt.Errorf("%w: not done in 2m", served.ErrTooSlow), 503, "", "rollcall sessions --at"},
		{served.ErrBusy, 503, "", "try again"},
		{past.ErrNeverGiven, 404, "", "no transaction has this zxid"},
		{fmt.Errorf("x: %w", &Failure{Status: 410, Text: "gone"}), 410, "", "gone"},
	} {
		if f := pastFailure(tt.err, "sessions --at"); f.Status != tt.status || f.Reason != tt.reason || !strings.Contains(f.Text, tt.want) {
			t.Errorf("%v: %+v", tt.err, f)
		}
	}
}

// At each zxid and time, each endpoint with a past replies what the command shows, which builds the state itself.
func TestAtIsWhatTheCommandShows(t *testing.T) {
	h, e := withPast(t)
	last := e.State.Zxid()
	moments := []string{"2026-11-20T02:43:20Z", began.Add(90 * time.Second).Format(time.RFC3339)}
	for zxid := last - 9; zxid <= last; zxid++ {
		moments = append(moments, fmt.Sprintf("0x%x", zxid))
	}
	slices.Reverse(moments) // backwards, so that states are also built anew
	paths := []string{
		"/v1/sessions", "/v1/sessions?sort=ephemerals", "/v1/sessions?limit=1", "/v1/sessions/0x100000000000065", "/v1/sessions/0x100000000000066/ephemerals",
		"/v1/owner?path=/jobs", "/v1/owner?path=/jobs/lock-0000000002", "/v1/ends", "/v1/removals?path=/jobs/lock-0000000002", "/v1/members",
	}
	if len(pastCommands) != 7 {
		t.Errorf("%d endpoints have a past; add one of each to the paths here", len(pastCommands))
	}
	for _, moment := range moments {
		m, err := past.ParseMoment(moment, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		l, err := past.Open(t.Context(), e, m)
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		command, err := NewPastHandler(l.State(), func() time.Time { return momentTime(m, l.Point()) })
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			want := httptest.NewRecorder()
			command.ServeHTTP(want, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
			at := path + map[bool]string{true: "&", false: "?"}[strings.Contains(path, "?")] + "at=" + moment
			got := visit{method: "GET", path: at, header: signedIn}.to(h)
			if strings.HasPrefix(path, "/v1/removals") { // a state knows those since its snapshot
				got.Body.Truncate(min(got.Body.Len(), 10))
				want.Body.Truncate(min(want.Body.Len(), 10))
			}
			if got.Code != want.Code || got.Body.String() != want.Body.String() {
				t.Errorf("%s: %d %s, want %d %s", at, got.Code, got.Body, want.Code, want.Body)
			}
			if zxid := got.Header().Get("Rollcall-Zxid"); got.Code == 200 && zxid != fmt.Sprintf("0x%x", l.Point().Zxid) {
				t.Errorf("%s: the state is that of %s", at, zxid)
			}
			if at := got.Header().Get("Rollcall-Time"); got.Code == 200 && at != l.Point().Time.Format(time.RFC3339Nano) {
				t.Errorf("%s: the time is %s", at, at)
			}
		}
	}
}

// A list that follows ends when its caller leaves. One that is cut short by a fault is not taken for a whole one.
func TestChangesEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, e := withPast(t)
		r := httptest.NewRequestWithContext(t.Context(), "GET", "http://127.0.0.1/v1/changes?follow=true&from=0x100000008", nil)
		r.Header.Set(signedIn[0], signedIn[1])
		r.RemoteAddr = "127.0.0.1:1"
		w := httptest.NewRecorder()
		ctx, leave := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			h.handler.ServeHTTP(recorder{w}, r.WithContext(ctx))
			close(ended)
		}()
		time.Sleep(time.Minute)
		leave()
		<-ended
		rows := changesOf(t, w.Body)
		if len(rows) < 10 || rows[0].Operation != "close session" || rows[3].Operation != "passed" || rows[3].Zxid != "0x100000009" {
			t.Errorf("%+v", rows)
		}
		e.Log[len(e.Log)-1].Data = []byte("damaged")
		func() {
			defer func() {
				if end, _ := recover().(error); !errors.Is(end, http.ErrAbortHandler) {
					t.Errorf("the reply ends with %v; a caller takes what came for the whole list", end)
				}
			}()
			(visit{method: "GET", path: "/v1/changes", header: signedIn}).to(h)
		}()
	})
}
