package admin

import (
	"encoding/json"
	"io"
	"log/slog"
	"strings"
	"testing"

	"rollcall/operator/api"
	"rollcall/operator/logs"
)

// The level of the log can be read and set. Setting it writes an audit line, even if the level hides information.
func TestLogLevel(t *testing.T) {
	h, _ := newTestHTTP(t, "leader")
	log := logs.New(io.Discard, logs.Settings{}, false)
	h.member.log, h.auditor.processLog = log, log.UnfilteredLogger()
	for _, tt := range []struct {
		visit  visit
		status int
		want   string // in the answer
		level  slog.Level
	}{
		{visit{method: "GET", path: "/v1/log-level"}, 200, `{"level":"info"}`, slog.LevelInfo},
		{visit{method: "GET", path: "/v1/log-level", from: "10.0.0.9:5"}, 401, "credentials", slog.LevelInfo},
		{visit{method: "POST", path: "/v1/log-level", body: `{"level":"debug"}`}, 401, "credentials", slog.LevelInfo},
		{visit{method: "POST", path: "/v1/log-level", header: signedIn, body: `{"level":"loud"}`}, 400, "level: must be debug, info, warn or error", slog.LevelInfo},
		{visit{method: "POST", path: "/v1/log-level", header: signedIn}, 400, "level: must be debug, info, warn or error", slog.LevelInfo},
		{visit{method: "POST", path: "/v1/log-level", header: signedIn, body: `{"levels":"debug"}`}, 400, "levels", slog.LevelInfo},
		{visit{method: "POST", path: "/v1/log-level", header: signedIn, body: `{"level":"debug"}`}, 200, `{"level":"debug"}`, slog.LevelDebug},
		{visit{method: "POST", path: "/v1/log-level", header: signedIn, body: `{"level":"ERROR"}`}, 200, `{"level":"error"}`, slog.LevelError},
	} {
		if w := tt.visit.to(h); w.Code != tt.status || !strings.Contains(w.Body.String(), tt.want) || log.Level() != tt.level {
			t.Errorf("%s %s: %d %s, level %v; want %d with %s, level %v",
				tt.visit.method, tt.visit.body, w.Code, w.Body, log.Level(), tt.status, tt.want, tt.level)
		}
	}
	lines := log.LastLines()
	for i, want := range []string{
		`target="this member" by=nobody from=127.0.0.1:1 outcome="rejected: `,
		`target="this member" by=super from=127.0.0.1:1 outcome="failed: level: must be`,
		`target="this member" by=super from=127.0.0.1:1 outcome="failed: level: must be`,
		`target="this member" by=super from=127.0.0.1:1 outcome="failed: `,
		`target=debug by=super from=127.0.0.1:1 outcome=done`,
		`target=error by=super from=127.0.0.1:1 outcome=done`,
	} {
		if len(lines) <= i || !strings.Contains(lines[i].Text, `level=INFO msg=audit action="set log level" `+want) {
			t.Fatalf("line %d is not %s: %v", i, want, lines)
		}
	}
}

// The last lines of the log are for administrators. They are a list, also of one line and of none.
func TestLogLines(t *testing.T) {
	h, _ := newTestHTTP(t, "leader")
	log := logs.New(io.Discard, logs.Settings{JSON: true}, false)
	h.member.log = log
	if w := (visit{method: "GET", path: "/v1/log", header: signedIn}).to(h); w.Body.String() != `{"items":[],"next":"","silent":[]}`+"\n" {
		t.Errorf("of an empty log: %s", w.Body)
	}
	log.Logger().Warn("lost", "client", "10.0.0.7:5")
	if w := (visit{method: "GET", path: "/v1/log"}).to(h); w.Code != 401 || strings.Contains(w.Body.String(), "10.0.0.7") {
		t.Errorf("without credentials: %d %s", w.Code, w.Body)
	}
	w := visit{method: "GET", path: "/v1/log", header: signedIn}.to(h)
	var got api.List[api.Line]
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || len(got.Items) != 1 || got.Items[0].Level != "warn" ||
		!strings.Contains(got.Items[0].Text, `"client":"10.0.0.7:5"`) {
		t.Errorf("%v, %s", err, w.Body)
	}
}

// A process without such a log says so.
func TestNoLog(t *testing.T) {
	h, _ := newTestHTTP(t, "leader")
	for _, v := range []visit{{method: "GET", path: "/v1/log"}, {method: "GET", path: "/v1/log-level"}, {method: "POST", path: "/v1/log-level", body: `{"level":"info"}`}} {
		v.header = signedIn
		if w := v.to(h); w.Code != 501 || failureOf(t, w.Body.Bytes()) != errNoLog.Text {
			t.Errorf("%s %s: %d %s", v.method, v.path, w.Code, w.Body)
		}
	}
}
