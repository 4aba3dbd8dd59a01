package admin

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"rollcall/operator/api"
	"rollcall/quorum/history"
)

// Administrators on the member's own machine get the list and the files of the past. Everybody else gets a reason.
func TestV1History(t *testing.T) {
	const list = `{"member":1,"spans":[{"first":4,"last":9,"snapshots":[{"name":"2-5-1764000000000","index":5,"term":2,` +
		`"at":"2025-11-24T16:00:00Z","bytes":100}],"segments":[{"name":"0000000003-00000000000000000004.log","first":4,"last":9,"bytes":200}]}],` +
		`"damaged":["a: is damaged"]}` + "\n"
	for _, tt := range []struct {
		visit  visit
		err    error
		status int
		want   string
	}{
		{visit{header: signedIn, path: "/v1/history"}, nil, 200, list},
		{visit{header: signedIn, path: "/v1/history/file?file=segments/a.log"}, nil, 200, "the file"},
		{visit{header: signedIn, path: "/v1/history/file"}, nil, 400, "file"},
		{visit{header: signedIn, path: "/v1/history/file?file=segments/gone.log"}, nil, 404, "it may have been removed"},
		{visit{header: signedIn, path: "/v1/history/file?file=x"}, &Failure{Status: 404, Text: "no such name"}, 404, "no such name"},
		{visit{header: signedIn, path: "/v1/history"}, &Failure{Status: 409, Text: "data in memory"}, 409, "data in memory"},
		{visit{path: "/v1/history"}, nil, 401, "credentials"},
		{visit{path: "/v1/history/file?file=segments/a.log"}, nil, 401, "credentials"},
		{visit{header: signedIn, path: "/v1/history/file?file=segments/a.log", from: "10.0.0.9:5"}, nil, 403, "own machine"},
	} {
		synctest.Test(t, func(t *testing.T) {
			h, _ := newTestHTTP(t, "leader")
			opsOf(h).err, opsOf(h).file = tt.err, strings.NewReader("")
			tt.visit.method = "GET"
			w := tt.visit.to(h)
			if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.want) {
				t.Errorf("%+v: %d %s, want %d %s", tt.visit, w.Code, w.Body, tt.status, tt.want)
			}
		})
	}
}

// A file that cannot be read to its end is not taken for a whole one, and the audit log has the reason.
func TestHistoryFileIsCutShort(t *testing.T) {
	h, log := newAudited(t)
	opsOf(h).file = iotest.ErrReader(errors.New("the disk has failed"))
	func() {
		defer func() {
			if end, _ := recover().(error); !errors.Is(end, http.ErrAbortHandler) {
				t.Errorf("the reply ends with %v; a caller takes what came for the whole file", end)
			}
		}()
		(visit{method: "GET", path: "/v1/history/file?file=segments/a.log", header: signedIn}).to(h)
	}()
	if text := log.String(); !strings.Contains(text, "failed: the disk has failed") {
		t.Errorf("the log has %s", text)
	}
}

// At most maxHistoryFiles are sent at a time, and slowly. Then their places come free.
func TestHistoryFilesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _ := newTestHTTP(t, "leader")
		request := visit{method: "GET", path: "/v1/history/file?file=segments/a.log", header: signedIn}
		for range maxHistoryFiles {
			opsOf(h).file = bytes.NewReader(make([]byte, historyRate))
			go request.to(h)
			synctest.Wait()
		}
		opsOf(h).file = strings.NewReader("")
		if w := request.to(h); w.Code != 503 || !strings.Contains(w.Body.String(), "being sent") {
			t.Errorf("one more: %d %s", w.Code, w.Body)
		}
		time.Sleep(2 * time.Second)
		if w := request.to(h); w.Code != 200 {
			t.Errorf("when they are done: %d %s", w.Code, w.Body)
		}
	})
}

// A caller that follows the log gets the entries after one, and the entries that are committed during the reply. At most
// maxHistoryFollowers follow.
func TestFollowedLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _ := newTestHTTP(t, "leader")
		last := new(atomic.Uint64)
		last.Store(9)
		opsOf(h).lastEntry = last
		request := visit{method: "GET", path: "/v1/history/entries?after=7", header: signedIn}
		replies := make(chan *httptest.ResponseRecorder, maxHistoryFollowers)
		for range maxHistoryFollowers {
			go func() { replies <- request.to(h) }()
		}
		time.Sleep(time.Minute)
		last.Store(12)
		if w := request.to(h); w.Code != 503 || !strings.Contains(w.Body.String(), "follow the log") {
			t.Errorf("one more: %d %s", w.Code, w.Body)
		}
		for range maxHistoryFollowers {
			w := <-replies
			for want := uint64(8); want <= 12; want++ {
				if e, err := history.ReadEntry(w.Body); err != nil || e.Index != want {
					t.Fatalf("%+v, %v where entry %d belongs", e, err, want)
				}
			}
			if w.Body.Len() > 0 {
				t.Errorf("%d bytes follow", w.Body.Len())
			}
		}
		opsOf(h).err = &Failure{Status: http.StatusGone, Reason: api.ReasonEntriesGone, Text: "the log begins later"}
		if w := request.to(h); w.Code != http.StatusGone || !strings.Contains(w.Body.String(), api.ReasonEntriesGone) {
			t.Errorf("entries that are gone: %d %s", w.Code, w.Body)
		}
	})
}
