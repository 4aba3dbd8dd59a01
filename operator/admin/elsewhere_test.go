package admin

import (
	"net/http"
	"strings"
	"testing"
)

// A change from another machine is rejected with an address at which this member takes it: always its socket, and a loopback address only
// if its port is at one.
func TestChangesElsewhereNameTheSocket(t *testing.T) {
	for _, tt := range []struct {
		addr     string
		loopback bool
	}{
		{"127.0.0.1:8080", true},
		{"[::1]:8080", true},
		{"0.0.0.0:8080", true},
		{"[::]:8080", true},
		{":8080", true},
		{"localhost:8080", true},
		{"10.0.0.1:8080", false},
		{"zk1:8080", false},
	} {
		h, _ := newTestHTTP(t, "leader", func(cfg *HTTPConfig) { cfg.Addr = tt.addr })
		r := &http.Request{RemoteAddr: "10.0.0.9:5", Host: "localhost", Header: http.Header{"Authorization": {"Bearer " + testToken}}}
		f := h.authorizer.checkAccess(changeAccess, r)
		if f == nil || f.Status != http.StatusForbidden || !strings.Contains(f.Text, "--admin unix:DATADIR/admin.sock") {
			t.Errorf("%s: %+v does not name the socket", tt.addr, f)
		} else if strings.Contains(f.Text, "loopback") != tt.loopback {
			t.Errorf("%s: names a loopback address, want %t: %s", tt.addr, tt.loopback, f.Text)
		}
	}
}

// An administrator reads the log from every machine, and other credentials read it from none. Profiles stay on the member's machine.
func TestLogIsReadFromElsewhere(t *testing.T) {
	h, _ := newTestHTTP(t, "leader")
	token := []string{"Authorization", "Bearer " + testToken}
	for _, tt := range []struct {
		path   string
		header []string
		status int
	}{
		{"/v1/log", token, http.StatusNotImplemented}, // this fake keeps none
		{"/v1/log", nil, http.StatusUnauthorized},
		{"/debug/pprof/heap", token, http.StatusForbidden},
	} {
		if w := (visit{method: "GET", path: tt.path, from: "10.0.0.9:5", header: tt.header}).to(h); w.Code != tt.status {
			t.Errorf("%s with %q: %d, want %d: %s", tt.path, tt.header, w.Code, tt.status, w.Body)
		}
	}
}
