package admin

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// ZooKeeper's command shed_connections closes a share of the member's connections for administrators, and has ZooKeeper's names and fields.
func TestShedCommand(t *testing.T) {
	const done = `"percentage_requested" : 25,
  "connections_shed" : 250,
  "command" : "shed_connections",
  "error" : null`
	for _, tt := range []struct {
		name, command string
		visit         visit
		role          string
		err           error
		status        int
		want          string // in the answer
		asked         string
	}{
		{"a quarter", "shed_connections", visit{header: signedIn, body: `{"percentage":25}`}, "leader", nil, 200, done, "shed 25%"},
		{"short name", "shed", visit{header: signedIn, body: `{"percentage": 25}`}, "follower", nil, 200, done, "shed 25%"},
		{"none", "shed", visit{header: signedIn, body: `{"percentage":0}`}, "leader", nil, 200, `"connections_shed" : 0`, "shed 0%"},
		{"all", "shed", visit{header: signedIn, body: `{"percentage":100}`}, "leader", nil, 200, `"connections_shed" : 1000`, "shed 100%"},
		{"too many", "shed", visit{header: signedIn, body: `{"percentage":101}`}, "leader", nil, 400, "percentage: 101; must be 0 to 100", ""},
		{"fewer than none", "shed", visit{header: signedIn, body: `{"percentage":-1}`}, "leader", nil, 400, "percentage: -1; must be 0 to 100", ""},
		{"no share", "shed", visit{header: signedIn, body: `{}`}, "leader", nil, 400, "the body has no percentage", ""},
		{"no body", "shed", visit{header: signedIn}, "leader", nil, 400, "the body has no percentage", ""},
		{"another key", "shed", visit{header: signedIn, body: `{"share":25}`}, "leader", nil, 400, "share", ""},
		{"no number", "shed", visit{header: signedIn, body: `{"percentage":}`}, "leader", nil, 400, "the body is not the JSON object", ""},
		{"in the path", "shed?percentage=25", visit{header: signedIn, body: `{"percentage":25}`}, "leader", nil, 400, "unknown parameter", ""},
		{"no leader", "shed", visit{header: signedIn, body: `{"percentage":25}`}, "", nil, 503, "not currently serving requests", ""},
		{"busy", "shed", visit{header: signedIn, body: `{"percentage":25}`}, "leader", &Failure{Status: http.StatusConflict, Text: "closes others"}, 409, "closes others", "shed 25%"},
		{"without credentials", "shed", visit{body: `{"percentage":25}`}, "leader", nil, 401, "credentials", ""},
		{"from elsewhere", "shed", visit{header: signedIn, body: `{"percentage":25}`, from: "10.0.0.9:5"}, "leader", nil, 403, "own machine", ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			h, _ := newTestHTTP(t, tt.role)
			opsOf(h).err = tt.err
			tt.visit.method, tt.visit.path = "POST", "/commands/"+tt.command
			if w := tt.visit.to(h); w.Code != tt.status || !strings.Contains(w.Body.String(), tt.want) || opsOf(h).asked != tt.asked {
				t.Errorf("%s: %d %s, asked %q; want %d %s, %q", tt.name, w.Code, w.Body, opsOf(h).asked, tt.status, tt.want, tt.asked)
			}
		})
	}
	h, _ := newTestHTTP(t, "leader")
	if w := (visit{method: "GET", path: "/commands/shed", header: signedIn}).to(h); w.Code != http.StatusMethodNotAllowed {
		t.Errorf("with GET: %d %s", w.Code, w.Body)
	}
}

// The audit log names the caller that had connections closed. If the caller leaves, the log has the number of closed
// ones.
func TestShedCommandIsAudited(t *testing.T) {
	for wait, want := range map[time.Duration]string{
		time.Minute:            "outcome=done",
		500 * time.Millisecond: `outcome="failed: the request ended after 7 connections were closed`,
	} {
		synctest.Test(t, func(t *testing.T) {
			h, log := newAudited(t)
			ctx, leave := context.WithTimeout(t.Context(), wait)
			defer leave()
			r := httptest.NewRequestWithContext(ctx, "POST", "/commands/shed", strings.NewReader(`{"percentage":25}`))
			r.RemoteAddr, r.Host = "127.0.0.1:1", "127.0.0.1:8080"
			for i := 0; i < len(signedIn); i += 2 {
				r.Header.Set(signedIn[i], signedIn[i+1])
			}
			h.handler.ServeHTTP(recorder{httptest.NewRecorder()}, r)
			if !strings.Contains(log.String(), `action=shed_connections target="this member" by=super from=127.0.0.1:1 `+want) {
				t.Errorf("after %v: logged %s", wait, log)
			}
		})
	}
}
