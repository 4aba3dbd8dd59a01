package admin

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// countedWriter counts what is written.
type countedWriter struct{ bytes int }

func (c *countedWriter) Write(b []byte) (int, error) {
	c.bytes += len(b)
	return len(b), nil
}

// A long reply rests after each part, whichever request it belongs to.
func TestLongAnswersGiveWay(t *testing.T) {
	const many = 18_000
	took := func(f func()) time.Duration {
		begun := time.Now() // of the bubble: only rests take time
		f()
		return time.Since(begun)
	}
	synctest.Test(t, func(t *testing.T) {
		for _, name := range []string{"cons", "stat", "dump"} {
			w, source := newTestWords(t, "leader", "*")
			source.many = many
			var out countedWriter
			rested := took(func() {
				if err := w.WriteReply(name, strings.NewReader(""), &out); err != nil {
					t.Error(err)
				}
			})
			if least := pagePause + time.Duration(out.bytes/partSize)*minPause; rested < least || out.bytes < 10*partSize {
				t.Errorf("%s of %d bytes rested for %v, want at least %v", name, out.bytes, rested, least)
			}
		}
		for _, name := range []string{"connections", "stats"} {
			h, source := newTestHTTP(t, "leader")
			source.many = many
			size := 0
			rested := took(func() { size = (visit{method: "GET", path: "/commands/" + name}).to(h).Body.Len() })
			if least := pagePause + time.Duration(size/partSize)*minPause; rested < least || size < 10*partSize {
				t.Errorf("%s of %d bytes rested for %v, want at least %v", name, size, rested, least)
			}
		}
		for name := range fourLetterCommands {
			w, _ := newTestWords(t, "leader", "*")
			rested := took(func() { _ = w.WriteReply(name, strings.NewReader("12345678"), io.Discard) })
			if (rested >= pagePause) != fourLetterCommands[name].longReply {
				t.Errorf("%s rested for %v", name, rested)
			}
		}
	})
}

// The rests grow with the work of a part and with the number of replies that are being made.
func TestRests(t *testing.T) {
	var p replyPacer
	for _, tt := range []struct {
		active int32
		took   time.Duration
		want   time.Duration
	}{
		{0, 0, minPause}, {1, 0, minPause}, {1, 2 * time.Millisecond, 8 * time.Millisecond}, {3, 2 * time.Millisecond, 24 * time.Millisecond}, {1, time.Second, maxPause},
	} {
		p.activeReplies.Store(tt.active)
		if got := p.pauseLength(tt.took); got != tt.want {
			t.Errorf("%d answers, a part of %v: %v, want %v", tt.active, tt.took, got, tt.want)
		}
	}
}

// Callers without credentials get figures one after the other, with rests between, and one with credentials waits for none of
// them.
func TestFiguresInTurn(t *testing.T) {
	const callers = 20
	for _, path := range []string{"/metrics", "/commands/monitor", "/commands/watch_summary"} {
		synctest.Test(t, func(t *testing.T) {
			h, _ := newTestHTTP(t, "leader")
			begun := time.Now()
			var all sync.WaitGroup
			for range callers {
				all.Go(func() {
					if w := (visit{method: "GET", path: path}).to(h); w.Code != 200 || w.Body.Len() == 0 {
						t.Errorf("%s: %d %s", path, w.Code, w.Body)
					}
				})
			}
			synctest.Wait()
			if w := (visit{method: "GET", path: path, header: signedIn}).to(h); w.Code != 200 || time.Since(begun) != 0 {
				t.Errorf("%s with credentials: %d after %v", path, w.Code, time.Since(begun))
			}
			all.Wait()
			if took := time.Since(begun); took < (callers-1)*pagePause {
				t.Errorf("%s: %d callers got it in %v", path, callers, took)
			}
			time.Sleep(maxPause)
		})
	}
}

// A reply that panics returns its turn, because the HTTP server continues.
func TestTurnOfPanicEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _ := newTestHTTP(t, "leader")
		broken := &endpoint{serve: func(http.ResponseWriter, *http.Request) { panic("broken") }}
		func() {
			defer func() { _ = recover() }() // as net/http does
			h.serveInTurn(broken, httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/metrics", nil))
		}()
		time.Sleep(maxPause)
		if w := (visit{method: "GET", path: "/metrics"}).to(h); w.Code != http.StatusOK {
			t.Errorf("after a panic: %d %s", w.Code, w.Body)
		}
		time.Sleep(maxPause)
	})
}

// A caller in turn gets the status of the reply, which is 200 if the reply sets none.
func TestStatusInTurn(t *testing.T) {
	for given, want := range map[int]int{0: http.StatusOK, http.StatusServiceUnavailable: http.StatusServiceUnavailable} {
		synctest.Test(t, func(t *testing.T) {
			h, _ := newTestHTTP(t, "leader")
			w := httptest.NewRecorder()
			h.serveInTurn(&endpoint{serve: func(w http.ResponseWriter, _ *http.Request) {
				if given != 0 {
					w.WriteHeader(given)
				}
				_, _ = io.WriteString(w, "text") // it goes to a buffer
			}}, w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
			if w.Code != want || w.Body.String() != "text" {
				t.Errorf("status %d: got %d %q", given, w.Code, w.Body)
			}
			time.Sleep(maxPause)
		})
	}
}
