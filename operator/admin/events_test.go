package admin

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/internal/metrics"
	"rollcall/operator/api"
	"rollcall/operator/view"
	"rollcall/znode"
)

// watchedOps counts the polls of the ensemble.
type watchedOps struct {
	*fakeOps
	looks     atomic.Int32
	slowPolls atomic.Int32
	slowLists []api.List[api.SlowRequest] // of the first polls; the last one is of all that follow
}

func (o *watchedOps) SlowRequests(context.Context, view.SlowFilter, view.Page) (api.List[api.SlowRequest], error) {
	n := int(o.slowPolls.Add(1))
	if n = min(n, len(o.slowLists)); n == 0 {
		return api.List[api.SlowRequest]{}, nil
	}
	return o.slowLists[n-1], nil
}

func (o *watchedOps) MemberStatuses(context.Context) (api.List[api.Member], error) {
	o.looks.Add(1)
	return api.List[api.Member]{Items: o.members, Silent: silentThree}, nil
}

func (o *watchedOps) ExpiryBuckets(context.Context) (api.Buckets, error) { return o.buckets, nil }

func (o *watchedOps) ReadLoad() Load { return Load{} }

// serveEvents starts an HTTP over pipes on a fake ensemble. stop ends it.
func serveEvents(t *testing.T) (h *HTTP, ops *watchedOps, p *pipes, stop func()) {
	t.Helper()
	ops = &watchedOps{fakeOps: newFakeOps()}
	h, _ = newTestHTTP(t, "leader", on(ops))
	p, stop = serveOn(t, h)
	synctest.Wait()
	return h, ops, p, stop
}

// listener is a client that reads events.
type listener struct {
	net.Conn
	lines  *bufio.Reader
	answer *http.Response
	beats  int // comments that came
}

func listen(t *testing.T, p *pipes, path string, headers ...string) *listener {
	t.Helper()
	l := &listener{Conn: p.dial()}
	if _, err := fmt.Fprintf(l, "GET %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n", path, strings.Join(headers, "")); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(l)
	var err error
	if l.answer, err = http.ReadResponse(in, nil); err != nil {
		t.Fatal(err)
	}
	l.lines = bufio.NewReader(l.answer.Body)
	return l
}

// next returns the next event.
func (l *listener) next() (name, data string, err error) {
	for {
		line, err := l.lines.ReadString('\n')
		if err != nil {
			return "", "", err
		}
		field, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch field {
		case "event":
			name = value
		case "data":
			data = value
		case ":":
			l.beats++
		case "":
			if name != "" {
				return name, data, nil
			}
		}
	}
}

// until returns the data of the next event of that name.
func (l *listener) until(t *testing.T, name string) string {
	t.Helper()
	for begun := time.Now(); ; {
		switch got, data, err := l.next(); {
		case err != nil || time.Since(begun) > time.Minute:
			t.Fatalf("no event %s within %v: %v", name, time.Since(begun), err)
		case got == name:
			return data
		}
	}
}

// The data of each event match the description.
func TestEventsAreAsDescribed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, ops, p, stop := serveEvents(t)
		defer stop()
		ops.slowLists = []api.List[api.SlowRequest]{{}, {Items: ops.slow}}
		l := listen(t, p, "/v1/events")
		defer func() { _ = l.Close() }()
		go func() {
			for range 2 * maxPendingEvents {
				h.SessionOpened(znode.Session{})
			}
			h.LeaderChanged(1, 2, znode.LeaderCause{}, time.Now())
		}()
		kinds, seen := described(t).Components.Schemas["Events"].Value.Properties, map[string]bool{}
		for begun := time.Now(); time.Since(begun) < 3*pollInterval; {
			name, data, err := l.next()
			var value any
			if err != nil || json.Unmarshal([]byte(data), &value) != nil {
				t.Fatalf("%s %s: %v", name, data, err)
			}
			if kinds[name] == nil {
				t.Fatalf("there is no event %s in the description", name)
			}
			if err := kinds[name].Value.VisitJSON(value); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			seen[name] = true
		}
		if len(seen) != len(kinds) {
			t.Errorf("there were %v", slices.Collect(maps.Keys(seen)))
		}
	})
}

// A stream begins with the current state, continues with one poll per second, and lasts longer than any other reply. It
// reports each change.
func TestEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _, p, stop := serveEvents(t)
		defer stop()
		l := listen(t, p, "/v1/events")
		defer func() { _ = l.Close() }()
		if kind := l.answer.Header.Get("Content-Type"); l.answer.StatusCode != 200 || kind != "text/event-stream" {
			t.Fatalf("%d, %s", l.answer.StatusCode, kind)
		}
		for name, path := range map[string]string{"status": "/v1/status", "buckets": "/v1/buckets"} {
			if got, want := l.until(t, name), (visit{method: "GET", path: path}).to(h).Body.String(); got+"\n" != want {
				t.Errorf("%s: %s, want %s", name, got, want)
			}
		}
		session := znode.Session{ID: 5, Timeout: time.Second, Owner: znode.SessionOwner{Member: 2}, Address: "10.0.0.1:1", Password: [16]byte{1}}
		h.SessionOpened(session)
		h.SessionMoved(session, 3)
		h.SessionEnded(session, znode.SessionEnd{Reason: znode.ReasonKilled, RequestedBy: "me", SilentFor: 7 * time.Millisecond, EphemeralCount: 4})
		now := time.Now().UTC().Format("2006-01-02T15:04:05Z")
		for _, want := range []string{
			`{"kind":"created","at":"NOW","id":"0x5","member":2,"from":0,"address":"10.0.0.1:1","timeout_ms":1000,"reason":"","by":"","silent_ms":0,"ephemerals":0}`,
			`{"kind":"moved","at":"NOW","id":"0x5","member":2,"from":3,"address":"10.0.0.1:1","timeout_ms":1000,"reason":"","by":"","silent_ms":0,"ephemerals":0}`,
			`{"kind":"ended","at":"NOW","id":"0x5","member":2,"from":0,"address":"10.0.0.1:1","timeout_ms":1000,"reason":"killed","by":"me","silent_ms":7,"ephemerals":4}`,
		} {
			if got := strings.ReplaceAll(l.until(t, "session"), now, "NOW"); got != want {
				t.Errorf("%s, want %s", got, want)
			}
		}
		h.LeaderChanged(2, 10, znode.LeaderCause{}, time.Now())
		if got, want := l.until(t, "leader"), fmt.Sprintf(`{"at":"%s","leader":2,"term":10,"cause":"unknown","former":0,"silent_ms":0}`, now); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		begun, seen := time.Now(), map[string]int{}
		l.beats = 0
		for time.Since(begun) < 2*replyTimeout {
			name, _, err := l.next()
			if err != nil {
				t.Fatalf("after %v: %v", time.Since(begun), err)
			}
			seen[name]++
		}
		const n = int(2 * replyTimeout / pollInterval)
		want := map[string]int{"status": n, "buckets": n, "load": n}
		for name := range want {
			if seen[name] >= n-1 && seen[name] <= n+1 {
				seen[name] = n
			}
		}
		if !maps.Equal(seen, want) || l.beats < 2*int(replyTimeout/heartbeatInterval)-1 {
			t.Errorf("in %v: %v and %d comments, want %v", 2*replyTimeout, seen, l.beats, want)
		}
	})
}

// A stream begins with the last changes of the leader, oldest first, also those before anybody read.
func TestEventsBeginWithLeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _, p, stop := serveEvents(t)
		defer stop()
		begun := time.Now()
		for term := range uint64(maxLeaderEvents + 2) {
			h.LeaderChanged(uint32(term%3+1), term+1, znode.LeaderCause{Kind: znode.LeaderSilent, Former: 7, Silent: 1500 * time.Millisecond}, begun.Add(time.Duration(term)*time.Minute))
		}
		for range 2 { // readers
			l := listen(t, p, "/v1/events")
			for term := uint64(3); term <= maxLeaderEvents+2; term++ {
				opened := utcMillis(begun.Add(time.Duration(term-1) * time.Minute)).Format(time.RFC3339)
				if got, want := l.until(t, "leader"), fmt.Sprintf(`{"at":"%s","leader":%d,"term":%d,"cause":"silent","former":7,"silent_ms":1500}`, opened, (term-1)%3+1, term); got != want {
					t.Errorf("%s, want %s", got, want)
				}
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// A change of the leader may still be queued when the last stream ends. The next stream does not get it from the queue,
// because it begins with the last changes anyway.
func TestEventsOfLeadersAreInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _, p, stop := serveEvents(t)
		defer stop()
		h.LeaderChanged(1, 1, znode.LeaderCause{}, time.Now())
		h.streams.leaderEvents <- api.LeaderEvent{LeaderID: 1, Term: 1} // just before the last stream ended
		h.LeaderChanged(2, 2, znode.LeaderCause{}, time.Now())
		l := listen(t, p, "/v1/events")
		defer func() { _ = l.Close() }()
		synctest.Wait()
		h.LeaderChanged(3, 3, znode.LeaderCause{}, time.Now())
		for want := uint64(1); want <= 3; want++ {
			var e api.LeaderEvent
			if err := json.Unmarshal([]byte(l.until(t, "leader")), &e); err != nil || e.Term != want {
				t.Errorf("%+v, %v, want term %d", e, err, want)
			}
		}
	})
}

// When all places are taken, a reader with credentials gets the place of the oldest reader without, who would be
// rejected otherwise. A reader with credentials keeps its place.
func TestEventsForAdministrators(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _, _, stop := serveEvents(t)
		defer stop()
		synctest.Wait()
		var all []*eventReader
		for i := range maxStreams {
			by := ""
			if i == 0 {
				by = "super"
			}
			r, failure := h.streams.addReader(by)
			if failure != nil {
				t.Fatal(failure)
			}
			all = append(all, r)
		}
		if _, failure := h.streams.addReader(""); failure == nil || failure.Status != 503 || !strings.Contains(failure.Text, "sign in") {
			t.Errorf("another reader without credentials: %v", failure)
		}
		for i := 1; i < maxStreams; i++ {
			if _, failure := h.streams.addReader("super"); failure != nil {
				t.Fatalf("administrator %d: %v", i+1, failure)
			}
			for j, r := range all {
				if got, want := gone(r), j >= 1 && j <= i; got != want {
					t.Fatalf("after administrator %d: reader %d is gone: %t, want %t", i+1, j, got, want)
				}
			}
		}
		if _, failure := h.streams.addReader("super"); failure == nil || failure.Status != 503 {
			t.Errorf("an administrator beside as many as there are places: %v", failure)
		}
	})
}

func gone(r *eventReader) bool {
	select {
	case <-r.endSignal:
		return true
	default:
		return false
	}
}

// A reader without credentials keeps its place for some minutes only.
func TestEventsWithoutCredentialsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, p, stop := serveEvents(t)
		defer stop()
		l := listen(t, p, "/v1/events")
		defer func() { _ = l.Close() }()
		begun := time.Now()
		for {
			if _, _, err := l.next(); err != nil {
				break
			}
		}
		if took := time.Since(begun); took < maxAnonymousStreamTime || took > maxAnonymousStreamTime+pollInterval {
			t.Errorf("ended after %v, want %v", took, maxAnonymousStreamTime)
		}
	})
}

// The ensemble is not polled while there are no readers, and one poll serves all readers.
func TestEventsAreCollectedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, ops, p, stop := serveEvents(t)
		defer stop()
		looks := func(during time.Duration) int32 {
			before := ops.looks.Load()
			time.Sleep(during)
			synctest.Wait()
			return ops.looks.Load() - before
		}
		h.SessionOpened(znode.Session{ID: 7})
		if len(h.streams.sessionEvents) > 0 {
			t.Error("a session is noted while nobody reads")
		}
		if n := looks(time.Minute); n != 0 {
			t.Errorf("%d looks while nobody reads", n)
		}
		var all []*listener
		for range 4 {
			l := listen(t, p, "/v1/events")
			go func() {
				for _, _, err := l.next(); err == nil; _, _, err = l.next() {
				}
			}()
			all = append(all, l)
		}
		if n := looks(time.Minute); n < 59 || n > 61 {
			t.Errorf("%d looks in a minute for 4 readers", n)
		}
		for _, l := range all {
			_ = l.Close()
		}
		synctest.Wait()
		if n := looks(time.Minute); n != 0 {
			t.Errorf("%d looks after the last reader left", n)
		}
		h.SessionOpened(znode.Session{ID: 7})
		if len(h.streams.sessionEvents) > 0 {
			t.Error("a session is noted after the last reader left")
		}
		h.streams.sessionEvents <- api.SessionEvent{ID: "0x7"} // just before it left
		l := listen(t, p, "/v1/events")
		defer func() { _ = l.Close() }()
		h.SessionOpened(znode.Session{ID: 8})
		if got := l.until(t, "session"); !strings.Contains(got, `"id":"0x8"`) {
			t.Errorf("a new reader hears %s", got)
		}
	})
}

// There is a bound on streams, and a place comes free when a reader leaves.
func TestStreamsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _, p, stop := serveEvents(t)
		defer stop()
		var all []*eventReader
		for range maxStreams {
			r, failure := h.streams.addReader("")
			if failure != nil {
				t.Fatal(failure)
			}
			all = append(all, r)
		}
		w := visit{method: "GET", path: "/v1/events"}.to(h)
		if text := failureOf(t, w.Body.Bytes()); w.Code != 503 || !strings.Contains(text, "as many streams") ||
			w.Header().Get("Retry-After") == "" {
			t.Errorf("%d %s", w.Code, text)
		}
		if w := (visit{method: "GET", path: "/v1/events?since=1"}).to(h); w.Code != 400 ||
			!strings.Contains(failureOf(t, w.Body.Bytes()), `unknown parameter "since"`) {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		h.streams.removeReader(all[3])
		h.streams.removeReader(all[3]) // no harm
		l := listen(t, p, "/v1/events")
		l.until(t, "status")
		_ = l.Close()
		synctest.Wait()
		if n := len(h.streams.readers); n != maxStreams-1 {
			t.Errorf("%d readers after one left", n)
		}
	})
}

// A reader that takes nothing is dropped, and the others notice nothing.
func TestSlowReaderIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _, p, stop := serveEvents(t)
		defer stop()
		slow, quick := listen(t, p, "/v1/events"), listen(t, p, "/v1/events")
		behind, failure := h.streams.addReader("")
		if failure != nil {
			t.Fatal(failure)
		}
		begun := time.Now()
		for time.Since(begun) < time.Minute {
			quick.until(t, "load")
		}
		if n := len(h.streams.readers); n != 2 {
			t.Errorf("%d readers, want the quick one and the one that is not far behind yet", n)
		}
		for i := range maxUnreadEvents {
			h.streams.broadcast("load", i)
			quick.until(t, "load")
		}
		select {
		case <-behind.endSignal:
		default:
			t.Errorf("a reader that is %d events behind is not dropped", len(behind.frames))
		}
		quick.until(t, "status")
		_, _ = slow.Close(), quick.Close()
	})
}

// When the member stops, streams end at once.
func TestStreamsEndWithTheMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _, p, stop := serveEvents(t)
		l := listen(t, p, "/v1/events")
		l.until(t, "status")
		ended := make(chan time.Time)
		go func() {
			for _, _, err := l.next(); err == nil; _, _, err = l.next() {
			}
			ended <- time.Now()
		}()
		begun := time.Now()
		stop()
		if took := (<-ended).Sub(begun); took >= shutdownTimeout {
			t.Errorf("the stream ended after %v", took)
		}
		if _, failure := h.streams.addReader(""); failure == nil || failure.Text != "this member is stopping" {
			t.Errorf("a stream after that: %v", failure)
		}
	})
}

// However many sessions come and go, readers hear of some in each second, and how many there were besides.
func TestEventsOfManySessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _, p, stop := serveEvents(t)
		defer stop()
		l := listen(t, p, "/v1/events")
		defer func() { _ = l.Close() }()
		l.until(t, "status")
		const n = 10_000
		go func() {
			for range n {
				h.SessionEnded(znode.Session{}, znode.SessionEnd{})
			}
		}()
		told, omitted := 0, int64(0)
		for begun := time.Now(); time.Since(begun) < 5*pollInterval; {
			name, data, err := l.next()
			if err != nil {
				t.Fatal(err)
			}
			switch name {
			case "session":
				told++
			case "omitted":
				var o api.Omitted
				if err := json.Unmarshal([]byte(data), &o); err != nil {
					t.Fatal(err)
				}
				omitted += o.Sessions
			}
		}
		if told == 0 || told > 2*maxSessionEvents || int64(told)+omitted != n {
			t.Errorf("%d events, and %d omitted, of %d", told, omitted, n)
		}
	})
}

// The load is the work since the last poll, even if the counters were set to zero meanwhile.
func TestMeter(t *testing.T) {
	ops := newFakeOps()
	m := loadMeter{ops: ops}
	read := func(at time.Duration, reads, updates uint64, each time.Duration) api.Load {
		of := func(n uint64) metrics.Summary { return metrics.Summary{Count: n, Sum: time.Duration(n) * each} }
		ops.load = Load{Reads: of(reads), Updates: of(updates), OutstandingRequests: 3, Connections: 4}
		return m.loadSinceLast(began.Add(at))
	}
	if got, want := read(0, 1000, 500, time.Millisecond), (api.Load{At: began, QueuedRequests: 3, Connections: 4}); got != want {
		t.Errorf("at first: %+v, want %+v", got, want)
	}
	want := api.Load{
		At: began.Add(2 * time.Second), OverMs: 2000, RequestsPerS: 30, AvgUs: 1000, ReadsPerS: 20, ReadAvgUs: 1000, UpdatesPerS: 10, UpdateAvgUs: 1000,
		QueuedRequests: 3, Connections: 4,
	}
	if got := read(2*time.Second, 1040, 520, time.Millisecond); got != want {
		t.Errorf("then: %+v, want %+v", got, want)
	}
	if got := read(3*time.Second, 1040, 520, time.Millisecond); got.RequestsPerS != 0 || got.AvgUs != 0 {
		t.Errorf("without requests: %+v", got)
	}
	if got := read(4*time.Second, 10, 0, 3*time.Millisecond); got.RequestsPerS != 10 || got.ReadAvgUs != 3000 || got.UpdatesPerS != 0 {
		t.Errorf("after a reset: %+v", got)
	}
}
