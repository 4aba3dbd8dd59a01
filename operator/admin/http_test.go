package admin

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/operator/api"
	"rollcall/operator/console"
)

const (
	testSuper = "super:lK75jTNcA+U9vtVEw5vB51mj/w4=" // of super:secret
	testToken = "0123456789abcdef-token"
)

// newTestHTTP returns an HTTP that knows a super user and a token. change changes its configuration.
func newTestHTTP(t *testing.T, role string, change ...func(*HTTPConfig)) (*HTTP, *fakeSource) {
	t.Helper()
	words, source := newTestWords(t, role)
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(testToken+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := HTTPConfig{
		HTTPSettings: HTTPSettings{TokenFile: file}, AnonymousAccess: AnonymousAccess{Reads: ReadData}, SuperDigest: testSuper, FourLetter: words, Source: source, Operations: newFakeOps(), HostNames: []string{"Zoo1"},
		ConfigKeys: []api.Setting{{Key: "tickTime", Value: "100", Default: "3000", Origin: "zoo.cfg:1", State: "dangerous", Warning: "short"}},
	}
	for _, one := range change {
		one(&cfg)
	}
	h, err := NewHTTP(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return h, source
}

// on sets the Operations of an HTTP.
func on(ops Operations) func(*HTTPConfig) { return func(cfg *HTTPConfig) { cfg.Operations = ops } }

// testRoutes returns the table of endpoints.
func testRoutes(t *testing.T) []endpoint {
	t.Helper()
	h, _ := newTestHTTP(t, "leader")
	return h.routes()
}

// visit is a request, by default from this machine without credentials.
type visit struct {
	method, path string
	from         string   // default 127.0.0.1:1
	host         string   // default 127.0.0.1:8080
	body         string   // default {}
	header       []string // names and values
}

func (v visit) to(h *HTTP) *httptest.ResponseRecorder {
	r := httptest.NewRequest(v.method, v.path, strings.NewReader(cmp.Or(v.body, "{}")))
	r.RemoteAddr, r.Host = "127.0.0.1:1", "127.0.0.1:8080"
	if v.from != "" {
		r.RemoteAddr = v.from
	}
	if v.host != "" {
		r.Host = v.host
	}
	for i := 0; i < len(v.header); i += 2 {
		r.Header.Set(v.header[i], v.header[i+1])
	}
	w := httptest.NewRecorder()
	h.handler.ServeHTTP(recorder{w}, r)
	return w
}

// recorder takes the deadlines that a connection takes.
type recorder struct{ *httptest.ResponseRecorder }

func (recorder) SetReadDeadline(time.Time) error  { return nil }
func (recorder) SetWriteDeadline(time.Time) error { return nil }

// Every endpoint is closed to callers that its class excludes, and open to others.
func TestEveryEndpointIsGuarded(t *testing.T) {
	const json, remote = "application/json", "10.0.0.9:5"
	allowed := []string{"Authorization", "digest super:secret", "Content-Type", json}
	h, _ := newTestHTTP(t, "leader")
	all := testRoutes(t)
	for i := range all {
		all[i].serve, all[i].replyJSON = func(http.ResponseWriter, *http.Request) {}, nil // a profile takes long
	}
	h.handler = h.guardedHandler(all)
	with := func(header ...string) []string { return append(slices.Clone(allowed), header...) }
	for _, tt := range []struct {
		name                      string
		visit                     visit
		open, reads, log, changes int // status
	}{
		{"signed in here", visit{header: allowed}, 200, 200, 200, 200},
		{"with the token", visit{header: with("Authorization", "Bearer "+testToken)}, 200, 200, 200, 200},
		{"over IPv6", visit{header: allowed, from: "[::1]:7", host: "[::1]:8080"}, 200, 200, 200, 200},
		{"by a name of the member", visit{header: allowed, host: "ZOO1:8080"}, 200, 200, 200, 200},
		{"here", visit{header: []string{"Content-Type", json}}, 200, 200, 401, 401},
		{"wrong password", visit{header: with("Authorization", "digest super:Secret")}, 200, 200, 401, 401},
		{"the digest itself", visit{header: with("Authorization", "digest "+testSuper)}, 200, 200, 401, 401},
		{"another user", visit{header: with("Authorization", "digest root:secret")}, 200, 200, 401, 401},
		{"wrong token", visit{header: with("Authorization", "Bearer "+testToken+"x")}, 200, 200, 401, 401},
		{"no token", visit{header: with("Authorization", "Bearer ")}, 200, 200, 401, 401},
		{"another scheme", visit{header: with("Authorization", "Basic "+testToken)}, 200, 200, 401, 401},
		{"from elsewhere", visit{from: remote, header: []string{"Content-Type", json}}, 200, 401, 401, 403},
		{"from elsewhere, signed in", visit{from: remote, header: allowed}, 200, 200, 200, 403},
		{"from no address", visit{from: "pipe", header: []string{"Content-Type", json}}, 200, 401, 401, 403},
		{"from a page of another site", visit{header: with("Origin", "https://example.com")}, 200, 403, 403, 403},
		{"from a page in a sandbox", visit{header: with("Origin", "null")}, 200, 403, 403, 403},
		{"from the same host on another port", visit{header: with("Origin", "http://127.0.0.1:9090")}, 200, 403, 403, 403},
		{"from a page of its own", visit{header: with("Origin", "http://127.0.0.1:8080")}, 200, 200, 200, 200},
		{"across sites", visit{header: with("Sec-Fetch-Site", "cross-site")}, 200, 403, 403, 403},
		{"the same site on another port", visit{header: with("Sec-Fetch-Site", "same-site")}, 200, 403, 403, 403},
		{"typed by a user", visit{header: with("Sec-Fetch-Site", "none")}, 200, 200, 200, 200},
		{"by a name that leads here", visit{host: "evil.example:8080", header: []string{"Content-Type", json}}, 403, 403, 403, 403},
		{"by such a name, signed in", visit{host: "evil.example:8080", header: allowed}, 200, 200, 200, 403},
		{"from a form", visit{header: with("Content-Type", "text/plain")}, 200, 200, 415, 415},
	} {
		for _, e := range all {
			v := tt.visit
			v.method, v.path = e.method, concrete(e.path)
			if i := slices.Index(v.header, json); i >= 0 && e.contentType != "" {
				v.header = slices.Clone(v.header)
				v.header[i] = e.contentType
			}
			w := v.to(h)
			want := map[accessClass]int{openAccess: tt.open, metricsAccess: tt.reads, readAccess: tt.reads, logAccess: tt.log, changeAccess: tt.changes}[e.access]
			if e.isProbe {
				want = http.StatusOK
			}
			if want == http.StatusUnsupportedMediaType && e.method != http.MethodPost {
				want = http.StatusOK // there is no body
			}
			if w.Code != want {
				t.Errorf("%s: %s %s (%v): %d, want %d: %s", tt.name, e.method, e.path, e.access, w.Code, want, w.Body)
			}
			if asks := w.Header().Get("WWW-Authenticate") != ""; asks != (w.Code == http.StatusUnauthorized) {
				t.Errorf("%s: %s %s: status %d, asks for credentials: %t", tt.name, e.method, e.path, w.Code, asks)
			}
		}
	}
}

// concrete returns a path that a pattern stands for.
func concrete(pattern string) string {
	return strings.NewReplacer("{id}", "0x1", "{request}", "1-1", "{$}", "", "{file}", "main.js").Replace(pattern)
}

// A method that the table does not have is rejected, and a rejected request has no effect.
func TestOtherMethods(t *testing.T) {
	h, source := newTestHTTP(t, "leader")
	all := testRoutes(t)
	served := map[string]bool{}
	for _, e := range all {
		served[e.method+e.path] = true
		if e.method == "GET" {
			served["HEAD"+e.path] = true
		}
	}
	for _, e := range all {
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"} {
			if served[method+e.path] {
				continue
			}
			w := visit{method: method, path: concrete(e.path), header: []string{"Authorization", "digest super:secret", "Content-Type", "application/json"}}.to(h)
			if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") == "" {
				t.Errorf("%s %s: %d, Allow %q; want 405", method, e.path, w.Code, w.Header().Get("Allow"))
			}
			if len(source.resets) > 0 {
				t.Errorf("%s %s: reset %q", method, e.path, source.resets)
			}
		}
	}
}

// The headers of every reply forbid a browser to guess its type, keep it, frame it or read it from another page.
func TestHeaders(t *testing.T) {
	for _, v := range []visit{
		{method: "GET", path: "/livez"},
		{method: "GET", path: "/commands"},
		{method: "GET", path: "/nosuch"},
		{method: "GET", path: "/"},
		{method: "GET", path: "/console/main.js"},
		{method: "GET", path: "/console/nosuch"},
		{method: "POST", path: "/commands/srst"},
		{method: "GET", path: "/commands/ruok", header: []string{"Origin", "https://example.com"}},
		{method: "OPTIONS", path: "/commands/srst", header: []string{"Origin", "https://example.com", "Access-Control-Request-Method", "POST"}},
	} {
		h, _ := newTestHTTP(t, "leader")
		header := v.to(h).Header()
		for name, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "X-Frame-Options": "DENY",
			"Content-Security-Policy":     "default-src 'none'; frame-ancestors 'none'",
			"Access-Control-Allow-Origin": "", "Access-Control-Allow-Methods": "",
		} {
			if name == "Content-Security-Policy" && (v.path == "/" || v.path == "/console/main.js") {
				want = console.Policy
			}
			if got := header.Get(name); got != want {
				t.Errorf("%s %s: %s is %q, want %q", v.method, v.path, name, got, want)
			}
		}
	}
}

// The command line is not shown, because -set can give a secret there.
func TestCommandLineIsNotServed(t *testing.T) {
	h, _ := newAudited(t)
	if w := (visit{method: "GET", path: "/debug/pprof/cmdline", header: signedIn}).to(h); w.Code != http.StatusNotFound ||
		strings.Contains(w.Body.String(), "admin.test") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// Without a super user and a token no caller is an administrator, whatever the request contains.
func TestNobodyIsAdministrator(t *testing.T) {
	words, source := newTestWords(t, "leader")
	h, err := NewHTTP(HTTPConfig{FourLetter: words, Source: source, Operations: newFakeOps()})
	if err != nil {
		t.Fatal(err)
	}
	for _, proof := range []string{"", "digest", "digest ", "digest super:", "Bearer", "Bearer ", "digest :"} {
		w := visit{method: "POST", path: "/commands/srst", header: []string{"Authorization", proof, "Content-Type", "application/json"}}.to(h)
		if w.Code != http.StatusUnauthorized || len(source.resets) > 0 {
			t.Errorf("Authorization: %q: %d, resets %q", proof, w.Code, source.resets)
		}
	}
}

func TestTokenFile(t *testing.T) {
	dir := t.TempDir()
	words, source := newTestWords(t, "leader")
	for _, tt := range []struct {
		name, text string
		mode       os.FileMode
		err        string
	}{
		{"its owner's", testToken, 0o600, ""},
		{"its owner's, read only", testToken, 0o400, ""},
		{"its group may read it", testToken + " \n", 0o440, ""},
		{"its group may write it", testToken, 0o660, "(mode 0660); only its owner may read and change it"},
		{"others may read it", testToken, 0o604, "run chmod 600 " + filepath.Join(dir, "others may read it")},
		{"too short", "0123456789abcde\n", 0o600, "has 15 bytes; must have 16 to 4096"},
		{"the longest", strings.Repeat("x", 4096) + "\n", 0o600, ""},
		{"the longest, with a line end of Windows", strings.Repeat("x", 4096) + "\r\n", 0o600, ""},
		{"too long", strings.Repeat("x", 4097), 0o600, "the token has 4097 bytes; must have 16 to 4096"},
		{"too long, with a line end", strings.Repeat("x", 4097) + "\n", 0o600, "the token has 4097 bytes; must have 16 to 4096"},
		{"the file too long", strings.Repeat("x", 5000), 0o600, "the file has over 4098 bytes; it may have a token of 16 to 4096 and the end of its line"},
		{"a short token in a long file", testToken + strings.Repeat("\n", 5000), 0o600, "the file has over 4098 bytes"},
		{"a blank in it", "0123456789 abcdef", 0o600, "visible ones"},
		{"empty", "", 0o600, "has 0 bytes"},
	} {
		file := filepath.Join(dir, tt.name)
		if err := os.WriteFile(file, []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, tt.mode); err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		_, err := NewHTTP(HTTPConfig{HTTPSettings: HTTPSettings{TokenFile: file}, FourLetter: words, Source: source, Operations: newFakeOps(), Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if log.Len() > 0 {
			t.Errorf("%s: logged %q", tt.name, log.String())
		}
		if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.err)
		}
	}
	for _, file := range []string{dir, filepath.Join(dir, "none")} {
		if _, err := NewHTTP(HTTPConfig{HTTPSettings: HTTPSettings{TokenFile: file}, FourLetter: words, Source: source, Operations: newFakeOps()}); err == nil {
			t.Errorf("the token file %s was accepted", file)
		}
	}
}

func TestCommandURL(t *testing.T) {
	words, source := newTestWords(t, "leader")
	for path, good := range map[string]bool{
		"/commands": true, "/zk/commands": true, "/a-b_c.d": true,
		"": false, "/": false, "commands": false, "/a/": false, "//a": false, "/a b": false, "/{x}": false, "/..": false, "/a/../b": false,
		"/metrics": false, "/livez": false, "/debug/x": false, "/v1": false,
	} {
		if err := CheckCommandURL(path); (err == nil) != good {
			t.Errorf("CheckCommandURL(%q): %v", path, err)
		}
		if !good || path == "/" {
			continue
		}
		h, err := NewHTTP(HTTPConfig{HTTPSettings: HTTPSettings{CommandURL: path}, FourLetter: words, Source: source, Operations: newFakeOps()})
		if err != nil {
			t.Fatal(err)
		}
		if w := (visit{method: "GET", path: path + "/isro"}).to(h); w.Code != http.StatusOK {
			t.Errorf("%s/isro: %d", path, w.Code)
		}
	}
}

// The probes name the fault, and Kubernetes reads their status.
func TestProbes(t *testing.T) {
	for _, tt := range []struct {
		name, role  string
		health      Health
		stopping    bool
		live, ready int
		text        string // in the answer of readyz
	}{
		{"leads", "leader", Health{HasLeader: true}, false, 200, 200, "leader"},
		{"follows", "follower", Health{HasLeader: true}, false, 200, 200, "follower"},
		{"follows, and anybody may be a member", "follower", Health{HasLeader: true, InsecurePorts: "members are not authenticated"}, false, 200, 200, "follower\nmembers are not authenticated\n"},
		{"stops", "follower", Health{HasLeader: true}, true, 200, 503, "stopping"},
		{"read-only", api.RoleReadOnly, Health{}, false, 200, 503, "read-only: no leader is known"},
		{"no leader", "", Health{}, false, 200, 503, "no leader is known"},
		{"waits for others", "", Health{WaitingFor: "member 3"}, false, 200, 503, "no leader is known: this member waits for member 3"},
		{"is cut off", "", Health{CutOff: "cut off for 4s"}, false, 200, 503, "cut off for 4s\n"},
		{"is cut off and waits", "", Health{CutOff: "cut off for 4s", WaitingFor: "member 3"}, false, 200, 503, "cut off for 4s; it waits for member 3"},
		{"is cut off and hears its leader", "", Health{CutOff: "cut off for 4s", HasLeader: true}, false, 200, 503, "cut off for 4s\n"},
		{"is cut off and serves readers", api.RoleReadOnly, Health{CutOff: "cut off for 4s"}, false, 200, 503, "read-only: cut off for 4s; clients"},
		{"drained", "follower", Health{HasLeader: true, Drained: true}, true, 200, 503, "drained"},
		{"differs from the leader", "", Health{HasLeader: true, Divergence: "who is right?"}, false, 200, 503, "does not serve for now: who is right?"},
		{"was removed", "", Health{RemovedVersion: 0x400000007}, false, 200, 503, "this member was removed from the ensemble (the list of version 0x400000007)"},
		{"joins", "", Health{HasLeader: true, Joining: true}, false, 200, 503, "joining"},
		{"copies", "", Health{HasLeader: true, Joining: true, Progress: "copies a snapshot"}, false, 200, 503, "this member is joining the ensemble: it copies a snapshot"},
		{"reads its log", "", Health{ReadsData: true, Progress: "reads its log, 40 %"}, false, 200, 503, "this member has started: it reads its log, 40 %"},
		{"applies its log", "", Health{HasLeader: true, Progress: "applies its log, 40 %"}, false, 200, 503, "this member has started: it applies its log, 40 %"},
		{"has caught up", "", Health{HasLeader: true}, false, 200, 503, "has caught up, and its leader has not announced it yet"},
		{"hangs", "", Health{HasLeader: true, Stalled: "applying entries takes 4s"}, false, 503, 503, "applying entries takes 4s"},
		{"damaged", "", Health{HasLeader: true, Damage: "entry 7"}, false, 503, 503, "damaged: entry 7"},
	} {
		h, source := newTestHTTP(t, tt.role)
		source.health = tt.health
		if tt.stopping {
			h.FailReadyz()
		}
		if w := (visit{method: "GET", path: "/livez"}).to(h); w.Code != tt.live {
			t.Errorf("%s: livez: %d %s, want %d", tt.name, w.Code, w.Body, tt.live)
		}
		if w := (visit{method: "GET", path: "/readyz"}).to(h); w.Code != tt.ready || !strings.Contains(w.Body.String(), tt.text) {
			t.Errorf("%s: readyz: %d %s, want %d with %q", tt.name, w.Code, w.Body, tt.ready, tt.text)
		}
	}
}

// Every command is an object that ends with its name and its error, under its name and its aliases.
func TestEveryCommand(t *testing.T) {
	for _, role := range []string{"leader", "follower", "standalone", ""} {
		h, _ := newTestHTTP(t, role)
		for i := range commands {
			c := &commands[i]
			if c.ownEndpoint != nil {
				continue // TestSnapshotCommand and TestRestoreCommand
			}
			for _, name := range append([]string{c.name}, c.aliases...) {
				v := visit{method: "GET", path: "/commands/" + name, header: []string{"Authorization", "digest super:secret", "Content-Type", "application/json"}}
				if c.access == changeAccess {
					v.method = "POST"
				}
				w := v.to(h)
				var got map[string]any
				if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != 200 || got["command"] != c.name {
					t.Errorf("%q: %s: %v, %d: %s", role, name, err, w.Code, w.Body)
				}
				var want any
				switch {
				case role == "" && !slices.Contains([]string{"environment", "get_trace_mask", "set_trace_mask", "system_properties", "zabstate"}, c.name):
					want = "This ZooKeeper instance is not currently serving requests"
				case c.name == "set_trace_mask":
					want = "setTraceMask requires long traceMask argument"
				case c.name == "leader" && role == "standalone":
					want = "server is not initialized"
				}
				if got["error"] != want {
					t.Errorf("%q: %s: error %v, want %v", role, name, got["error"], want)
				}
				if kind := w.Header().Get("Content-Type"); kind != "application/json" {
					t.Errorf("%s: Content-Type %s", name, kind)
				}
			}
		}
	}
}

// The replies have ZooKeeper's layout, and the values of the member.
func TestCommandAnswers(t *testing.T) {
	for _, tt := range []struct{ role, path, want string }{
		{"leader", "ruok", "{\n  \"command\" : \"ruok\",\n  \"error\" : null\n}"},
		{"leader", "nosuch", "{\n  \"command\" : \"nosuch\",\n  \"error\" : \"Unknown command: nosuch\"\n}"},
		{"leader", "ruok/", "{\n  \"command\" : \"ruok/\",\n  \"error\" : \"Unknown command: ruok/\"\n}"},
		{"leader", "watch_summary", `"num_connections" : 2, "num_paths" : 2, "num_total_watches" : 3,`},
		{"leader", "dirs", `"datadir_size" : 510, "logdir_size" : 1000,`},
		{"leader", "configuration", `{ "client_port" : 2181, "command" : "configuration",`},
		{"leader", "gtmk", `"tracemask" : 306,`},
		{"leader", "watches", `"session_id_to_watched_paths" : { "144115269572886529" : [ "/a", "/b" ], "72057675534958593" : [ "/a" ] },`},
		{"leader", "watches_by_path", `"path_to_session_ids" : { "/a" : [ 144115269572886529, 72057675534958593 ], "/b" : [ 144115269572886529 ] },`},
		{
			"leader", "dump", `"expiry_time_to_session_ids" : { "1795142609000" : [ 144115269572886529 ], "1795142610000" : [ 72057675534958593 ] },
			"session_id_to_ephemeral_paths" : { "72057675534958593" : [ "/e1", "/e2" ], "144115269572886529" : [ "/f" ] },`,
		},
		{"follower", "dump", `"expiry_time_to_session_ids" : { }, "session_id_to_ephemeral_paths" : { "72057675534958593"`},
		{
			"leader", "cons", `"connections" : [ { "remote_socket_address" : "10.0.0.1:46396", "interest_ops" : 5, "outstanding_requests" : 2, "packets_received" : 8,
			"packets_sent" : 9, "session_id" : 72057675534958593, "last_operation" : "GETC", "established" : 1795142600000, "session_timeout" : 15000, "last_cxid" : 7,
			"last_zxid" : 8589934602, "last_response_time" : 1283859, "last_latency" : 2, "min_latency" : 0, "avg_latency" : 1, "max_latency" : 4 }, {`,
		},
		{"leader", "stats", `"connections" : [ { "remote_socket_address" : "10.0.0.1:46396", "interest_ops" : 5, "outstanding_requests" : 2, "packets_received" : 8, "packets_sent" : 9 }, {`},
		{"leader", "stats", `"secure_connections" : [ { "remote_socket_address" : "[::1]:4", "interest_ops" : 1, "outstanding_requests" : 0, "packets_received" : 1, "packets_sent" : 1 } ],`},
		{"leader", "cons", `"secure_connections" : [ { "remote_socket_address" : "[::1]:4", "interest_ops" : 1, "outstanding_requests" : 0, "packets_received" : 1,
			"packets_sent" : 1, "session_id" : 144115269572886529,`},
		{"leader", "server_stats", `"proposal_stats" : { "last_buffer_size" : 48, "min_buffer_size" : 36, "max_buffer_size" : 88 }, "node_count" : 11,`},
		{"follower", "server_stats", `"max_buffer_size" : -1 }, "node_count" : 11,`},
		{"follower", "leader", `"is_leader" : false, "leader_id" : 2, "leader_ip" : "b",`},
		{"follower", "voting_view", `"current_config" : { "1" : { "server_addresses" : [ "a:2888" ], "election_addresses" : [ "a:3888" ], "client_address" : "0.0.0.0:2181", "learner_type" : "participant" },`},
		{"follower", "voting_view", `"2" : { "server_addresses" : [ "b:2888" ], "election_addresses" : [ "b:3888" ], "client_address" : "", "learner_type" : "participant" } },`},
		{"leader", "observers", `"synced_observers" : 1, "observers" : [ { "remote_socket_address" : "c:2888", "sid" : 3 } ],`},
		{"follower", "observers", `"observers" : [ ],`},
		{"observer", "zabstate", `"voting" : false, "last_zxid" : "0x2000001e9", "zab_epoch" : 2, "zab_counter" : 489, "zabstate" : "broadcast",`},
		{"observer", "monitor", `"server_state" : "observer", "peer_state" : "observing - broadcast",`},
		{"observer", "server_stats", `"server_state" : "observer",`},
		{"leader", "stats", `"outstanding_requests" : 2, "avg_latency" : 0.6938, "max_latency" : 12,`},
		{"follower", "zabstate", `"client_address" : "0.0.0.0:2181", "voting" : true, "last_zxid" : "0x2000001e9", "zab_epoch" : 2, "zab_counter" : 489, "zabstate" : "broadcast",`},
		{"", "zabstate", `"zabstate" : "election",`},
		{"follower", "monitor", `"server_state" : "follower", "peer_state" : "following - broadcast", "avg_latency" : 0.6938,`},
	} {
		h, _ := newTestHTTP(t, tt.role)
		got := visit{method: "GET", path: "/commands/" + tt.path}.to(h).Body.String()
		if !strings.Contains(tt.want, "\n  \"") {
			got, tt.want = strings.Join(strings.Fields(got), " "), strings.Join(strings.Fields(tt.want), " ")
		}
		if !strings.Contains(got, tt.want) {
			t.Errorf("%q: %s:\n%s\nwant\n%s", tt.role, tt.path, got, tt.want)
		}
	}
}

// Changes change what they say, and stmk keeps the mask.
func TestCommandsChange(t *testing.T) {
	h, source := newTestHTTP(t, "leader")
	post := func(path string) string {
		return visit{method: "POST", path: "/commands/" + path, header: []string{"Authorization", "Bearer " + testToken, "Content-Type", "application/json; charset=utf-8"}}.to(h).Body.String()
	}
	for _, path := range []string{"srst", "crst", "observer_connection_stat_reset"} {
		post(path)
	}
	if got := fmt.Sprint(source.resets); got != "[server connections]" {
		t.Errorf("resets %s", got)
	}
	if got := post("stmk?traceMask=x"); !strings.Contains(got, "argument, got x") {
		t.Errorf("a mask that is no number: %s", got)
	}
	if got := post("stmk?traceMask=-5"); !strings.Contains(got, `"tracemask" : -5`) || h.cfg.FourLetter.traceMask.Load() != -5 {
		t.Errorf("a mask: %s, kept %d", got, h.cfg.FourLetter.traceMask.Load())
	}
}

func TestQuoted(t *testing.T) {
	for text, want := range map[string]string{"/a<b>&": `"/a<b>&"`, "/\"\\\n": `"/\"\\\n"`, "/\xff": `"/\ufffd"`, "/é": `"/é"`} {
		if got := jsonString(text); got != want {
			t.Errorf("quoted(%q) is %s, want %s", text, got, want)
		}
	}
}

// A client that reads nothing of an endless list loses its connection, and the list ends with it.
func TestEndlessListEnds(t *testing.T) {
	for _, path := range []string{"connections", "watches", "stats"} {
		h, source := newTestHTTP(t, "leader")
		source.endless = true
		r := httptest.NewRequest("GET", "/commands/"+path, nil)
		r.RemoteAddr, r.Host = "127.0.0.1:1", "localhost"
		out := &fullWriter{left: 1 << 20}
		h.handler.ServeHTTP(stream{out, http.Header{}}, r)
		if out.left > 0 || out.asked > (1<<20)/partSize+2 {
			t.Errorf("%s: %d writes, %d bytes of room left", path, out.asked, out.left)
		}
	}
}

type stream struct {
	io.Writer
	header http.Header
}

func (s stream) Header() http.Header            { return s.header }
func (s stream) WriteHeader(int)                {}
func (stream) SetWriteDeadline(time.Time) error { return nil }

// At most maxLongReplies long replies are made at once, and short ones are made beside them.
func TestLongAnswersAreBounded(t *testing.T) {
	h, _ := newTestHTTP(t, "leader")
	for range maxLongReplies {
		h.longReplies.longReplies <- struct{}{}
	}
	for _, name := range []string{"connections", "dump", "stats", "watches", "watches_by_path"} {
		v := visit{method: "GET", path: "/commands/" + name, header: []string{"Authorization", "digest super:secret"}}
		if w := v.to(h); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
			t.Errorf("%s beside %d long answers: %d", name, maxLongReplies, w.Code)
		}
	}
	if w := (visit{method: "GET", path: "/commands/isro"}).to(h); w.Code != http.StatusOK {
		t.Errorf("isro beside %d long answers: %d", maxLongReplies, w.Code)
	}
	<-h.longReplies.longReplies
	for range maxLongReplies + 1 {
		if w := (visit{method: "GET", path: "/commands/connections"}).to(h); w.Code != http.StatusOK {
			t.Errorf("connections: %d", w.Code)
		}
	}
}

// A profile may take longer than a request may take to arrive, and ends in time whatever its parameters are.
func TestProfilesEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _ := newTestHTTP(t, "leader")
		p, stop := serveOn(t, h)
		for _, tt := range []struct {
			seconds string
			status  int
			took    time.Duration
		}{
			{"30", 200, 30 * time.Second},
			{"100000", 408, profileTimeout - partTimeout},
		} {
			begun := time.Now()
			c := p.dial()
			if _, err := fmt.Fprintf(c, "GET /debug/pprof/goroutine?seconds=%s HTTP/1.1\r\nHost: localhost\r\nAuthorization: digest super:secret\r\n\r\n", tt.seconds); err != nil {
				t.Fatal(err)
			}
			answer, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, answer.Body)
			if took := time.Since(begun); answer.StatusCode != tt.status || took != tt.took {
				t.Errorf("%s s: %d after %v, want %d after %v", tt.seconds, answer.StatusCode, took, tt.status, tt.took)
			}
			_ = c.Close()
		}
		stop()
	})
}

// pipes is a listener in memory, so that time can be virtual.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func newPipes() *pipes { return &pipes{make(chan net.Conn), make(chan struct{})} }

func (p *pipes) dial() net.Conn {
	ours, theirs := net.Pipe()
	p.conns <- localPipe{theirs}
	return ours
}

// localPipe is a connection that comes from this machine.
type localPipe struct{ net.Conn }

func (localPipe) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	select {
	case <-p.done:
	default:
		close(p.done)
	}
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// serveOn serves h until stop is called, which waits for the end.
func serveOn(t *testing.T, h *HTTP) (p *pipes, stop func()) {
	p = newPipes()
	done := make(chan error)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { done <- h.Serve(ctx, p) }()
	return p, func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	}
}

// requestStatus sends a request over c, and returns the status of the reply.
func requestStatus(c net.Conn, path string) (int, error) {
	if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path); err != nil {
		return 0, err
	}
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode, err
}

// A request that names a body and does not send it is answered at once, and holds no connection.
func TestUnreadBodiesKeepNobodyOut(t *testing.T) {
	for request, want := range map[string]int{
		"GET /livez HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n":                         200,
		"GET /livez HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n":                200,
		"POST /v1/sessions/0x1/kill HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n": 401,
		"POST /livez HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n":                405,
	} {
		synctest.Test(t, func(t *testing.T) {
			h, _ := newTestHTTP(t, "leader")
			p, stop := serveOn(t, h)
			c := p.dial()
			begun := time.Now()
			if _, err := io.WriteString(c, request); err != nil {
				t.Fatal(err)
			}
			answer, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				t.Fatal(err)
			}
			if took := time.Since(begun) + ended(c); answer.StatusCode != want || took > time.Second {
				t.Errorf("%q: %d, over after %v, want %d at once", request, answer.StatusCode, took, want)
			}
			stop()
		})
	}
}

// Only a client that does not read makes room for others, never a new connection or a request that makes progress. Of
// the clients that do not read, the one is closed whose address has most connections.
func TestWhoMakesRoom(t *testing.T) {
	b := newBoundedListener(newPipes(), 4)
	now := time.Now()
	conn := func(c net.Conn) *boundedConn {
		return &boundedConn{Conn: c, listener: b, network: networkOf(c.RemoteAddr())}
	}
	far := func() *boundedConn { c, _ := net.Pipe(); return conn(farPipe{c}) }
	near := func() *boundedConn { c, _ := net.Pipe(); return conn(localPipe{c}) }
	all := []*boundedConn{near(), far(), far(), near()}
	for _, c := range all {
		if oldest, wait := b.admitConn(c, now); oldest != nil || wait != 0 {
			t.Fatal("there was room")
		}
	}
	admit := func(what string, c *boundedConn, now time.Time, want *boundedConn) {
		t.Helper()
		oldest, wait := b.admitConn(c, now)
		if oldest != want || (wait > 0) != (want == nil) {
			t.Errorf("%s: %p makes room, want %p; wait %v", what, oldest, want, wait)
		}
	}
	admit("all are new", far(), now, nil)
	for _, c := range all {
		b.connStateChanged(c, http.StateActive)
	}
	admit("all have requests", far(), now.Add(time.Hour), nil)
	all[0].writeStarted, all[2].writeStarted = now, now.Add(time.Millisecond)
	admit("nobody is stuck yet", near(), now.Add(stuckTimeout-1), nil)
	admit("one is stuck", near(), now.Add(stuckTimeout), all[0])
	admit("another one is stuck", far(), now.Add(stuckTimeout+time.Millisecond), all[2])
	b.connStateChanged(all[1], http.StateIdle) // of far, as is the one that is new
	b.connStateChanged(all[3], http.StateIdle) // of near
	admit("the connections are idle", far(), time.Now(), all[1])
	if len(b.conns) != 4 || len(b.connsByAddress) != 2 {
		t.Errorf("%d connections of %d addresses", len(b.conns), len(b.connsByAddress))
	}
}

// An address has a share of the seats without credentials. Its own stuck connections make room for it, and those with credentials
// have seats of their own.
func TestSeats(t *testing.T) {
	b := newBoundedListener(newPipes(), maxConns)
	now := time.Now()
	conns := map[string][]*boundedConn{}
	sit := func(from string, kind slotKind) (stuck *boundedConn, ok bool) {
		c := &boundedConn{Conn: farPipe{}, listener: b, network: netip.MustParseAddr(from)}
		b.admitConn(c, now)
		b.connStateChanged(c, http.StateActive)
		if stuck, ok = b.takeSlot(c, kind, now.Add(stuckTimeout)); ok {
			conns[from] = append(conns[from], c)
		}
		return stuck, ok
	}
	for i := range maxRequestsPerAddress {
		if _, ok := sit("10.0.0.1", anonymousSlot); !ok {
			t.Fatalf("no seat %d", i)
		}
	}
	if _, ok := sit("10.0.0.1", anonymousSlot); ok {
		t.Error("one address has more than its share")
	}
	for _, kind := range []slotKind{authenticatedSlot, anonymousSlot} {
		if _, ok := sit("10.0.0.2", kind); !ok {
			t.Errorf("another address has no seat of kind %d", kind)
		}
	}
	conns["10.0.0.1"][7].writeStarted, conns["10.0.0.2"][1].writeStarted = now, now.Add(-time.Minute)
	if stuck, ok := sit("10.0.0.1", anonymousSlot); !ok || stuck != conns["10.0.0.1"][7] {
		t.Errorf("%p makes room, %t, want the stuck one of the same address", stuck, ok)
	}
	if _, ok := sit("10.0.0.1", anonymousSlot); ok {
		t.Error("nobody is stuck there any more")
	}
	for range maxRequests {
		sit("10.0.0.3", anonymousSlot)
		sit("10.0.0.4", anonymousSlot)
	}
	if b.usedSlots[anonymousSlot] != maxRequests {
		t.Errorf("%d seats are taken, want %d", b.usedSlots[anonymousSlot], maxRequests)
	}
	for c := range b.conns {
		b.connStateChanged(c, http.StateIdle)
	}
	if b.usedSlots[anonymousSlot] != 0 || b.usedSlots[authenticatedSlot] != 0 || len(b.anonymousSlots) != 0 {
		t.Errorf("%v seats are taken by nobody", b.usedSlots)
	}
}

// Readers who pipeline requests and do not read keep no probe out, from the same address or another one, and a connection gets
// no more than maxRepliesPerConn.
func TestUnreadAnswersKeepNobodyOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _ := newTestHTTP(t, "leader")
		p, stop := serveOn(t, h)
		for range 2 * maxConns {
			c := p.dial()
			go func() { // until the member closes the connection
				for {
					if _, err := io.WriteString(c, "GET /v1/openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
						return
					}
				}
			}()
		}
		for range 3 {
			begun := time.Now()
			c := p.dial()
			status, err := requestStatus(c, "/livez")
			if took := time.Since(begun); status != 200 || err != nil || took > gracePeriod {
				t.Errorf("livez beside readers who do not read: %d, %v after %v", status, err, took)
			}
			time.Sleep(time.Second)
		}
		stop()
	})
	synctest.Test(t, func(t *testing.T) {
		h, _ := newTestHTTP(t, "leader")
		p, stop := serveOn(t, h)
		c, answers := p.dial(), 0
		go func() {
			for {
				if _, err := io.WriteString(c, "GET /commands/ruok HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
					return
				}
			}
		}()
		for in := bufio.NewReader(c); ; answers++ {
			answer, err := http.ReadResponse(in, nil)
			if err != nil {
				break
			}
			_, _ = io.Copy(io.Discard, answer.Body)
		}
		if answers != maxRepliesPerConn {
			t.Errorf("a connection got %d answers, want %d", answers, maxRepliesPerConn)
		}
		stop()
	})
}

// farPipe is a connection that comes from another machine.
type farPipe struct{ net.Conn }

func (farPipe) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 1} }

// ended waits until the other side closes c, and returns the time that it waited.
func ended(c net.Conn) time.Duration {
	begun := time.Now()
	_, _ = io.Copy(io.Discard, c)
	return time.Since(begun)
}

// Silent connections, however many, do not keep a probe out: the oldest of them are closed.
func TestSilentConnectionsKeepNobodyOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _ := newTestHTTP(t, "leader")
		p, stop := serveOn(t, h)
		var all []net.Conn
		for range 3 * maxConns {
			all = append(all, p.dial())
		}
		synctest.Wait()
		if took := ended(all[2*maxConns-1]); took > 0 {
			t.Errorf("the connection before the last %d was closed after %v", maxConns, took)
		}
		probe := p.dial()
		if status, err := requestStatus(probe, "/livez"); status != 200 || err != nil {
			t.Errorf("livez beside %d silent connections: %d, %v", len(all), status, err)
		}
		for i, c := range all[2*maxConns+1:] {
			_ = c.SetReadDeadline(time.Now().Add(time.Nanosecond))
			if _, err := c.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "timeout") {
				t.Errorf("silent connection %d of the last %d: %v", i, maxConns-1, err)
			}
		}
		stop()
	})
}

// Slow and idle clients lose their connections in time, and a client with a long header gets no reply.
func TestSlowClientsAreCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _ := newTestHTTP(t, "leader")
		p, stop := serveOn(t, h)

		silent := p.dial()
		if took := ended(silent); took != headerTimeout {
			t.Errorf("a connection without a request ended after %v, want %v", took, headerTimeout)
		}
		drip := p.dial()
		go func() {
			for _, b := range []byte("GET /livez HTTP/1.1\r\nHost: localhost\r\nX-Slow: yes\r\n\r\n") {
				time.Sleep(time.Second)
				if _, err := drip.Write([]byte{b}); err != nil {
					return
				}
			}
		}()
		if took := ended(drip); took != headerTimeout {
			t.Errorf("a connection with a dripping header ended after %v, want %v", took, headerTimeout)
		}
		idle := p.dial()
		if status, err := requestStatus(idle, "/commands/ruok"); status != 200 || err != nil {
			t.Errorf("livez: %d, %v", status, err)
		}
		if took := ended(idle); took != DefaultIdleTimeout {
			t.Errorf("an idle connection ended after %v, want %v", took, DefaultIdleTimeout)
		}
		long := p.dial()
		go func() {
			_, _ = fmt.Fprintf(long, "GET /livez HTTP/1.1\r\nHost: localhost\r\nX-Long: %s\r\n\r\n", strings.Repeat("x", 2*maxHeaderBytes))
		}()
		if answer, err := http.ReadResponse(bufio.NewReader(long), nil); err != nil ||
			answer.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("a header of %d bytes: %v, %v", 2*maxHeaderBytes, answer, err)
		}
		stop()
	})
}

// Serve completes the replies that are under way before it ends, and waits no longer than shutdownTimeout.
func TestServeEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, source := newTestHTTP(t, "leader")
		source.endless = true
		p, stop := serveOn(t, h)
		quiet := p.dial()
		if status, err := requestStatus(quiet, "/commands/ruok"); status != 200 || err != nil {
			t.Errorf("readyz: %d, %v", status, err)
		}
		busy := p.dial()
		if _, err := fmt.Fprintf(busy, "GET /commands/connections HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // the list is being sent, and nobody reads it
		begun := time.Now()
		stop()
		if took := time.Since(begun); took < shutdownTimeout || took > shutdownTimeout+time.Second {
			t.Errorf("Serve ended after %v, want about %v", took, shutdownTimeout)
		}
		if _, err := quiet.Read(make([]byte, 1)); err == nil {
			t.Error("a connection outlives Serve")
		}
	})
}
