package location

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// watchedPipe returns a watched connection and its other end, in virtual time.
func watchedPipe(t *testing.T) (watched, other net.Conn) {
	t.Helper()
	near, other := net.Pipe()
	watched, err := noSilence(silenceLimit, func(context.Context, string, string) (net.Conn, error) { return near, nil })(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = watched.Close(), other.Close() })
	return watched, other
}

// A connection on which nothing comes, or nothing is taken, fails after silenceLimit, and the error says why.
func TestSilence(t *testing.T) {
	for name, transfer := range map[string]func(c net.Conn) (int, error){
		"read":  func(c net.Conn) (int, error) { return c.Read(make([]byte, 9)) },
		"write": func(c net.Conn) (int, error) { return c.Write(make([]byte, 9)) },
	} {
		synctest.Test(t, func(t *testing.T) {
			c, _ := watchedPipe(t)
			begun := time.Now()
			n, err := transfer(c)
			if n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) || !strings.Contains(err.Error(), "neither taken nor sent a byte for 1m0s") {
				t.Errorf("%s: %d bytes, %v", name, n, err)
			}
			if passed := time.Since(begun); passed != silenceLimit {
				t.Errorf("%s fails after %v", name, passed)
			}
		})
	}
}

// After one direction has failed and the connection was closed, the other direction has the same error.
func TestSilenceOfBothDirections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := watchedPipe(t)
		if _, err := c.Read(make([]byte, 1)); err == nil {
			t.Fatal("a byte was read")
		}
		_ = c.Close()
		if _, err := c.Write(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a write after that: %v", err)
		}
	})
}

// A transfer that is slow, but not silent, takes as long as it needs, in either direction, and a reply may come after it.
func TestSlowTransfer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, other := watchedPipe(t)
		const parts = 10
		replied := make(chan error)
		go func() { // as the client of HTTP does: it reads while it writes
			_, err := io.ReadFull(c, make([]byte, parts))
			replied <- err
		}()
		go func() {
			b := make([]byte, writePart)
			for range parts {
				time.Sleep(silenceLimit - time.Second)
				_, _ = io.ReadFull(other, b)
			}
			for range parts {
				time.Sleep(silenceLimit - time.Second)
				_, _ = other.Write(b[:1])
			}
		}()
		if n, err := c.Write(make([]byte, parts*writePart)); n != parts*writePart || err != nil {
			t.Errorf("%d bytes were sent, %v", n, err)
		}
		if err := <-replied; err != nil {
			t.Error(err)
		}
	})
}

// An object whose content does not come to its end, and one that the service does not take, are errors.
func TestBucketStalls(t *testing.T) {
	f := newFakeS3(t)
	ended := make(chan struct{})
	t.Cleanup(func() { close(ended) })
	f.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			w.Header().Set("Last-Modified", "Mon, 02 Mar 2026 03:12:00 GMT")
			w.Header().Set("ETag", `"x"`)
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "begin")
			_ = http.NewResponseController(w).Flush()
		}
		select {
		case <-ended:
		case <-r.Context().Done():
		}
	})
	store, err := openBucketWithin(settingsOf(t, f), 50*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	r, err := store.Open(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(r)
	if string(b) != "begin" || err == nil ||
		!strings.Contains(err.Error(), "s3://bucket/a/b/x: it was not read to its end: the service has neither") {
		t.Errorf("%q, %v", b, err)
	}
	_ = r.Close()                                                                                         // it has failed
	if err := store.Put(t.Context(), "y", make([]byte, 8<<20)); !errors.Is(err, os.ErrDeadlineExceeded) { // more than the system's buffers take
		t.Errorf("an object that is not taken: %v", err)
	}
}
