package admin

import (
	"context"
	"iter"
	"net/http"
	"strings"
	"testing"

	"rollcall/operator/api"
	"rollcall/operator/view"
	"rollcall/zk/jute"
)

// guardedSource is a member where not everybody may read /b, and where ephemeral nodes and watches are below it.
type guardedSource struct{ *fakeSource }

func (guardedSource) HasPublicAncestors(path string) bool { return !strings.HasPrefix(path, "/b/") }

func (guardedSource) Ephemerals() iter.Seq2[jute.SessionID, string] {
	return func(yield func(jute.SessionID, string) bool) {
		_ = yield(1, "/b/secret") && yield(1, "/open/e") && yield(2, "/b/secret2") && yield(3, "/open/f")
	}
}

func (guardedSource) Watches() iter.Seq2[jute.SessionID, []string] {
	return func(yield func(jute.SessionID, []string) bool) {
		_ = yield(1, []string{"/b/secret", "/open/e"}) && yield(2, []string{"/b/secret2"}) && yield(3, []string{"/open/f"})
	}
}

// guardedOps says the same of the ensemble.
type guardedOps struct{ *fakeOps }

func (guardedOps) Ephemerals(context.Context, jute.SessionID, view.Page) (api.List[api.Ephemeral], error) {
	return api.List[api.Ephemeral]{Items: []api.Ephemeral{{Path: "/b/secret"}, {Path: "/open/e"}}}, nil
}

func (guardedOps) SessionWatches(context.Context, jute.SessionID, view.Page) (api.List[api.Watch], error) {
	a := api.List[api.Watch]{Items: make([]api.Watch, 2)}
	a.Items[0].Path, a.Items[1].Path = "/b/secret", "/open/e"
	return a, nil
}

func (g guardedOps) PathWatches(ctx context.Context, _ string, p view.Page) (api.List[api.Watch], error) {
	return g.SessionWatches(ctx, 0, p)
}

func (guardedOps) SlowRequests(context.Context, view.SlowFilter, view.Page) (api.List[api.SlowRequest], error) {
	return api.List[api.SlowRequest]{Items: []api.SlowRequest{{ID: "1-1", Path: "/b/secret"}, {ID: "1-2", Path: "/open/e"}}}, nil
}

func (guardedOps) NodeRemovals(context.Context, string, view.Page) (api.List[api.Removal], error) {
	return api.List[api.Removal]{Items: []api.Removal{{Path: "/b/secret"}, {Path: "/open/e"}}}, nil
}

func (g guardedOps) ReadNode(q NodeQuery) (Node, error) {
	return Node{Data: []byte("the salaries"), Children: []string{"open-child"}}, nil
}

// newGuarded returns an HTTP and the four-letter words of such a member.
func newGuarded(t *testing.T, a AnonymousAccess) (*HTTP, *FourLetterCommands) {
	t.Helper()
	h, _ := newTestHTTP(t, "leader", func(cfg *HTTPConfig) {
		guarded := guardedSource{cfg.Source.(*fakeSource)}
		words, err := NewFourLetterCommands(FourLetterConfig{Whitelist: []string{"*"}, Version: "1", Source: guarded, AnonymousAccess: a})
		if err != nil {
			t.Fatal(err)
		}
		cfg.Source, cfg.Operations, cfg.FourLetter, cfg.AnonymousAccess = guarded, guardedOps{newFakeOps()}, words, a
	})
	return h, h.cfg.FourLetter
}

// what a text shows of the guarded member.
func shownIn(text string) pathVisibility {
	switch {
	case strings.Contains(text, "secret"):
		return allPaths
	case strings.Contains(text, "/open"):
		return publicPaths
	}
	return noPaths
}

var anonymousCases = []struct {
	name string
	a    AnonymousAccess
	most pathVisibility // what may be shown without credentials
	data bool
}{
	{"state", AnonymousAccess{}, publicPaths, false},
	{"none", AnonymousAccess{Reads: ReadNothing}, noPaths, false},
	{"data", AnonymousAccess{Reads: ReadData}, allPaths, true},
	{"state, and clients must prove themselves", AnonymousAccess{AuthRequired: true}, noPaths, false},
	{"data, and clients must prove themselves", AnonymousAccess{Reads: ReadData, AuthRequired: true}, noPaths, false},
	{"none, and clients must prove themselves", AnonymousAccess{Reads: ReadNothing, AuthRequired: true}, noPaths, false},
}

// No endpoint shows a path or data without credentials beyond what admin.localReads and the rules for clients allow, whatever
// the endpoint. With credentials all of it is shown.
func TestEveryEndpointKeepsPaths(t *testing.T) {
	const data = "dGhlIHNhbGFyaWVz" // the salaries
	for _, tt := range anonymousCases {
		h, _ := newGuarded(t, tt.a)
		most := noPaths
		for _, e := range testRoutes(t) {
			if e.method != "GET" || e.access.forAdministrators() || e.path == "/v1/events" {
				continue
			}
			path := concrete(e.path)
			if len(e.requiredParameters) > 0 {
				path += "?path=/open/e"
			}
			w := visit{method: "GET", path: path}.to(h)
			shown := shownIn(strings.ReplaceAll(w.Body.String(), `"path":"/open/e"`, ""))
			if e.path == "/v1/openapi.json" || e.path == "/v1/owner" || e.path == "/v1/nodes" { // they repeat what was asked
				shown = noPaths
			}
			if most = max(most, shown); shown > tt.most {
				t.Errorf("%s: %s: %d, shows too much: %s", tt.name, e.path, w.Code, w.Body)
			}
			if got := strings.Contains(w.Body.String(), data); got && !tt.data || e.path == "/v1/nodes" && got != tt.data {
				t.Errorf("%s: %s shows data: %t, want %t: %s", tt.name, e.path, got, tt.data, w.Body)
			}
			refused := w.Code == http.StatusUnauthorized
			if want := e.access != openAccess && (tt.a.Reads == ReadNothing || e.content == showsPaths && tt.most == noPaths); refused != want {
				t.Errorf("%s: %s: %d, want it refused: %t", tt.name, e.path, w.Code, want)
			}
			if w := (visit{method: "GET", path: path, header: signedIn}).to(h); w.Code == http.StatusUnauthorized {
				t.Errorf("%s: %s is refused with credentials: %s", tt.name, e.path, w.Body)
			}
		}
		if most != tt.most {
			t.Errorf("%s: the most that is shown is %d, want %d", tt.name, most, tt.most)
		}
	}
}

// A session of whose watches none is shown is left out with them: its id would confirm that it watches something.
func TestSessionsWithoutVisibleWatches(t *testing.T) {
	all := func(yield func(jute.SessionID, []string) bool) {
		_ = yield(1, []string{"/b/x"}) && yield(2, []string{"/a", "/b/x"}) && yield(3, nil)
	}
	f := &pathFilter{source: guardedSource{}, visibility: publicPaths}
	got := map[jute.SessionID]string{}
	for id, paths := range f.filterWatches(all) {
		got[id] = strings.Join(paths, " ")
	}
	if len(got) != 1 || got[2] != "/a" {
		t.Errorf("shown are %v, want /a of session 2 alone", got)
	}
}

// A path below a node that not everybody may read is not confirmed by any question about it.
func TestPathsThatAreAskedFor(t *testing.T) {
	for _, tt := range anonymousCases {
		h, _ := newGuarded(t, tt.a)
		for _, path := range []string{"/v1/nodes", "/v1/owner", "/v1/watches", "/v1/removals"} {
			for about, visible := range map[string]pathVisibility{"/b/secret": allPaths, "/open/e": publicPaths} {
				w := visit{method: "GET", path: path + "?path=" + about}.to(h)
				want := http.StatusUnauthorized
				if tt.most >= visible {
					want = http.StatusOK
				}
				if w.Code != want {
					t.Errorf("%s: %s of %s: %d, want %d: %s", tt.name, path, about, w.Code, want, w.Body)
				}
				if w := (visit{method: "GET", path: path + "?path=" + about, header: signedIn}).to(h); w.Code != http.StatusOK {
					t.Errorf("%s: %s of %s with credentials: %d %s", tt.name, path, about, w.Code, w.Body)
				}
			}
		}
	}
}

// No four-letter word shows more. There are no credentials for them.
func TestEveryWordKeepsPaths(t *testing.T) {
	for _, tt := range anonymousCases {
		_, w := newGuarded(t, tt.a)
		most := noPaths
		for name := range fourLetterCommands {
			most = max(most, shownIn(w.replyTo(t, name+"12345678")))
		}
		if most != tt.most {
			t.Errorf("%s: words show %d, want %d", tt.name, most, tt.most)
		}
	}
}

// A row of the table that does not state its visibility is closed to callers without credentials. Every row states it.
func TestUnstatedShowsNothing(t *testing.T) {
	h, _ := newGuarded(t, AnonymousAccess{})
	for _, e := range testRoutes(t) {
		if (e.access == readAccess) != (e.content != contentUnstated) {
			t.Errorf("%s %s, of class %v, shows %d", e.method, e.path, e.access, e.content)
		}
	}
	served := false
	h.handler = h.guardedHandler([]endpoint{{method: "GET", path: "/new", access: readAccess, serve: func(http.ResponseWriter, *http.Request) { served = true }}})
	if w := (visit{method: "GET", path: "/new"}).to(h); w.Code != http.StatusUnauthorized || served {
		t.Errorf("a row that does not say what it shows: %d, served %t", w.Code, served)
	}
}
