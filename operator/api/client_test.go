package api_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"rollcall/operator/api"
)

// serve returns a Client of a server that replies with handler answer.
func serve(t *testing.T, answer http.HandlerFunc) *api.Client {
	t.Helper()
	srv := httptest.NewServer(answer)
	t.Cleanup(srv.Close)
	return &api.Client{BaseURL: srv.URL + "/", Authorization: "digest super:secret"}
}

// A request carries its parameters and credentials, and its reply is decoded.
func TestGetAndPost(t *testing.T) {
	var asked []string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		asked = append(asked, fmt.Sprintf("%s %s %q %q %s", r.Method, r.URL, r.Header["Authorization"], r.Header["Content-Type"], body))
		_, _ = io.WriteString(w, `{"id":"0x7","reason":"killed","what":"a key of a later version"}`)
	})
	for _, ask := range []func() (api.End, error){
		func() (api.End, error) { return api.Get[api.End](t.Context(), c, "owner", nil) },
		func() (api.End, error) {
			return api.Get[api.End](t.Context(), c, "/owner", url.Values{"path": {"/a&b"}})
		},
		func() (api.End, error) {
			return api.Post[api.End](t.Context(), c, "sessions/0x7/kill", struct{}{})
		},
	} {
		if end, err := ask(); err != nil || end.ID != "0x7" || end.Reason != "killed" {
			t.Errorf("%+v, %v", end, err)
		}
	}
	want := []string{
		`GET /v1/owner ["digest super:secret"] [] `,
		`GET /v1/owner?path=%2Fa%26b ["digest super:secret"] [] `,
		`POST /v1/sessions/0x7/kill ["digest super:secret"] ["application/json"] {}`,
	}
	if !slices.Equal(asked, want) {
		t.Errorf("asked %q, want %q", asked, want)
	}
	c.Authorization = ""
	if _, err := api.Get[api.End](t.Context(), c, "ends", nil); err != nil || !strings.Contains(asked[3], " [] [] ") {
		t.Errorf("without credentials: %v, asked %s", err, asked[3])
	}
}

// All reads a list to its end, page by page, and reports each silent member once. It requests no page that its caller
// does not need.
func TestAll(t *testing.T) {
	pages := map[string]string{
		"":   `{"items":[{"path":"/a"},{"path":"/b"}],"next":"p2","silent":[{"member":3,"reason":"down"}]}`,
		"p2": `{"items":[],"next":"p3","silent":[{"member":2,"reason":"busy"},{"member":3,"reason":"not asked again"}]}`,
		"p3": `{"items":[{"path":"/c"}],"next":"","silent":[{"member":2,"reason":"not asked again"},{"member":3,"reason":"not asked again"}]}`,
	}
	var asked []string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.RawQuery)
		_, _ = io.WriteString(w, pages[r.URL.Query().Get("from")])
	})
	query := url.Values{"path": {"/x"}, "limit": {"2"}}
	var silent, got []string
	told := func(s api.Silence) { silent = append(silent, fmt.Sprint(s.MemberID, " ", s.Reason)) }
	for row, err := range api.AllRows[api.Ephemeral](t.Context(), c, "list", query, told) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, row.Path)
	}
	if !slices.Equal(got, []string{"/a", "/b", "/c"}) || !slices.Equal(silent, []string{"3 down", "2 busy"}) {
		t.Errorf("rows %q, silent %q", got, silent)
	}
	if want := []string{"limit=2&path=%2Fx", "from=p2&limit=2&path=%2Fx", "from=p3&limit=2&path=%2Fx"}; !slices.Equal(asked, want) {
		t.Errorf("asked %q, want %q", asked, want)
	}
	if query.Has("from") {
		t.Error("the caller's query was changed")
	}
	asked = nil
	for _, err := range api.AllRows[api.Ephemeral](t.Context(), c, "list", nil, nil) {
		if err != nil {
			t.Fatal(err)
		}
		break
	}
	if len(asked) != 1 {
		t.Errorf("asked %q for one row", asked)
	}
}

// A list that fails ends with its error. One that never ends is an error, too.
func TestAllFails(t *testing.T) {
	for want, second := range map[string]string{
		"does not reply as a member": `x`,
		"does not continue after":    `{"items":[],"next":"p2","silent":[]}`,
	} {
		asked := 0
		c := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if asked++; asked > 5 {
				http.Error(w, "asked again and again", http.StatusTooManyRequests)
				return
			}
			if r.URL.Query().Has("from") {
				_, _ = io.WriteString(w, second)
				return
			}
			_, _ = io.WriteString(w, `{"items":[{"path":"/a"}],"next":"p2","silent":[]}`)
		})
		rows, failed := 0, error(nil)
		for _, err := range api.AllRows[api.Ephemeral](t.Context(), c, "list", nil, nil) {
			if err == nil {
				rows++
			} else if failed != nil {
				t.Errorf("after an error: %v", err)
			}
			failed = err
		}
		if rows != 1 || failed == nil || !strings.Contains(failed.Error(), want) {
			t.Errorf("%d rows, then %v; want one and %q", rows, failed, want)
		}
	}
}

// A reply that does not come from a member is an error that describes the reply. A rejection has its status and its
// text.
func TestAnswersThatFail(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	for _, tt := range []struct {
		name   string
		answer http.HandlerFunc
		status int // of an *api.Error; 0: it is another one
		want   string
	}{
		{"a refusal", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"error":"there is no session 0x7"}`)
		}, 404, "there is no session 0x7"},
		{"a refusal in HTML", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadGateway)
			_, _ = io.WriteString(w, "<html>\x1b[2J\n<b>")
		}, 502, `status 502: "<html>\x1b[2J"`},
		{"a refusal without a word", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }, 403, `status 403: ""`},
		{"a refusal in other JSON", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, `["no"]`)
		}, 403, `status 403: "[\"no\"]"`},
		{"a redirect", func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/elsewhere" {
				t.Error("the redirect was followed")
			}
			http.Redirect(w, r, "/elsewhere", http.StatusFound)
		}, 302, "status 302"},
		{"HTML", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") }, 0, "does not reply as a member of Rollcall"},
		{"half an answer", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"id":"0x7"`) }, 0, "does not reply as a member of Rollcall"},
		{"a broken connection", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 0, "EOF"},
		{"no end", func(w http.ResponseWriter, _ *http.Request) {
			for {
				if _, err := io.WriteString(w, long); err != nil {
					return
				}
			}
		}, 0, "has more than 33554432 bytes"},
	} {
		c := serve(t, tt.answer)
		_, err := api.Get[api.End](t.Context(), c, "ends", nil)
		refused, ok := errors.AsType[*api.Error](err)
		if err == nil || !strings.Contains(err.Error(), tt.want) || ok != (tt.status != 0) || ok && refused.Status != tt.status {
			t.Errorf("%s: %v, want status %d and %q", tt.name, err, tt.status, tt.want)
		}
	}
}

// A Client gives up when its context ends, also in the middle of a reply, and returns the reason.
func TestClientGivesUp(t *testing.T) {
	release := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"items":[`)
		_ = http.NewResponseController(w).Flush()
		cancel()
		<-release
	})
	defer close(release)
	if _, err := api.Get[api.List[api.End]](ctx, c, "ends", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	for _, base := range []string{"http://127.0.0.1:1", "127.0.0.1:8080", "http://[::1", ""} {
		if _, err := api.Get[api.End](t.Context(), &api.Client{BaseURL: base}, "ends", nil); err == nil ||
			!strings.HasPrefix(err.Error(), "api: ") {
			t.Errorf("%q: %v", base, err)
		}
	}
}
