package admin

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A drain lasts for the requested time, for 5 s by default, and for a minute at most.
func TestV1Drain(t *testing.T) {
	for _, tt := range []struct {
		visit  visit
		status int
		want   string // in the answer
		asked  string
	}{
		{visit{header: signedIn}, 200, `{"connections":5,"leads":false,"took_ms":5000}`, "drain 5s"},
		{visit{header: signedIn, body: `{"over_ms":1500}`}, 200, `{"connections":1,"leads":false,"took_ms":1000}`, "drain 1.5s"},
		{visit{header: signedIn, body: `{"over_ms":0}`}, 200, `{"connections":0,"leads":false,"took_ms":0}`, "drain 0s"},
		{visit{header: signedIn, body: `{"over_ms":60000}`}, 200, `{"connections":60,"leads":false,"took_ms":60000}`, "drain 1m0s"},
		{visit{header: signedIn, body: `{"over_ms":60001}`}, 400, "over_ms: 60001; must be 0 to 60000", ""},
		{visit{header: signedIn, body: `{"over_ms":-1}`}, 400, "over_ms: -1; must be 0 to 60000", ""},
		{visit{header: signedIn, body: `{"over":1}`}, 400, "over", ""},
		{visit{}, 401, "credentials", ""},
		{visit{header: signedIn, from: "10.0.0.9:5"}, 403, "own machine", ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			h, _ := newTestHTTP(t, "leader")
			tt.visit.method, tt.visit.path = "POST", "/v1/drain"
			if w := tt.visit.to(h); w.Code != tt.status || !strings.Contains(w.Body.String(), tt.want) || opsOf(h).asked != tt.asked {
				t.Errorf("%s: %d %s, asked %q; want %d %s, %q", tt.visit.body, w.Code, w.Body, opsOf(h).asked, tt.status, tt.want, tt.asked)
			}
		})
	}
}

// Any member accepts the drain of another one. The audit log names the member and the administrator.
func TestV1DrainMember(t *testing.T) {
	for _, tt := range []struct {
		body    string
		refusal error
		status  int
		want    string // in the answer
		asked   string
	}{
		{`{"member":3}`, nil, 200, `{"connections":3,"leads":false,"took_ms":0}`, "drain member 3 over 5s for super from 127.0.0.1:1"},
		{`{"member":4,"over_ms":0}`, nil, 200, `{"connections":4,`, "drain member 4 over 0s for super from 127.0.0.1:1"},
		{`{"member":9}`, &Failure{Status: 404, Text: "the ensemble has no member 9"}, 404, "no member 9", "drain member 9 over 5s for super from 127.0.0.1:1"},
		{`{"member":3,"over_ms":60001}`, nil, 400, "over_ms: 60001; must be 0 to 60000", ""},
		{`{"over_ms":1}`, nil, 400, "member: 0; must be a number from 1 to 255", ""},
		{`{"member":256}`, nil, 400, "member: 256; must be", ""},
	} {
		h, log := newAudited(t)
		opsOf(h).err = tt.refusal
		w := visit{method: "POST", path: "/v1/members/drain", header: signedIn, body: tt.body}.to(h)
		if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.want) || opsOf(h).asked != tt.asked {
			t.Errorf("%s: %d %s, asked %q; want %d %s, %q", tt.body, w.Code, w.Body, opsOf(h).asked, tt.status, tt.want, tt.asked)
		}
		if tt.asked != "" &&
			!strings.Contains(log.String(), fmt.Sprintf(`action=drain target="member %c" by=super from=127.0.0.1:1`, tt.body[10])) {
			t.Errorf("%s: logged %s", tt.body, log)
		}
	}
	h, _ := newTestHTTP(t, "leader")
	if w := (visit{method: "POST", path: "/v1/members/drain", body: `{"member":3}`}).to(h); w.Code != 401 || opsOf(h).asked != "" {
		t.Errorf("without credentials: %d %s", w.Code, w.Body)
	}
}

// A drain is answered although it took as long to hand over as it may take to close connections.
func TestV1DrainIsAnsweredAfterTheLongest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _ := newTestHTTP(t, "leader")
		opsOf(h).handOver = MaxDrainTime
		p, stop := serveOn(t, h)
		defer stop()
		c := p.dial()
		const body = `{"over_ms":60000}`
		if _, err := fmt.Fprintf(c, "POST /v1/drain HTTP/1.1\r\nHost: localhost\r\nAuthorization: digest super:secret\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body); err != nil {
			t.Fatal(err)
		}
		answer, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(answer.Body); err != nil || answer.StatusCode != 200 || !strings.Contains(string(text), `"took_ms":120000`) {
			t.Errorf("%d %s, %v", answer.StatusCode, text, err)
		}
	})
}

// If the administrator leaves, the drain ends, and the audit log has its progress.
func TestV1DrainEndsEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, log := newAudited(t)
		ctx, leave := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		defer leave()
		r := httptest.NewRequestWithContext(ctx, "POST", "/v1/drain", strings.NewReader("{}"))
		r.RemoteAddr, r.Host = "127.0.0.1:1", "127.0.0.1:8080"
		for i := 0; i < len(signedIn); i += 2 {
			r.Header.Set(signedIn[i], signedIn[i+1])
		}
		h.handler.ServeHTTP(recorder{httptest.NewRecorder()}, r)
		if !strings.Contains(log.String(), `action=drain target="this member" by=super from=127.0.0.1:1 outcome="failed: the request ended after 2 connections were closed`) {
			t.Errorf("logged %s", log)
		}
	})
}
