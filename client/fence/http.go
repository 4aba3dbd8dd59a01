package fence

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"rollcall/client"
)

// Header is the header of a request that carries the fencing token, as a decimal number.
const Header = "Fencing-Token"

// Handler returns a handler that passes a request on to next if f accepts its token. f is the fence of the store that
// next writes to. next runs within f.Do. Requests that only read need no Handler.
//
// These are the replies to other requests:
//
//   - 428 (precondition required): there is no token
//   - 400 (bad request): the token is no positive number
//   - 412 (precondition failed): a greater token has been seen, which the header of the reply has; the client must stop
//   - 503 (service unavailable): the fence failed, or a request of another token did not end in time
func Handler(f Fence, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text := r.Header.Get(Header)
		if text == "" {
			http.Error(w, "the request must have a fencing token in the header "+Header, http.StatusPreconditionRequired)
			return
		}
		token, err := strconv.ParseInt(text, 10, 64)
		if err != nil || token <= 0 {
			http.Error(w, fmt.Sprintf("the header %s is %.40q; it must be a positive number", Header, text),
				http.StatusBadRequest)
			return
		}
		err = f.Do(r.Context(), client.Token(token), func() error {
			next.ServeHTTP(w, r)
			return nil
		})
		stale, isStale := errors.AsType[*StaleError](err)
		switch {
		case isStale:
			w.Header().Set(Header, strconv.FormatInt(int64(stale.Greatest), 10))
			http.Error(w, err.Error(), http.StatusPreconditionFailed)
		case err != nil:
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	})
}

// Holder is a right with a token. *client.Right is one.
type Holder interface {
	Held() bool
	Token() client.Token
}

// Transport sends requests with the token of a right. It is safe for concurrent use if Base is.
//
// A reply with the status 412 means that the store has rejected the token. So a service behind a fence must use another
// status for its own conditions, such as If-Match.
type Transport struct {
	Right Holder
	Base  http.RoundTripper // sends the requests; nil: http.DefaultTransport
}

// RoundTrip sends a request with the token. If the right is not held, nothing is sent, and the error is
// client.ErrNotHeld. If the store has seen a greater token, the error is a *StaleError, and nothing was carried out. It
// implements http.RoundTripper.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if !t.Right.Held() {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, fmt.Errorf("fence: %w", client.ErrNotHeld)
	}
	fenced := r.Clone(r.Context())
	fenced.Header.Set(Header, strconv.FormatInt(int64(t.Right.Token()), 10))
	resp, err := cmp.Or(t.Base, http.DefaultTransport).RoundTrip(fenced)
	if err != nil || resp.StatusCode != http.StatusPreconditionFailed {
		return resp, err
	}
	stale := &StaleError{Token: t.Right.Token()}
	greatest, err := strconv.ParseInt(resp.Header.Get(Header), 10, 64)
	if err == nil && client.Token(greatest) > stale.Token { // a service in another language may not send it
		stale.Greatest = client.Token(greatest)
	}
	_, _ = io.CopyN(io.Discard, resp.Body, maxRejection) // so that the connection can be used again
	_ = resp.Body.Close()
	return nil, stale
}

// maxRejection limits the bytes of a rejection that are read.
const maxRejection = 4 << 10
