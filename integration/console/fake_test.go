package console

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"rollcall/operator/api"
	"rollcall/operator/console"
)

// fake replies as a member whose ensemble has as many sessions as a test wants. Real members with 100,000 sessions would
// take longer to set up than the test may last.
type fake struct {
	*httptest.Server
	begun    time.Time
	sessions []fakeSession

	mu      sync.Mutex
	silent  []api.Silence       // the members that do not answer
	free    int64               // of both disks of member 2; 0: enough
	secret  string              // what the header Authorization must have; "": anything
	exposed string              // what member 1 says of its ports for members
	full    bool                // member 1 is short of memory
	accepts []string            // the credentials that it knows
	streams int                 // how often the events were asked for
	frozen  bool                // the events have no status and no buckets
	broken  string              // requests below this path get status 503; "": none
	gone    int                 // the first sessions, which have ended
	text    string              // of every node
	names   []string            // of the nodes below /
	terms   uint64              // that recoveries have added
	slow    []api.SlowRequest   // newest first
	hold    func(*http.Request) // is called before a node is shown; nil: nothing
	asked   []url.Values        // by the requests for sessions
	kept    time.Time           // since when the log is kept; zero: it is not
	tooBig  bool                // states of the past are
}

// fakeSession is heard every third of its timeout, at its own times.
type fakeSession struct {
	id      string
	timeout time.Duration
	phase   time.Duration
}

const fakeTick = time.Second

// newFake starts a fake with n sessions. Their timeouts are 10, 20 and 30 s.
func newFake(t *testing.T, n int) *fake {
	t.Helper()
	page, err := console.New()
	if err != nil {
		t.Fatal(err)
	}
	f := &fake{begun: time.Now().Add(-time.Hour), accepts: []string{"super", "token"}, names: []string{"app", "locks", "zookeeper"}}
	for i := range n {
		s := fakeSession{id: fmt.Sprintf("0x%x", 0x2a1f80663020000+i), timeout: time.Duration(1+i%3) * 10 * time.Second}
		s.phase = time.Duration(uint64(i) * 2654435761 % uint64(s.timeout/3))
		f.sessions = append(f.sessions, s)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", page.ServePage)
	mux.HandleFunc("GET "+console.Prefix, page.ServeAsset)
	mux.HandleFunc("GET /v1/status", func(w http.ResponseWriter, r *http.Request) { reply(w, f.status()) })
	mux.HandleFunc("GET /v1/whoami", func(w http.ResponseWriter, r *http.Request) {
		reply(w, map[string]any{"member": 2, "administrator": r.Header.Get("Authorization"), "changes": r.Header.Get("Authorization") != "", "why": "", "accepts": f.accepts})
	})
	mux.HandleFunc("GET /v1/sessions", f.list)
	mux.HandleFunc("GET /v1/history", f.history)
	mux.HandleFunc("GET /v1/sessions/{id}", f.one)
	mux.HandleFunc("GET /v1/sessions/{id}/ephemerals", func(w http.ResponseWriter, r *http.Request) {
		reply(w, api.List[api.End]{Items: []api.End{}, Silent: []api.Silence{}})
	})
	mux.HandleFunc("GET /v1/sessions/{id}/watches", func(w http.ResponseWriter, r *http.Request) {
		reply(w, api.List[api.End]{Items: []api.End{}, Silent: []api.Silence{}})
	})
	mux.HandleFunc("GET /v1/ends", func(w http.ResponseWriter, r *http.Request) {
		all := f.ends()
		if id := r.URL.Query().Get("session"); id != "" {
			all[0].ID = id
			all = all[:1]
		}
		reply(w, api.List[api.End]{Items: all, Silent: []api.Silence{}})
	})
	mux.HandleFunc("GET /v1/slow", f.listSlow)
	mux.HandleFunc("GET /v1/slow/{request}", f.oneSlow)
	mux.HandleFunc("GET /v1/buckets", func(w http.ResponseWriter, r *http.Request) { reply(w, f.buckets()) })
	mux.HandleFunc("GET /v1/nodes", f.node)
	mux.HandleFunc("GET /v1/events", f.events)
	f.Server = httptest.NewServer(f.guard(mux))
	t.Cleanup(func() {
		f.CloseClientConnections()
		f.Close()
	})
	return f
}

// guard requests credentials, as a member does from a browser on another machine.
func (f *fake) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		secret, broken := f.secret, f.broken != "" && strings.HasPrefix(r.URL.Path, f.broken)
		if r.URL.Path == "/v1/events" {
			f.streams++
		}
		f.mu.Unlock()
		if strings.HasPrefix(r.URL.Path, "/v1/") && secret != "" && r.Header.Get("Authorization") != secret {
			w.WriteHeader(http.StatusUnauthorized)
			reply(w, api.Failure{Error: "from another machine this needs credentials"})
			return
		}
		if broken {
			w.WriteHeader(http.StatusServiceUnavailable)
			reply(w, api.Failure{Error: "this member has too many questions to answer"})
			return
		}
		next.ServeHTTP(w, r)
	})
}

// set changes the fake.
func (f *fake) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *fake) ends() []api.End {
	f.mu.Lock()
	defer f.mu.Unlock()
	var ends []api.End
	for i, reason := range []string{"killed", "expired", "closed", "expired", "closed"} {
		e := api.End{
			ID: fmt.Sprintf("0x1a1f8066301000%d", i), State: "ended", EndedAt: time.Now().Add(-time.Duration(20+i*95) * time.Second), Reason: reason,
			Address: fmt.Sprintf("10.0.0.%d:4711%d", i+3, i), MemberID: uint32(i%3 + 1), LeaderID: 2, Term: f.terms + 7, Zxid: "0x70000012f", SilentMs: 350, TimeoutMs: 10000, EphemeralCount: i,
			Number: uint64(900 - i),
		}
		if reason == "killed" {
			e.EndedBy = "super from 127.0.0.1:52122"
		}
		if reason == "expired" {
			e.SilentMs = 10421
		}
		ends = append(ends, e)
	}
	return ends
}

func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

func (f *fake) status() api.List[api.Member] {
	f.mu.Lock()
	defer f.mu.Unlock()
	a := api.List[api.Member]{Items: []api.Member{}, Silent: f.silent}
	if a.Silent == nil {
		a.Silent = []api.Silence{}
	}
	for id := uint32(1); id <= 3; id++ {
		if slices.ContainsFunc(a.Silent, func(s api.Silence) bool { return s.MemberID == id }) {
			continue
		}
		lag := uint64(id % 2)
		n := len(f.sessions) / 3
		m := api.Member{
			MemberID: id, Role: "follower", LeaderID: 2, Term: f.terms + 7, ClientAddress: fmt.Sprintf("10.0.0.%d:2181", id), Lag: &lag, Sessions: n, Connections: n + 1,
			DigestVerdict: "agrees", DigestIndex: 120_000, AppliedIndex: 120_331, CommittedIndex: 120_331, Zxid: "0x700000f2a", DataBytes: 81 << 20, LogBytes: 12 << 20,
			Version: "0.1.0-dev", Started: f.begun, ClockMs: int64(id)*3 - 6, SnapshotIndex: 100_000,
		}
		m.QuorumAddress, m.ElectionAddress, m.ConsoleURL = fmt.Sprintf("zoo%d:2888", id), fmt.Sprintf("zoo%d:3888", id), fmt.Sprintf("http://10.0.0.%d:8080", id)
		switch id {
		case 1:
			m.InsecurePorts, m.NoMemory = f.exposed, f.full
			m.DataFree, m.LogFree, m.DataQuota, m.DataUsed, m.MemoryLimit, m.MemoryUsed = 9<<30, 1<<30, 900<<20, 800<<20, 2<<30, 1<<30
		case 3:
			m.ConsoleURL = "http://127.0.0.1:8080"
		}
		if id == 2 {
			m.DataFree, m.LogFree = cmp.Or(f.free, 9<<30), cmp.Or(f.free, 9<<30)
			m.Role, m.Sessions, m.Connections = "leader", len(f.sessions)-2*n, len(f.sessions)-2*n
		}
		a.Items = append(a.Items, m)
	}
	return a
}

// left returns the rest of a session's timeout, and the time since it was heard.
func (s *fakeSession) left(now time.Time, f *fake) (left, heard time.Duration) {
	heard = (now.Sub(f.begun) + s.phase) % (s.timeout / 3)
	return s.timeout - heard, heard
}

func (f *fake) row(i int, now time.Time) api.Session {
	s := &f.sessions[i]
	left, heard := s.left(now, f)
	leftMs, heardMs := left.Milliseconds(), heard.Milliseconds()
	return api.Session{
		ID: s.id, State: "connected", MemberID: uint32(i%3 + 1), Address: fmt.Sprintf("10.0.%d.%d:%d", i>>8&255, i&255, 40000+i%20000), TimeoutMs: s.timeout.Milliseconds(),
		LeftMs: &leftMs, HeardMs: &heardMs, CreatedAt: f.begun, EphemeralCount: i % 4, WatchCount: i % 7,
	}
}

func (f *fake) list(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	f.mu.Lock()
	f.asked = append(f.asked, q)
	f.mu.Unlock()
	if q.Has("at") && !f.startPast(w, q.Get("at")) {
		return
	}
	limit, _ := strconv.Atoi(q.Get("limit"))
	first, _ := strconv.Atoi(q.Get("from"))
	a := api.List[api.Session]{Items: []api.Session{}, Silent: []api.Silence{}}
	now := time.Now()
	for i := first; i < len(f.sessions); i++ {
		row := f.row(i, now)
		if q.Has("at") && i%2 == 0 {
			continue
		}
		if q.Get("member") != "" && q.Get("member") != fmt.Sprint(row.MemberID) || q.Get("id") != "" && q.Get("id") != row.ID ||
			q.Get("address") != "" && !strings.HasPrefix(row.Address, q.Get("address")+":") || q.Get("state") != "" && q.Get("state") != row.State {
			continue
		}
		if len(a.Items) == limit {
			a.NextCursor = strconv.Itoa(i)
			break
		}
		a.Items = append(a.Items, row)
	}
	switch q.Get("sort") { // of the first rows: the page cannot tell
	case "left":
		slices.SortStableFunc(a.Items, func(a, b api.Session) int { return int(*a.LeftMs - *b.LeftMs) })
	case "watches":
		slices.SortStableFunc(a.Items, func(a, b api.Session) int { return b.WatchCount - a.WatchCount })
	}
	if q.Has("sort") {
		a.NextCursor = ""
	}
	reply(w, a)
}

// pastZxid is the zxid of the state at every moment of the past. Every second session lived then.
const pastZxid = "0x70000012f"

// startPast sets the headers of a reply about a moment, or rejects the request.
func (f *fake) startPast(w http.ResponseWriter, moment string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.tooBig {
		w.WriteHeader(http.StatusNotImplemented)
		reply(w, api.Failure{Error: "the state is too large on a member; use the command rollcall sessions --at", Reason: api.ReasonTooLarge})
		return false
	}
	if at, err := time.Parse(time.RFC3339Nano, moment); err == nil {
		w.Header().Set("Rollcall-Time", at.Add(-time.Minute).Format(time.RFC3339Nano))
	} else {
		w.Header().Set("Rollcall-Time", f.kept.Format(time.RFC3339Nano))
	}
	w.Header().Set("Rollcall-Zxid", pastZxid)
	return true
}

func (f *fake) history(w http.ResponseWriter, _ *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := api.History{MemberID: 2, Spans: []api.HistorySpan{}, Damaged: []string{}}
	if !f.kept.IsZero() {
		h.Spans = append(h.Spans, api.HistorySpan{First: 4, Last: 9, Snapshots: []api.HistorySnapshot{{Name: "s", Index: 5, At: f.kept}}})
	}
	reply(w, h)
}

func (f *fake) one(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	gone := f.gone
	f.mu.Unlock()
	for i := gone; i < len(f.sessions); i++ {
		if f.sessions[i].id == r.PathValue("id") {
			reply(w, f.row(i, time.Now()))
			return
		}
	}
	w.WriteHeader(http.StatusNotFound)
	reply(w, api.Failure{Error: "there is no session " + r.PathValue("id")})
}

func (f *fake) buckets() api.Buckets {
	now := time.Now()
	b := api.Buckets{TickMs: fakeTick.Milliseconds(), At: now.UTC().Truncate(time.Millisecond), LeaderID: 2, Buckets: []api.Bucket{}, Silent: []api.Silence{}}
	base := now.UnixMilli()
	counts := map[int64]int{}
	for i := range f.sessions {
		left, _ := f.sessions[i].left(now, f)
		due := (base+left.Milliseconds())/b.TickMs*b.TickMs + b.TickMs
		counts[due]++
	}
	for due, n := range counts {
		b.Buckets = append(b.Buckets, api.Bucket{DueMs: due - base, Sessions: n})
	}
	slices.SortFunc(b.Buckets, func(a, b api.Bucket) int { return int(a.DueMs - b.DueMs) })
	return b
}

func (f *fake) node(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Query().Get("path")
	f.mu.Lock()
	hold := f.hold
	f.mu.Unlock()
	if hold != nil {
		hold(r)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	n := api.Node{Path: path, Children: []string{}, Data: []byte("text of " + path + f.text), ACL: []api.ACL{{Scheme: "world", ID: "anyone", Perms: "cdrwa"}}}
	if path == "/" {
		n.Children = f.names
	}
	n.Stat.DataLength, n.Stat.NumChildren = int32(len(n.Data)), int32(len(n.Children))
	reply(w, n)
}

func (f *fake) events(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	send := func(name string, v any) {
		text, _ := json.Marshal(v)
		fmt.Fprintf(w, "event: %s\ndata: %s\n\n", name, text)
	}
	f.mu.Lock()
	terms := f.terms
	f.mu.Unlock()
	for term := range uint64(2) {
		send("leader", api.LeaderEvent{At: f.begun.Add(time.Duration(term) * 10 * time.Minute), LeaderID: uint32(1 + term), Term: terms + 6 + term, Cause: []string{"started", "silent"}[term], FormerID: uint32(term), SilentMs: 1200 * int64(term)})
	}
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for i := 0; ; i++ {
		f.mu.Lock()
		frozen := f.frozen
		f.mu.Unlock()
		if !frozen {
			send("status", f.status())
			send("buckets", f.buckets())
		}
		send("load", map[string]any{"requests_per_s": 1200 + 300*(i%7), "avg_us": 400 + 90*(i%5)})
		w.(http.Flusher).Flush()
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		}
	}
}

// silentThird says that the third member is down.
var silentThird = []api.Silence{{MemberID: 3, Reason: "down", Detail: "connection refused"}}
