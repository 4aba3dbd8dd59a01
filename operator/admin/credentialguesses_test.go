package admin

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/internal/admission"
	"rollcall/operator/audit"
)

// newGuessed returns an HTTP with a table of guesses, its log, and its audit log.
func newGuessed(t *testing.T) (*HTTP, *bytes.Buffer, *acts) {
	t.Helper()
	h, _ := newTestHTTP(t, "leader")
	var log bytes.Buffer
	all := &acts{}
	h.cfg.CredentialLimiter, h.auditor.auditLog = admission.NewCredentialLimiter(slog.New(slog.NewTextHandler(&log, nil))), all
	return h, &log, all
}

// offering is a request for a list with credentials.
func offering(from, authorization string) visit {
	return visit{method: "GET", path: "/v1/sessions", from: from, header: []string{"Authorization", authorization}}
}

// Wrong credentials are counted by kind, logged, and in the audit log with the address and the request.
func TestGuessesLeaveTraces(t *testing.T) {
	h, log, all := newGuessed(t)
	offering("10.0.0.7:5", "Bearer "+testToken+"x").to(h)
	offering("10.0.0.8:5", "digest super:Secret").to(h)
	visit{method: "GET", path: "/livez", from: "10.0.0.9:5", header: []string{"Authorization", "Bearer wrong"}}.to(h)
	offering("10.0.0.6:5", "digest super:secret").to(h)
	offering("10.0.0.6:5", "Basic eDp5").to(h) // not checked by anything
	visit{method: "GET", path: "/v1/sessions", from: "10.0.0.6:5"}.to(h)
	offering("unix:1000", "Bearer wrong").to(h)
	h.recordWrongProof(farPipe{})
	if counts := h.cfg.CredentialLimiter.FailureCounts(); counts["token"] != 4 || counts["password"] != 1 || counts["super"] != 0 {
		t.Errorf("counts %v", counts)
	}
	for _, line := range []string{"address=10.0.0.7 kind=token failures=1", "address=10.0.0.8 kind=password failures=1", "address=10.0.0.9 kind=token", "address=unix:1000 kind=token", "address=10.0.0.1 kind=token"} {
		if !strings.Contains(log.String(), line) {
			t.Errorf("no line %q in\n%s", line, log)
		}
	}
	if strings.Contains(log.String(), "10.0.0.6") {
		t.Errorf("a line about right credentials:\n%s", log)
	}
	if len(all.events) != 5 {
		t.Fatalf("audit log %+v", all.events)
	}
	want := audit.Event{
		Address: "10.0.0.8:5", Operation: audit.Authenticate, Target: "http password", Result: audit.Failure, Error: "wrong password", Reason: "GET /v1/sessions",
	}
	if got := all.events[1]; got.Address != want.Address || got.Operation != want.Operation || got.Target != want.Target ||
		got.Result != want.Result || got.Error != want.Error || got.Reason != want.Reason {
		t.Errorf("audited %+v, want %+v", got, want)
	}
}

// After ten wrong credentials an address waits for the check of each further one, also of a right one. Others do not wait.
func TestGuessesAreSlowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _, _ := newGuessed(t)
		took := func(v visit, status int) time.Duration {
			t.Helper()
			begun := time.Now()
			if w := v.to(h); w.Code != status {
				t.Errorf("status %d, want %d: %s", w.Code, status, w.Body)
			}
			return time.Since(begun).Round(time.Millisecond)
		}
		for range 10 {
			if d := took(offering("10.0.0.7:5", "Bearer wrong"), http.StatusUnauthorized); d != 0 {
				t.Errorf("one of the first failures took %v", d)
			}
		}
		if d := took(offering("10.0.0.7:6", "Bearer wrong"), http.StatusUnauthorized); d != time.Second {
			t.Errorf("a wrong token took %v", d)
		}
		if d := took(offering("10.0.0.7:7", "Bearer "+testToken), http.StatusOK); d != time.Second {
			t.Errorf("the right token took %v", d)
		}
		if d := took(offering("10.0.0.8:5", "Bearer "+testToken), http.StatusOK); d != 0 {
			t.Errorf("the right token from another address took %v", d)
		}
		if d := took(visit{method: "GET", path: "/livez", from: "10.0.0.7:9"}, http.StatusOK); d != 0 {
			t.Errorf("a request without credentials took %v", d)
		}
	})
}

// Of many attempts at the same time, three wait and all others are rejected at once.
func TestSlowedGuessesHoldNoPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _, _ := newGuessed(t)
		for range 10 {
			offering("10.0.0.7:5", "Bearer wrong").to(h)
		}
		rejected := make(chan struct{}, 100)
		for range 100 {
			go func() {
				if w := offering("10.0.0.7:5", "Bearer "+testToken).to(h); w.Code == http.StatusTooManyRequests {
					if w.Header().Get("Retry-After") != "1" || w.Header().Get("Cache-Control") != "no-store" ||
						!strings.Contains(w.Body.String(), "try again") {
						t.Errorf("%v %s", w.Header(), w.Body)
					}
					rejected <- struct{}{}
				}
			}()
		}
		synctest.Wait()
		if n := len(rejected); n != 97 {
			t.Errorf("%d attempts were rejected at once, want 97", n)
		}
		time.Sleep(admission.MaxAttemptWait)
		synctest.Wait()
		if n := len(rejected); n != 97 {
			t.Errorf("%d attempts were rejected, want 97", n)
		}
	})
}

// Guesses at the port for metrics are slowed, too: it accepts any Host with a right token, so the status tells a right
// token from a wrong one.
func TestGuessesAtPortForMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _, _ := newGuessed(t)
		p, done := newPipes(), make(chan error)
		ctx, stop := context.WithCancel(t.Context())
		go func() { done <- h.ServeMetrics(ctx, p) }()
		guess := func() int {
			c := p.dial()
			defer func() { _ = c.Close() }() // the answer has been read
			if _, err := io.WriteString(c, "GET /metrics HTTP/1.1\r\nHost: other.example\r\nAuthorization: Bearer wrong\r\nConnection: close\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			answer, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				t.Fatal(err)
			}
			return answer.StatusCode
		}
		begun := time.Now()
		for range 12 {
			if status := guess(); status != http.StatusForbidden {
				t.Errorf("status %d", status)
			}
		}
		if took := time.Since(begun).Round(time.Millisecond); took != 2*time.Second {
			t.Errorf("12 guesses took %v, want 2s", took)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// notingPipe is a connection that says when the server has closed it.
type notingPipe struct {
	localPipe
	closed chan struct{}
	once   *sync.Once
}

func (p notingPipe) Close() error {
	p.once.Do(func() { close(p.closed) })
	return p.localPipe.Close()
}

// A client that does not read the replies to its guesses holds its connection no longer than others.
func TestUnreadRejectionsAreCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _, _ := newGuessed(t)
		p, stop := serveOn(t, h)
		var others sync.WaitGroup
		for range 13 { // the last three wait for their turn
			others.Go(func() { offering("127.0.0.1:5", "Bearer wrong").to(h) })
			synctest.Wait()
		}
		ours, theirs := net.Pipe()
		conn := notingPipe{localPipe{theirs}, make(chan struct{}), new(sync.Once)}
		p.conns <- conn
		if _, err := io.WriteString(ours, "GET /v1/status HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer wrong\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		select {
		case <-conn.closed:
		case <-time.After(time.Minute):
		}
		if took := time.Since(begun); took > time.Second {
			t.Errorf("the connection was closed after %v", took)
		}
		_ = ours.Close()
		others.Wait()
		stop()
	})
}

// A credential of a kind that the member does not know is no guess. Each of the tokens makes guesses of the others count.
func TestGuessesOfWhatIsThere(t *testing.T) {
	for _, tt := range []struct {
		cred            credentials
		password, token bool
	}{
		{credentials{}, false, false},
		{credentials{superDigest: "super:x"}, true, false},
		{credentials{adminToken: tokenHash{isSet: true}}, false, true},
		{credentials{readToken: tokenHash{isSet: true}}, false, true},
		{credentials{metricsToken: tokenHash{isSet: true}}, false, true},
	} {
		a := &authorizer{credentials: tt.cred}
		for authorization, want := range map[string]bool{"digest super:x": tt.password, "Bearer wrong": tt.token, "Basic eDp5": false} {
			if _, got := a.credentialKind(&http.Request{Header: http.Header{"Authorization": {authorization}}}); got != want {
				t.Errorf("%+v: %s is a guess: %t, want %t", tt.cred, authorization, got, want)
			}
		}
	}
}
