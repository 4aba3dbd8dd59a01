package fence_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"rollcall/client"
	"rollcall/client/fence"
)

// replies is an http.RoundTripper with one reply.
type replies struct{ *http.Response }

func (r replies) RoundTrip(*http.Request) (*http.Response, error) { return r.Response, nil }

// A reply with the status 412 is a *StaleError with the greatest token, if the service says it, and its body is closed.
func TestTransportStale(t *testing.T) {
	var g fence.Guard
	if err := g.Check(9); err != nil {
		t.Fatal(err)
	}
	handled := httptest.NewRecorder()
	request := httptest.NewRequest(http.MethodPut, "/", nil)
	request.Header.Set(fence.Header, "8")
	fence.Handler(&g, http.NotFoundHandler()).ServeHTTP(handled, request)
	other := &http.Response{StatusCode: http.StatusPreconditionFailed, Header: http.Header{}}
	for greatest, resp := range map[client.Token]*http.Response{9: handled.Result(), 0: other} {
		body := &closing{Reader: strings.NewReader(strings.Repeat("x", 1<<20))}
		resp.Body = body
		transport := &fence.Transport{Right: &heldRight{token: 8}, Base: replies{resp}}
		_, err := transport.RoundTrip(httptest.NewRequest(http.MethodPut, "http://h/", nil))
		stale, ok := errors.AsType[*fence.StaleError](err)
		if !ok || !errors.Is(err, fence.ErrStale) || stale.Token != 8 || stale.Greatest != greatest {
			t.Fatalf("greatest %d: %v", greatest, err)
		}
		if left, _ := io.ReadAll(body); !body.closed || len(left) < 1<<19 {
			t.Errorf("the body is closed: %t; %d bytes of it were not read", body.closed, len(left))
		}
		if strings.Contains(err.Error(), "(0)") {
			t.Errorf("the text is %q", err)
		}
	}
}

// A greatest token that rejects nothing is not passed on: the service has sent something else.
func TestTransportStaleWithoutReason(t *testing.T) {
	for _, value := range []string{"-1", "8", "7", "x"} {
		resp := &http.Response{StatusCode: http.StatusPreconditionFailed, Header: http.Header{fence.Header: {value}}, Body: http.NoBody}
		transport := &fence.Transport{Right: &heldRight{token: 8}, Base: replies{resp}}
		_, err := transport.RoundTrip(httptest.NewRequest(http.MethodPut, "http://h/", nil))
		if stale, ok := errors.AsType[*fence.StaleError](err); !ok || stale.Greatest != 0 {
			t.Errorf("%s: %v", value, err)
		}
	}
}
