package admin

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
)

// A token for metrics reads metrics and nothing else, and one that reads changes nothing, from everywhere.
func TestLesserTokens(t *testing.T) {
	const readToken, metricsToken = "0123456789abcdef-reads", "0123456789abcdef-metrics"
	dir := t.TempDir()
	words, source := newTestWords(t, "leader")
	cfg := HTTPConfig{AnonymousAccess: AnonymousAccess{Reads: ReadNothing}, FourLetter: words, Source: source, Operations: newFakeOps()}
	for name, file := range map[string]*string{testToken: &cfg.TokenFile, readToken: &cfg.ReadTokenFile, metricsToken: &cfg.MetricsTokenFile} {
		*file = filepath.Join(dir, name)
		if err := os.WriteFile(*file, []byte(name+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	h, err := NewHTTP(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		token    string
		from     string
		statuses map[accessClass]int
	}{
		{metricsToken, "127.0.0.1:1", map[accessClass]int{openAccess: 200, metricsAccess: 200, readAccess: 401, logAccess: 403, changeAccess: 403}},
		{metricsToken, "10.0.0.9:5", map[accessClass]int{openAccess: 200, metricsAccess: 200, readAccess: 401, logAccess: 403, changeAccess: 403}},
		{readToken, "127.0.0.1:1", map[accessClass]int{openAccess: 200, metricsAccess: 200, readAccess: 200, logAccess: 403, changeAccess: 403}},
		{readToken, "10.0.0.9:5", map[accessClass]int{openAccess: 200, metricsAccess: 200, readAccess: 200, logAccess: 403, changeAccess: 403}},
		{testToken, "127.0.0.1:1", map[accessClass]int{openAccess: 200, metricsAccess: 200, readAccess: 200, logAccess: 200, changeAccess: 200}},
		{testToken, "10.0.0.9:5", map[accessClass]int{openAccess: 200, metricsAccess: 200, readAccess: 200, logAccess: 200, changeAccess: 403}},
		{metricsToken + "x", "127.0.0.1:1", map[accessClass]int{openAccess: 200, metricsAccess: 401, readAccess: 401, logAccess: 401, changeAccess: 401}},
	} {
		all := testRoutes(t)
		for i := range all {
			all[i].serve, all[i].replyJSON = func(http.ResponseWriter, *http.Request) {}, nil
		}
		h.handler = h.guardedHandler(all)
		for _, e := range all {
			kind := "application/json"
			if e.contentType != "" {
				kind = e.contentType
			}
			v := visit{method: e.method, path: concrete(e.path), from: tt.from, header: []string{"Authorization", "Bearer " + tt.token, "Content-Type", kind}}
			if w := v.to(h); w.Code != tt.statuses[e.access] {
				t.Errorf("%s from %s: %s %s (%v): %d, want %d: %s",
					tt.token, tt.from, e.method, e.path, e.access, w.Code, tt.statuses[e.access], w.Body)
			}
		}
	}
}

// A page of another site whose name leads to this member is shown nothing, on no port. Names of the operator's are served, and a
// probe says nothing but its status.
func TestForeignHosts(t *testing.T) {
	h, _ := newTestHTTP(t, "leader")
	paths := []string{"/", "/console/main.js", "/metrics", "/commands", "/commands/ruok", "/commands/mntr", "/v1/openapi.json", "/v1/status", "/v1/events"}
	for _, path := range paths {
		if w := (visit{method: "GET", path: path, host: "evil.example:8080"}).to(h); w.Code != http.StatusForbidden {
			t.Errorf("%s by a foreign name: %d %s", path, w.Code, w.Body)
		}
	}
	for _, path := range []string{"/livez", "/readyz"} {
		if w := (visit{method: "GET", path: path, host: "balancer.example"}).to(h); w.Code != 200 || w.Body.String() != "ok\n" {
			t.Errorf("%s by a foreign name: %d %q", path, w.Code, w.Body)
		}
	}
	words, source := newTestWords(t, "leader")
	for hosts, want := range map[string]int{"Zoo.example": 200, "*": 200, "other.example": 403} {
		named, err := NewHTTP(HTTPConfig{HTTPSettings: HTTPSettings{Hosts: []string{hosts}}, FourLetter: words, Source: source, Operations: newFakeOps()})
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{"/", "/metrics", "/commands/ruok"} {
			if w := (visit{method: "GET", path: path, host: "zoo.Example:8080"}).to(named); w.Code != want {
				t.Errorf("admin.hosts=%s: %s: %d, want %d", hosts, path, w.Code, want)
			}
		}
	}
	synctest.Test(t, func(t *testing.T) {
		p := newPipes()
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- h.ServeMetrics(ctx, p) }()
		c := p.dial()
		_, _ = c.Write([]byte("GET /metrics HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n"))
		b := make([]byte, 12)
		if _, err := c.Read(b); err != nil || string(b) != "HTTP/1.1 403" {
			t.Errorf("the port for metrics: %q, %v", b, err)
		}
		_ = c.Close()
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// With admin.loopbackTrust=false a request over a loopback address is from another machine, because a proxy may have passed it on, and
// one at the socket is not.
func TestDistrustedLoopback(t *testing.T) {
	h, _ := newTestHTTP(t, "leader", func(cfg *HTTPConfig) { cfg.DistrustLoopback = true })
	for _, tt := range []struct {
		from, token string
		access      accessClass
		status      int
	}{
		{"127.0.0.1:1", "", openAccess, 0},
		{"127.0.0.1:1", "", readAccess, http.StatusUnauthorized},
		{"[::1]:1", "", metricsAccess, http.StatusUnauthorized},
		{"127.0.0.1:1", testToken, readAccess, 0},
		{"127.0.0.1:1", testToken, changeAccess, http.StatusForbidden},
		{"unix:0", "", readAccess, 0},
		{"unix:0", testToken, changeAccess, 0},
	} {
		r := &http.Request{RemoteAddr: tt.from, Host: "localhost", Header: http.Header{}}
		if tt.token != "" {
			r.Header.Set("Authorization", "Bearer "+tt.token)
		}
		status := 0
		if f := h.authorizer.checkAccess(tt.access, r); f != nil {
			status = f.Status
		}
		if status != tt.status {
			t.Errorf("%s with %q, %v: status %d, want %d", tt.from, tt.token, tt.access, status, tt.status)
		}
		if f := h.authorizer.checkAccess(tt.access, r); f != nil && !strings.Contains(f.Text, "admin.loopbackTrust=false") {
			t.Errorf("%s, %v: %q does not name the key that distrusts this machine", tt.from, tt.access, f.Text)
		}
	}
}
