package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"rollcall/internal/tokenproof"
	"rollcall/operator/api"
)

// hostile is what a client may choose as a path or an identity.
const hostile = "/\x1b]0;owned\a\x1b[2J\u202e\u009b31mevil"

// fakeMember answers under /v1/ as a member does, about an ensemble of three of which member 3 is down. It
// gives pages of two rows.
type fakeMember struct {
	*httptest.Server
	sessions []api.Session
	ends     []api.End
	removals []api.Removal
	owners   map[string]api.Owner
	level    string            // of its log
	broken   string            // the cursor of a page of sessions that fails
	backup   []byte            // what a backup sends
	leaders  []api.LeaderEvent // with which the stream of events begins
	refusal  int               // the status of a refused backup; 0: none is
	removed  bool              // it was removed from the ensemble

	mu    sync.Mutex
	asked []string // "METHOD path?query Authorization"
}

var testNow = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) time.Time { return testNow.Add(-d) }

func ptr[T any](v T) *T { return &v }

func newFakeMember(t *testing.T) *fakeMember {
	t.Helper()
	conn := api.Connection{
		MemberID: 1, Number: 7, Address: "10.0.0.1:46396", SessionID: "0x1000012f99a0001", TimeoutMs: 15000, EstablishedAt: ago(90 * time.Minute),
		Received: 812, Sent: 1640, RequestsPerS: 9.34, BytesPerS: 4300, QueuedRequests: 2, LastOp: "getChildren2", LastZxid: "0x20000000a", LastUs: 2000, MinUs: 90, AvgUs: 350, MaxUs: 41000,
	}
	first := api.Session{
		ID: "0x1000012f99a0001", State: "connected", MemberID: 1, Address: "10.0.0.1:46396", TimeoutMs: 15000, LeftMs: ptr(int64(13500)), HeardMs: ptr(int64(1500)),
		CreatedAt: ago(50 * time.Hour), EphemeralCount: 2, WatchCount: 3, Connection: &conn,
	}
	end := api.End{
		ID: "0x1000012f99a0009", State: "ended", EndedAt: ago(3 * time.Minute), Reason: "expired", Address: "10.0.0.7:41234", MemberID: 2, LeaderID: 1, Term: 4,
		Zxid: "0x400000012", SilentMs: 6040, TimeoutMs: 6000, EphemeralCount: 1, Number: 17,
	}
	f := &fakeMember{
		level: "info",
		sessions: []api.Session{
			first,
			{ID: "0x200004f0a2b0000", State: "disconnected", MemberID: 2, Address: "[fd00::7]:41234", TimeoutMs: 6000, LeftMs: ptr(int64(900)), HeardMs: ptr(int64(5100)), CreatedAt: ago(42 * time.Second), EphemeralCount: 12},
			{ID: "0x300004f0a2b0007", State: "unknown", MemberID: 3, Address: "host\x1b[31m", TimeoutMs: 40000, CreatedAt: ago(0)},
		},
		ends: []api.End{
			{ID: "0x1000012f99a000a", State: "ended", EndedAt: ago(9 * time.Second), Reason: "killed", EndedBy: "super from 127.0.0.1:9\x1b[1m", Address: "10.0.0.7:41300", MemberID: 2, LeaderID: 1, Term: 1<<16 + 4, Zxid: "0x400000020", SilentMs: 200, TimeoutMs: 6000, Number: 18},
			end,
		},
		removals: []api.Removal{
			{Path: "/locks/a", RemovedAt: ago(3 * time.Minute), Zxid: "0x400000012", Cause: "session ended", SessionID: end.ID, Address: end.Address, MemberID: 2, End: &end},
			{Path: "/locks/a", RemovedAt: ago(26 * time.Hour), Zxid: "0x300000001", Cause: "delete", SessionID: "0x5", Address: "10.0.0.9:1", MemberID: 3},
			{Path: "/locks/a", RemovedAt: ago(27 * time.Hour), Zxid: "0x2000000ff", Cause: "ttl"},
			{Path: hostile, RemovedAt: ago(28 * time.Hour), Zxid: "0x2000000fe", Cause: "container"},
		},
		owners: map[string]api.Owner{
			"/locks/a": {Path: "/locks/a", Kind: "ephemeral", SessionID: first.ID, Session: &first, Children: []api.OwnedChild{}, Silent: []api.Silence{}},
			"/plain":   {Path: "/plain", Kind: "persistent", Children: []api.OwnedChild{}, Silent: []api.Silence{}},
			"/locks/b": {
				Path: "/locks/b", Kind: "container", Silent: []api.Silence{}, EphemeralCount: 5, ChildrenCut: true,
				Children: []api.OwnedChild{
					{Name: "lock-0000000001", Turn: "holds", SessionID: first.ID, MemberID: 1, Address: "10.0.0.7:5"},
					{Name: "lock-0000000002", Turn: "waits", SessionID: "0x9", SessionEnded: true},
					{Name: "lock-0000000003\x1b[31m", Turn: "waits", SessionID: "0xa", MemberID: 2},
				},
			},
			"/swept": {Path: "/swept", Kind: "ephemeral", SessionID: "0x9", SessionEnded: true, Children: []api.OwnedChild{}, Silent: []api.Silence{}},
			hostile:  {Path: hostile, Kind: "ephemeral", SessionID: "0x300004f0a2b0007", Children: []api.OwnedChild{}, Silent: []api.Silence{{MemberID: 3, Reason: "down", Detail: "\x1b[31mrefused"}}},
		},
	}
	f.Server = newServer(t, f.mux())
	t.Cleanup(f.Close)
	return f
}

// newServer serves HTTP as a member with the token of tokenFile does. The handler sees the token in the header if the
// connection has proved it.
func newServer(t *testing.T, handler http.Handler) *httptest.Server {
	t.Helper()
	type connKey struct{}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Context().Value(connKey{}).(*tokenproof.Conn).HasProof() {
			r.Header.Set("Authorization", "Bearer abcdefghijklmnop")
		}
		if r.URL.Path != "/livez" { // a check of the port, which any member replies to
			handler.ServeHTTP(w, r)
		}
	}))
	l, err := tokenproof.NewListener(s.Listener, tokenproof.DeriveTokenKey("abcdefghijklmnop"))
	if err != nil {
		t.Fatal(err)
	}
	s.Listener = l
	s.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) }
	s.Start()
	return s
}

// ofMemberItself reports whether a removed member answers a path.
func ofMemberItself(path string) bool {
	return slices.Contains([]string{"/v1/members", "/v1/whoami", "/v1/log-level", "/v1/limits", "/v1/config", "/v1/openapi.json"}, path)
}

// mux returns the endpoints.
func (f *fakeMember) mux() http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern string, answer func(r *http.Request) any) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			f.note(r)
			v := answer(r)
			if f.removed && r.Method == http.MethodGet && !ofMemberItself(r.URL.Path) {
				v = goneRefusal
			}
			status := http.StatusOK
			if e, refused := v.(*api.Error); refused {
				v, status = api.Failure{Error: e.Text, Reason: e.Reason}, e.Status
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_ = json.NewEncoder(w).Encode(v)
		})
	}
	handle("GET /v1/openapi.json", func(*http.Request) any { return json.RawMessage(api.OpenAPI) })
	handle("GET /v1/status", func(*http.Request) any { return f.status() })
	mux.HandleFunc("GET /v1/events", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "retry: 1000\n\n")
		for _, change := range f.leaders {
			text, _ := json.Marshal(change)
			_, _ = fmt.Fprintf(w, "event: leader\ndata: %s\n\n", text)
		}
		_, _ = io.WriteString(w, "event: status\ndata: {}\n\n")
	})
	handle("GET /v1/members", func(*http.Request) any { return f.members() })
	handle("GET /v1/sessions", func(r *http.Request) any {
		if f.broken != "" && r.FormValue("from") == f.broken {
			return &api.Error{Status: 503, Text: "too many questions"}
		}
		return pageOf(r, slices.DeleteFunc(slices.Clone(f.sessions), func(s api.Session) bool {
			state := r.FormValue("state")
			return state != "" && s.State != state
		}))
	})
	handle("GET /v1/sessions/{id}", func(r *http.Request) any {
		i := slices.IndexFunc(f.sessions, func(s api.Session) bool { return s.ID == r.PathValue("id") })
		if i < 0 {
			return &api.Error{Status: 404, Text: "there is no session"}
		}
		return api.OneSession{Session: f.sessions[i], Silent: []api.Silence{}}
	})
	handle("GET /v1/sessions/{id}/ephemerals", func(r *http.Request) any {
		return pageOf(r, []api.Ephemeral{{Path: "/locks/a"}, {Path: hostile}})
	})
	handle("GET /v1/sessions/{id}/watches", func(r *http.Request) any { return pageOf(r, f.watches()) })
	handle("GET /v1/watches", func(r *http.Request) any { return pageOf(r, f.watches()) })
	handle("POST /v1/sessions/{id}/kill", f.kill)
	handle("GET /v1/whoami", func(r *http.Request) any {
		if r.Header.Get("Authorization") != "Bearer abcdefghijklmnop" {
			return api.Caller{MemberID: 2, DenialReason: "this needs credentials"}
		}
		return api.Caller{MemberID: 2, Administrator: "token", MayChange: true}
	})
	handle("GET /v1/log-level", func(*http.Request) any { return api.LogLevel{Level: f.level} })
	handle("POST /v1/log-level", func(r *http.Request) any {
		if r.Header.Get("Authorization") != "Bearer abcdefghijklmnop" {
			return &api.Error{Status: 403, Text: "this is served on the member's own machine alone"}
		}
		_ = json.NewDecoder(r.Body).Decode(&api.LogLevel{})
		f.level = "debug"
		return api.LogLevel{Level: f.level}
	})
	limits := api.Limits{Limits: []api.Limit{
		{Name: "clients", Rule: "each address requests=300 sessions=50"}, {Name: "batch", Rule: "subtree /batch requests=500 bytes=2097152"},
	}}
	handle("GET /v1/limits", func(*http.Request) any { return limits })
	handle("POST /v1/limits", func(r *http.Request) any {
		var change api.LimitsChange
		if err := json.NewDecoder(r.Body).Decode(&change); err != nil || len(change.Set) != 1 || len(change.Remove) != 1 {
			return &api.Error{Status: 400, Text: "not the change that the tests make"}
		}
		return api.Limits{Limits: change.Set}
	})
	handle("GET /v1/connections", func(r *http.Request) any {
		if strings.Contains(r.FormValue("address"), "/") {
			return &api.Error{Status: 400, Text: "allowed are an IP address, and one with a port"}
		}
		return pageOf(r, []api.Connection{*f.sessions[0].Connection, {MemberID: 2, Number: 9, TLS: "TLSv1.3", Cipher: "TLS_AES_128_GCM_SHA256", Address: "[fd00::7]:41234", EstablishedAt: ago(time.Second), LastZxid: "0x0"}})
	})
	handle("GET /v1/owner", func(r *http.Request) any {
		if o, there := f.owners[r.FormValue("path")]; there {
			return o
		}
		return api.Owner{Path: r.FormValue("path"), Kind: "none", Silent: []api.Silence{}}
	})
	handle("GET /v1/ends", func(r *http.Request) any {
		return pageOf(r, slices.DeleteFunc(slices.Clone(f.ends), func(e api.End) bool {
			id, address := r.FormValue("session"), r.FormValue("address")
			return id != "" && e.ID != id || address != "" && !strings.HasPrefix(e.Address, address)
		}))
	})
	handle("GET /v1/removals", func(r *http.Request) any {
		return pageOf(r, slices.DeleteFunc(slices.Clone(f.removals), func(e api.Removal) bool { return r.FormValue("path") != "" && e.Path != r.FormValue("path") }))
	})
	handle("GET /v1/slow", func(r *http.Request) any {
		return pageOf(r, slices.DeleteFunc(slices.Clone(slowRequests), func(s api.SlowRequest) bool {
			member, session, address := r.FormValue("member"), r.FormValue("session"), r.FormValue("address")
			return member != "" && member != fmt.Sprint(s.MemberID) || session != "" && session != s.SessionID || address != "" && !strings.HasPrefix(s.Address, address)
		}))
	})
	handle("GET /v1/slow/{id}", func(*http.Request) any { return slowRequests[0] })
	mux.HandleFunc("GET /v1/backup", func(w http.ResponseWriter, r *http.Request) {
		f.note(r)
		if f.refusal != 0 {
			w.WriteHeader(f.refusal)
			_ = json.NewEncoder(w).Encode(api.Failure{Error: map[int]string{503: "this member is joining the ensemble", 401: "this needs credentials"}[f.refusal]})
			return
		}
		_, _ = w.Write(f.backup)
	})
	return mux
}

func (f *fakeMember) note(r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, strings.TrimSpace(r.Method+" "+r.URL.String()+" "+r.Header.Get("Authorization")))
}

// requests returns what was asked for since the last call.
func (f *fakeMember) requests() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	asked := f.asked
	f.asked = nil
	return asked
}

func (f *fakeMember) status() api.List[api.Member] {
	return api.List[api.Member]{
		Items: []api.Member{
			{
				MemberID: 2, Role: "follower", LeaderID: 1, Term: 4, ClientAddress: "10.0.1.2:2181", QuorumAddress: "b:2888", ElectionAddress: "b:3888", Zxid: "0x4000000a1", AppliedIndex: 90, CommittedIndex: 91,
				Sessions: 1, Connections: 1, DataBytes: 510, LogBytes: 1000, DigestVerdict: "unknown", Version: "0.1.0", Started: ago(70 * time.Second), ClockMs: -20,
				IsJoining: true, IsDrained: true, WasRemoved: true, NoMemory: true, StallReason: "the disk hangs\x1b[0m", DamageReason: "entry 7",
			},
			{
				MemberID: 1, Role: "leader", LeaderID: 1, Term: 4, ClientAddress: "10.0.1.1:2181", QuorumAddress: "a:2888", ElectionAddress: "a:3888", Zxid: "0x4000000a1", AppliedIndex: 91, CommittedIndex: 91, Lag: ptr(uint64(0)),
				Sessions: 1, Connections: 2, Watches: 3, DataBytes: 64 << 20, LogBytes: 300 << 10, SnapshotIndex: 50, SnapshotAt: ptr(ago(2 * time.Hour)), DigestVerdict: "agrees", DigestIndex: 64,
				Version: "0.1.0", Started: ago(200 * time.Hour),
				DataFree: 9 << 30, LogFree: 1 << 30, DataQuota: 900 << 20, DataUsed: 800 << 20, MemoryLimit: 2 << 30, MemoryUsed: 1 << 30,
			},
			{
				MemberID: 4, Term: 2<<16 + 6, QuorumAddress: "d:2888", ElectionAddress: "d:3888", Zxid: "0x0", DigestVerdict: "unknown", Version: "0.1.0", Started: ago(time.Minute),
				DataFree: 9 << 30, LogFree: 9 << 30, IsJoining: true, NotServing: "no leader is known: this member waits for members 2 and 3: connection refused",
			},
		},
		Silent: []api.Silence{{MemberID: 3, Reason: "down", Detail: "connection refused\x1b[31m"}},
	}
}

func (f *fakeMember) members() api.Members {
	return api.Members{
		EnsembleID: "ab12", Version: "0x400000005", LeaderID: 1, CommittedIndex: ptr(uint64(91)), IsSettled: true, WasRemoved: f.removed,
		Items: []api.Server{
			{
				MemberID: 1, ListLine: "server.1=a:2888:3888:participant;0.0.0.0:2181", QuorumAddress: "a:2888", ElectionAddress: "a:3888", ClientAddress: "0.0.0.0:2181", RaftAddress: "a:3888", Role: "participant", IsVoter: true,
				State: api.StateLeader, AppliedIndex: 91, Lag: ptr(uint64(0)), NeededForMajority: true,
			},
			{
				MemberID: 2, ListLine: "server.2=b:2888:3888:observer", QuorumAddress: "b:2888", ElectionAddress: "b:3888", RaftAddress: "b:3888", Role: "observer",
				State: api.StateObserver, AppliedIndex: 88, Lag: ptr(uint64(3)), IsDrained: true,
			},
			{MemberID: 3, ElectionAddress: "c:3888", RaftAddress: "c:3888", IsVoter: true, State: api.StateSilent, Detail: "down: connection refused\x1b[31m"},
		},
		Silent: []api.Silence{{MemberID: 3, Reason: "down", Detail: "connection refused\x1b[31m"}},
	}
}

func (f *fakeMember) watches() []api.Watch {
	return []api.Watch{
		{MemberID: 1, Connection: 7, SessionID: "0x1000012f99a0001", Path: "/config", Data: true, Children: true},
		{MemberID: 1, Connection: 7, SessionID: "0x1000012f99a0001", Path: hostile, Persistent: true, Recursive: true},
		{MemberID: 2, Connection: 1, SessionID: "0x2", Path: "/config", Persistent: true},
	}
}

// goneRefusal is how a member that was removed answers a change.
var goneRefusal = &api.Error{Status: 503, Text: "this member was removed from the ensemble", Reason: api.ReasonRemoved}

// kill ends a session for who shows the token.
func (f *fakeMember) kill(r *http.Request) any {
	id := r.PathValue("id")
	switch i := slices.IndexFunc(f.sessions, func(s api.Session) bool { return s.ID == id }); {
	case r.Header.Get("Authorization") != "Bearer abcdefghijklmnop":
		return &api.Error{Status: 401, Text: "this needs credentials"}
	case f.removed:
		return goneRefusal
	case id == "0xdead":
		return &api.Error{Status: 504, Text: "the leader was lost"}
	case i < 0:
		return &api.Error{Status: 404, Text: "there is no session"}
	}
	return api.End{ID: id, State: "ended", EndedAt: testNow, Reason: "killed", EndedBy: "token from 127.0.0.1:9", Address: "10.0.0.1:46396", MemberID: 1, LeaderID: 1, Term: 4, Zxid: "0x400000021", TimeoutMs: 15000, EphemeralCount: 2, Number: 19}
}

// pageOf returns a page of at most two rows.
func pageOf[T any](r *http.Request, rows []T) any {
	limit := 2
	if n, err := strconv.Atoi(r.FormValue("limit")); err == nil {
		limit = min(limit, n)
	}
	from, _ := strconv.Atoi(r.FormValue("from"))
	page := api.List[T]{Items: rows[from:min(from+limit, len(rows))], Silent: []api.Silence{{MemberID: 3, Reason: "down", Detail: "connection refused"}}}
	if from+limit < len(rows) {
		page.NextCursor = fmt.Sprint(from + limit)
	}
	return page
}

// execute runs a command line against the member, and returns what it prints and its error. prepare, unless
// it is nil, changes the surroundings.
func (f *fakeMember) execute(t *testing.T, prepare func(*IOStreams), args ...string) (out, errs *bytes.Buffer, err error) {
	t.Helper()
	w, out, errs := testWorld("ROLLCALL_ADMIN=" + f.URL)
	if prepare != nil {
		prepare(&w)
	}
	_, err = Execute(t.Context(), NewRoot(w, "1"), args)
	return out, errs, err
}

// executeUntil is execute for a command that runs until it is stopped. prepare gets the function that stops
// it.
func (f *fakeMember) executeUntil(t *testing.T, prepare func(*IOStreams, func()), args ...string) (out, errs *bytes.Buffer, err error) {
	t.Helper()
	w, out, errs := testWorld("ROLLCALL_ADMIN=" + f.URL)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	prepare(&w, stop)
	_, err = Execute(ctx, NewRoot(w, "1"), args)
	return out, errs, err
}

// slowRequests are those of the fake ensemble, the second with little known.
var slowRequests = []api.SlowRequest{
	{
		ID: "2-19a3f0c2b41", MemberID: 2, ReceivedAt: ago(time.Minute), SessionID: "0x2", Address: "10.0.0.7:4000", Op: "setData",
		Path: "/locks/a", Xid: 7, Index: 90, TotalUs: 412_000, Largest: "the disk of member 1", MissingIDs: []uint32{3}, ErrorUs: 700, Complete: true,
		Stages: []api.SlowStage{
			{Stage: "link", MemberID: 2, ToMemberID: 1, TookUs: 2_000, Text: "on the way from member 2 to the leader, member 1"},
			{Stage: "disk", MemberID: 1, TookUs: 410_000, Text: "the disk of member 1"},
		},
		Causes: []api.SlowCause{{Cause: "snapshot", MemberID: 1, TookUs: 405_000}, {Cause: "paused", MemberID: 3, TookUs: 90_000}},
	},
	{
		ID: "1-19a3f0c2a00", MemberID: 1, ReceivedAt: ago(time.Hour), SessionID: "0x1", Address: "[::1]:1", Op: "getData", TotalUs: 150_000,
		Largest: "the client did not take the reply", MissingIDs: []uint32{}, Causes: []api.SlowCause{},
		Stages: []api.SlowStage{{Stage: "taken", MemberID: 1, TookUs: 150_000, Text: "the client did not take the reply"}},
	},
	{
		ID: "3-19a3f0c29ff", MemberID: 3, ReceivedAt: ago(time.Hour), Op: "pause", TotalUs: 930_000, Complete: true, Connections: 41,
		Largest: "the process of member 3 did not run; connected clients: 41", MissingIDs: []uint32{}, Causes: []api.SlowCause{},
		Stages: []api.SlowStage{{Stage: "paused", MemberID: 3, TookUs: 930_000, Text: "the process of member 3 did not run; connected clients: 41"}},
	},
}
