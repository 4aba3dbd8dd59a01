package fence_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"rollcall/client"
	"rollcall/client/fence"
)

// heldRight is a right with a token, which may be lost.
type heldRight struct {
	token client.Token
	lost  bool
}

func (r *heldRight) Held() bool          { return !r.lost }
func (r *heldRight) Token() client.Token { return r.token }

func TestHandler(t *testing.T) {
	var g fence.Guard
	served := 0
	h := fence.Handler(&g, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		served++
		w.WriteHeader(http.StatusCreated)
	}))
	for _, c := range []struct {
		token string
		want  int
	}{
		{"5", 201},
		{"5", 201},
		{"9", 201},
		{"8", 412},
		{"", 428},
		{"x", 400},
		{"0", 400},
		{"-3", 400},
		{"9223372036854775808", 400},
		{"9", 201},
	} {
		before := served
		r := httptest.NewRequest(http.MethodPut, "/", nil)
		if c.token != "" {
			r.Header.Set("Fencing-Token", c.token)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != c.want || (served > before) != (c.want == 201) {
			t.Errorf("token %q: status %d, want %d; served %v", c.token, w.Code, c.want, served > before)
		}
	}
}

// brokenFence is a Fence that fails.
type brokenFence struct{}

func (brokenFence) Do(context.Context, client.Token, func() error) error {
	return errors.New("no disk")
}

func TestHandlerFenceFails(t *testing.T) {
	r := httptest.NewRequest(http.MethodPut, "/", nil)
	r.Header.Set(fence.Header, "1")
	w := httptest.NewRecorder()
	fence.Handler(brokenFence{}, http.NotFoundHandler()).ServeHTTP(w, r)
	if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "no disk") {
		t.Errorf("status %d, %q", w.Code, w.Body)
	}
}

// The second holder's first request ends what the first one can write, and a holder that knows its loss sends nothing.
func TestTransport(t *testing.T) {
	var g fence.Guard
	var written []string
	server := httptest.NewServer(fence.Handler(&g, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		written = append(written, string(body))
	})))
	defer server.Close()
	first, second := &heldRight{token: 10}, &heldRight{token: 11}
	put := func(right fence.Holder, text string) (int, error) {
		c := http.Client{Transport: &fence.Transport{Right: right, Base: server.Client().Transport}}
		resp, err := c.Post(server.URL, "text/plain", strings.NewReader(text))
		if err != nil {
			return 0, err
		}
		return resp.StatusCode, resp.Body.Close()
	}
	for _, c := range []struct {
		right fence.Holder
		text  string
		want  int
		err   error
	}{{first, "a", 200, nil}, {second, "b", 200, nil}, {first, "c", 0, fence.ErrStale}, {second, "d", 200, nil}} {
		if code, err := put(c.right, c.text); code != c.want || !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
			t.Errorf("%s: status %d, %v", c.text, code, err)
		}
	}
	if got := strings.Join(written, ""); got != "abd" {
		t.Errorf("the server has %q", got)
	}
	sent := httptest.NewRequest(http.MethodPost, server.URL, strings.NewReader("e"))
	if resp, err := (&fence.Transport{Right: second}).RoundTrip(sent); err != nil || sent.Header.Get(fence.Header) != "" {
		t.Errorf("the caller's request was changed, or %v", err)
	} else {
		_ = resp.Body.Close()
	}
	second.lost = true
	if _, err := put(second, "e"); !errors.Is(err, client.ErrNotHeld) {
		t.Errorf("without the right: %v", err)
	}
	body := &closing{Reader: strings.NewReader("f")}
	r := httptest.NewRequest(http.MethodPost, server.URL, body)
	if _, err := (&fence.Transport{Right: second}).RoundTrip(r); err == nil || !body.closed {
		t.Errorf("%v, body closed %v", err, body.closed)
	}
}

type closing struct {
	io.Reader
	closed bool
}

func (c *closing) Close() error { c.closed = true; return nil }
