package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

type transportFunc func(*http.Request) (*http.Response, error)

func (f transportFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// drip is a body that never ends: a byte comes now and then.
type drip struct{ ctx context.Context }

func (d drip) Read(p []byte) (int, error) {
	select {
	case <-d.ctx.Done():
		return 0, d.ctx.Err()
	case <-time.After(time.Second):
		return copy(p[:1], " "), nil
	}
}

func (drip) Close() error { return nil }

// A reply that comes byte by byte for ever, and a list whose pages never end, are errors that say so.
func TestEndlessReplies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &Client{BaseURL: "http://member", HTTPClient: &http.Client{Transport: transportFunc(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, Body: drip{r.Context()}}, nil
		})}}
		began := time.Now()
		limited, stop := context.WithTimeout(t.Context(), 2*maxBodyTime)
		defer stop()
		if _, err := Get[Caller](limited, slow, "status", nil); !errors.Is(err, errSlowBody) || time.Since(began) != maxBodyTime {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		pages := 0
		endless := &Client{BaseURL: "http://member", HTTPClient: &http.Client{Transport: transportFunc(func(r *http.Request) (*http.Response, error) {
			select {
			case <-time.After(time.Minute):
			case <-r.Context().Done():
				return nil, r.Context().Err()
			}
			pages++
			page := fmt.Sprintf(`{"items":[],"next":"%d"}`, pages)
			return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(page))}, nil
		})}}
		limited, stop = context.WithTimeout(t.Context(), 2*maxListTime)
		defer stop()
		began = time.Now()
		var last error
		for _, err := range AllRows[Session](limited, endless, "sessions", nil, nil) {
			last = err
		}
		if !errors.Is(last, errLongList) || time.Since(began) != maxListTime || pages == 0 {
			t.Errorf("after %v and %d pages: %v", time.Since(began), pages, last)
		}
	})
}
