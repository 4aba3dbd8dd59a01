package admin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/operator/audit"
)

// newAudited returns an HTTP, and the log into which it writes.
func newAudited(t *testing.T) (*HTTP, *bytes.Buffer) {
	h, _ := newTestHTTP(t, "leader")
	var log bytes.Buffer
	h.auditor.processLog = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
	return h, &log
}

// Each request that changes something, or tries to, is one line of the log: what, who, from where, and
// what came of it. Other requests are none.
func TestAudit(t *testing.T) {
	bearer := []string{"Authorization", "Bearer " + testToken, "Content-Type", "application/json"}
	for _, tt := range []struct {
		visit visit
		err   error
		want  string
	}{
		{visit{method: "GET", path: "/v1/sessions"}, nil, ""},
		{visit{method: "GET", path: "/v1/status", header: []string{"Origin", "https://example.com"}}, nil, ""},
		{visit{method: "POST", path: "/v1/nosuch"}, nil, ""},
		{
			visit{method: "POST", path: "/v1/sessions/0x1000012f99a0001/kill", header: signedIn},
			nil,
			`level=INFO msg=audit action="kill session" target=0x1000012f99a0001 by=super from=127.0.0.1:1 outcome=done`,
		},
		{
			visit{method: "POST", path: "/v1/sessions/0x7/kill", header: bearer},
			&Failure{Status: 404, Text: "no such session"},
			`level=INFO msg=audit action="kill session" target=0x7 by=token from=127.0.0.1:1 outcome="failed: no such session"`,
		},
		{
			visit{method: "POST", path: "/v1/sessions/0x7/kill", header: bearer},
			&Failure{Status: 504, Text: "nobody knows"},
			`level=INFO msg=audit action="kill session" target=0x7 by=token from=127.0.0.1:1 outcome="unknown: nobody knows"`,
		},
		{
			visit{method: "POST", path: "/v1/sessions/0x7%0alevel=INFO/kill"},
			nil,
			`level=INFO msg=audit action="kill session" target="not the id of a session" by=nobody from=127.0.0.1:1 outcome="rejected: this needs credentials: Authorization: digest super:PASSWORD, or Bearer TOKEN"`,
		},
		{
			visit{method: "POST", path: "/v1/sessions/0x7/kill", header: bearer, from: "10.0.0.9:5"},
			nil,
			`level=INFO msg=audit action="kill session" target=0x7 by=token from=10.0.0.9:5 outcome="rejected: this is served on the member's own machine alone, at its socket: run the command there as the member's user, with --admin unix:DATADIR/admin.sock, where DATADIR is the member's dataDir"`,
		},
		{visit{method: "POST", path: "/commands/srst", header: signedIn}, nil, `level=INFO msg=audit action=stat_reset target="this member" by=super from=127.0.0.1:1 outcome=done`},
		{
			visit{method: "POST", path: "/commands/stmk?traceMask=x", header: signedIn},
			nil,
			`level=INFO msg=audit action=set_trace_mask target="this member" by=super from=127.0.0.1:1 outcome="failed: setTraceMask requires long traceMask argument, got x"`,
		},
		{visit{method: "GET", path: "/debug/pprof/symbol", header: signedIn}, nil, `level=INFO msg=audit action=profile target="this member" by=super from=127.0.0.1:1 outcome=done`},
	} {
		h, log := newAudited(t)
		acts := &acts{}
		h.auditor.auditLog = acts
		opsOf(h).err = tt.err
		tt.visit.to(h)
		if got := strings.TrimSuffix(log.String(), "\n"); got != tt.want {
			t.Errorf("%s %s:\n%s\nwant\n%s", tt.visit.method, tt.visit.path, got, tt.want)
		}
		outcome := "done"
		if len(acts.events) == 1 && acts.events[0].Result == audit.Failure {
			outcome = acts.events[0].Error
		}
		if len(acts.events) != strings.Count(tt.want, "\n")+min(1, len(tt.want)) || tt.want != "" && !strings.Contains(tt.want, outcome) {
			t.Errorf("%s %s: the audit log is told %+v, want what the log says: %s", tt.visit.method, tt.visit.path, acts.events, tt.want)
		}
	}
	h, log := newAudited(t)
	visit{method: "POST", path: "/v1/sessions/" + strings.Repeat("x", 10_000) + "/kill"}.to(h)
	if n := log.Len(); n > 2*maxLoggedText {
		t.Errorf("a line of %d bytes", n)
	}
}

// Every endpoint for administrators alone has a name for the audit log.
func TestEveryChangeHasAnAction(t *testing.T) {
	for _, e := range testRoutes(t) {
		if (e.action != "") != e.access.forAdministrators() {
			t.Errorf("%s %s, of class %v, has the action %q", e.method, e.path, e.access, e.action)
		}
	}
}

// A stranger cannot flood the log. Rejected requests beyond the bound are counted, and an administrator's are logged all
// the same.
func TestAuditIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, log := newAudited(t)
		lines := func() int { return strings.Count(log.String(), "\n") }
		refused := func(n int) {
			for range n {
				visit{method: "POST", path: "/v1/sessions/0x1/kill"}.to(h)
			}
		}
		refused(maxRejectedLines - 1)
		if strings.Contains(log.String(), "only counted") {
			t.Error("the bound is announced too early")
		}
		refused(1)
		if !strings.HasSuffix(log.String(), "more=\"further rejected requests of this minute are only counted\"\n") {
			t.Errorf("the last line does not say that others are left out: %s", log)
		}
		refused(70)
		if n := lines(); n != maxRejectedLines {
			t.Errorf("%d lines about refused requests in a minute, want %d", n, maxRejectedLines)
		}
		visit{method: "POST", path: "/v1/sessions/0x1000012f99a0001/kill", header: signedIn}.to(h)
		if !strings.HasSuffix(log.String(), "outcome=done\n") {
			t.Error("an administrator's request was not logged")
		}
		time.Sleep(time.Minute)
		log.Reset()
		refused(2)
		first, second, _ := strings.Cut(log.String(), "\n")
		if !strings.HasSuffix(first, fmt.Sprintf("omitted=%d", 70)) || strings.Contains(second, "omitted") || lines() != 2 {
			t.Errorf("after a minute: %s", log)
		}
	})
}

// acts is an audit log that keeps its events.
type acts struct {
	mu     sync.Mutex
	events []audit.Event
}

func (a *acts) Add(e audit.Event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.events = append(a.events, e)
}

func (a *acts) WriteIfRequired(context.Context, audit.Event) error { return nil }

// fullLog is an audit log that cannot write a line.
type fullLog struct {
	acts
	required []audit.Event
}

func (f *fullLog) WriteIfRequired(_ context.Context, e audit.Event) error {
	f.required = append(f.required, e)
	return errors.New("no space left on device")
}

// An act that must have a line is not done if it has none. Reads need no line.
func TestNoActWithoutLine(t *testing.T) {
	h, log := newAudited(t)
	full := &fullLog{}
	h.auditor.auditLog = full
	w := visit{method: "POST", path: "/v1/sessions/0x7/kill", header: signedIn}.to(h)
	if w.Code != http.StatusServiceUnavailable ||
		!strings.Contains(w.Body.String(), "no space left on device; nothing was done") || opsOf(h).asked == "kill" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if len(full.required) != 1 || full.required[0].Operation != "kill session" || full.required[0].Target != "0x7" ||
		full.required[0].User != "super" {
		t.Errorf("lines %+v", full.required)
	}
	if !strings.Contains(log.String(), `outcome="rejected: no space left`) {
		t.Errorf("the log says %s", log)
	}
	if w := (visit{method: "GET", path: "/v1/sessions", header: signedIn}).to(h); w.Code != http.StatusOK {
		t.Errorf("a read: %d %s", w.Code, w.Body)
	}
}
