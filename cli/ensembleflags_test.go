package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"

	"rollcall/client"
	"rollcall/operator/api"
)

// linkOf returns the link of a command line and an environment.
func linkOf(t *testing.T, env []string, args ...string) *EnsembleFlags {
	t.Helper()
	w, _, _ := testWorld(env...)
	l, cmd := NewEnsembleFlags(w), &cobra.Command{Use: "x"}
	l.Register(cmd)
	if err := cmd.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	return l
}

// A flag goes before its variable, and that before the default.
func TestHosts(t *testing.T) {
	for _, tt := range []struct {
		flag, variable string
		want           string // the addresses, or a part of the error
	}{
		{"", "", "127.0.0.1:2181"},
		{"", "a:1, b:2", "a:1 b:2"},
		{"c:3", "a:1", "c:3"},
		{"[::1]:2181", "", "[::1]:2181"},
		{"localhost", "", `--hosts: "localhost" has no port`},
		{"a:1,,b:2", "", "an address is missing"},
		{":2181", "", `":2181" has no host`},
		{"a:0", "", `"a:0": a port is a number`},
		{"a:65536", "", `"a:65536": a port is a number from 1 to 65535`},
		{"a:1/app", "", "a:1"},
		{strings.Repeat("a:1,", 32) + "a:1", "", "33 addresses; at most 32"},
	} {
		got, err := linkOf(t, []string{"ROLLCALL_HOSTS=" + tt.variable}, "--hosts="+tt.flag).Hosts()
		if err != nil && (StatusOf(err) != UsageError || !strings.Contains(err.Error(), tt.want)) || err == nil && strings.Join(got, " ") != tt.want {
			t.Errorf("--hosts=%s, ROLLCALL_HOSTS=%s: %q, %v, want %s", tt.flag, tt.variable, got, err, tt.want)
		}
	}
}

// Credentials come from a file, flags and variables. Errors do not show them.
func TestCredentials(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	token := file("token", "abcdefghijklmnop\n")
	for _, tt := range []struct {
		env, args []string
		want      string // the header, or a part of the error
	}{
		{nil, nil, ""},
		{[]string{"ROLLCALL_TOKEN_FILE=" + token}, nil, "Bearer abcdefghijklmnop"},
		{nil, []string{"--token-file", token, "--auth", "digest:super:x"}, "Bearer abcdefghijklmnop"},
		{[]string{"ROLLCALL_AUTH=digest:super:a:b"}, nil, "digest super:a:b"},
		{[]string{"ROLLCALL_AUTH=digest:super:a"}, []string{"--auth", "digest:joe:b"}, ""},
		{nil, []string{"--auth", "digest:joe:b", "--auth", "digest:super:c"}, "digest super:c"},
		{nil, []string{"--auth", "secret"}, "--auth: must be scheme:identity"},
		{nil, []string{"--auth", ":secret"}, "--auth: must be scheme:identity"},
		{nil, []string{"--token-file", filepath.Join(dir, "none")}, "no such file"},
		{nil, []string{"--token-file", file("empty", "\n")}, filepath.Join(dir, "empty") + " is empty"},
		{nil, []string{"--token-file", file("two", "secret secret")}, "does not hold one token"},
		{nil, []string{"--token-file", file("control", "secret\x1b")}, "does not hold one token"},
		{nil, []string{"--token-file", file("long", strings.Repeat("x", maxToken))}, "does not hold one token"},
		{nil, []string{"--token-file", dir}, "--token-file"},
	} {
		got, err := linkOf(t, tt.env, tt.args...).readAuthorization()
		switch {
		case err == nil && got != tt.want, err != nil && (tt.want == "" || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%q %q: %q, %v, want %s", tt.env, tt.args, got, err, tt.want)
		case err != nil && (StatusOf(err) != UsageError || strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "%!")):
			t.Errorf("%q: %v, status %d", tt.args, err, StatusOf(err))
		}
	}
}

// --admin takes a URL, which may lack its scheme.
func TestAdminURL(t *testing.T) {
	for _, tt := range []struct{ given, want string }{
		{"127.0.0.1:8080", "http://127.0.0.1:8080"},
		{"zoo1:80", "http://zoo1:80"},
		{"https://zoo1/", "https://zoo1"},
		{"http://[::1]:8080/below", "http://[::1]:8080/below"},
		{"ftp://zoo1", ""},
		{"http://", ""},
		{"http://u:secret@zoo1", ""},
		{"http://zoo1?x=secret", ""},
		{"http://a b", ""},
		{"unix:/var/lib/rollcall/admin.sock", "http://localhost"},
		{"unix:", ""},
		{"unix://host/x", ""},
	} {
		c, err := linkOf(t, nil, "--admin", tt.given).AdminClient(t.Context())
		if err == nil && c.BaseURL != tt.want || (err != nil) != (tt.want == "") || err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, %v", tt.given, c, err)
		}
	}
}

// The first member that answers is used. Servers that are no members, hang or refuse are passed over.
func TestDiscover(t *testing.T) {
	serve := func(status int, body string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/v1/openapi.json" {
				w.WriteHeader(status)
				_, _ = w.Write([]byte(body))
			}
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	hangs, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = hangs.Close() }()
	silent, other, elsewhere, proxy, page := "http://"+hangs.Addr().String(), serve(200, `{"info":{"title":"Petstore"}}`), serve(302, ""), serve(502, string(api.OpenAPI)), serve(200, "<html>")
	member := serve(200, string(api.OpenAPI))
	if got, err := discoverMember(t.Context(), newHTTPClient(IOStreams{}, dialMember, nil, nil), []string{silent, other, "http://127.0.0.1:1", elsewhere, proxy, page, member}); got != member || err != nil {
		t.Errorf("%s, %v", got, err)
	}
	_, err = discoverMember(t.Context(), newHTTPClient(IOStreams{}, dialMember, nil, nil), []string{other, "http://127.0.0.1:1"})
	if StatusOf(err) != Unavailable || !strings.Contains(err.Error(), other+": that is not a member") || !strings.Contains(err.Error(), "http://127.0.0.1:1: dial") {
		t.Errorf("%v", err)
	}
	if got := candidateURLs(IOStreams{}, []string{"a:2181", "[::1]:65000"}); strings.Join(got, " ") != "http://a:5181 http://a:8080 http://[::1]:8080" {
		t.Errorf("%q", got)
	}
}

// answersAfter is a transport to hosts each of which answers as a member does, after a time.
type answersAfter map[string]time.Duration

func (a answersAfter) RoundTrip(r *http.Request) (*http.Response, error) {
	time.Sleep(a[r.URL.Host])
	return &http.Response{StatusCode: 200, Body: io.NopCloser(bytes.NewReader(api.OpenAPI)), Request: r}, nil
}

// The likeliest of the members that answer soon after the first one is taken.
func TestDiscoverLikeliest(t *testing.T) {
	for _, tt := range []struct {
		hosts answersAfter
		want  string
		took  time.Duration
	}{
		{answersAfter{"a": 0, "b": 0, "c": 0}, "a", 0},
		{answersAfter{"a": preferredGrace - 1, "b": 0, "c": 0}, "a", preferredGrace - 1},
		{answersAfter{"a": time.Second, "b": 0, "c": 0}, "b", preferredGrace},
		{answersAfter{"a": time.Second, "b": preferredGrace - 1, "c": 0}, "b", 2*preferredGrace - 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			begun := time.Now()
			got, err := discoverMember(t.Context(), &http.Client{Transport: tt.hosts}, []string{"http://a", "http://b", "http://c"})
			if took := time.Since(begun); got != "http://"+tt.want || err != nil || took != tt.took {
				t.Errorf("%v: %s after %v, %v, want %s after %v", tt.hosts, got, took, err, tt.want, tt.took)
			}
			time.Sleep(time.Minute) // until all have answered
		})
	}
}

// Each error leads to its status.
func TestStatusOf(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want Status
	}{
		{nil, OK},
		{errors.New("x"), Failed},
		{NotFound.Errorf("x"), NotFound},
		{WithStatus(NotFound, nil), OK},
		{errors.Join(errors.New("y"), UsageError.Errorf("x")), UsageError},
		{&client.Error{Path: "/a", Err: client.ErrNoNode}, NotFound},
		{&client.Error{Path: "/a", Err: client.ErrNoAuth}, Denied},
		{&client.Error{Path: "/a", Err: client.ErrBadVersion}, Conflict},
		{&client.Error{Path: "/a", Err: client.ErrConnectionLost}, OutcomeUnknown},
		{&client.Error{Path: "/a", Err: client.ErrSuspended}, Unavailable},
		{&api.Error{Status: 400}, UsageError},
		{&api.Error{Status: 404}, NotFound},
		{&api.Error{Status: 409}, Conflict},
		{&api.Error{Status: 502}, Unavailable},
		{&api.Error{Status: 504}, OutcomeUnknown},
		{&api.Error{Status: 401}, Denied},
		{&api.Error{Status: 403}, Denied},
		{&api.Error{Status: 503}, Unavailable},
		{&api.Error{Status: 500}, Failed},
		{WithStatus(Unavailable, &api.Error{Status: 500}), Unavailable},
	} {
		if got := StatusOf(tt.err); got != tt.want {
			t.Errorf("%v: %d, want %d", tt.err, got, tt.want)
		}
	}
	for i, s := range statusMeanings {
		if int(s.Status) != i {
			t.Errorf("the table of statuses lacks %d", i)
		}
	}
}

// A command that the user stops has not failed.
func TestStopped(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	if err := ignoreCanceled(ctx, context.Canceled); err == nil {
		t.Error("an error is gone while the command runs")
	}
	stop()
	if err := ignoreCanceled(ctx, errors.New("x")); err == nil {
		t.Error("another error is gone")
	}
	if err := ignoreCanceled(ctx, context.Canceled); err != nil {
		t.Error(err)
	}
}

// A command logs in with the section Client of a JAAS file. An error names the flag and shows no password.
func TestLogin(t *testing.T) {
	file := func(text string) string {
		path := filepath.Join(t.TempDir(), "client.jaas")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const module = " {org.apache.zookeeper.server.auth.DigestLoginModule required username=\"bob\" password=\"bobsecret\";};"
	good := file("Client" + module)
	for _, tt := range []struct {
		env, args []string
		user      string
		want      string // a part of the error
	}{
		{nil, nil, "", ""},
		{nil, []string{"--jaas", good}, "bob", ""},
		{[]string{"ROLLCALL_JAAS=" + good}, nil, "bob", ""},
		{[]string{"ROLLCALL_JAAS=/nowhere"}, []string{"--jaas", good}, "bob", ""},
		{nil, []string{"--jaas", "/nowhere"}, "", "--jaas /nowhere: "},
		{nil, []string{"--jaas", t.TempDir()}, "", "this is not a file"},
		{nil, []string{"--jaas", file("Server" + module)}, "", `no section "Client"`},
		{nil, []string{"--jaas", file("Client" + module + "x")}, "", "line 1: "},
	} {
		cfg, err := linkOf(t, tt.env, tt.args...).SessionConfig()
		switch {
		case tt.want != "" && (err == nil || StatusOf(err) != UsageError || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "secret")):
			t.Errorf("%q: %v, want %s", tt.args, err, tt.want)
		case tt.want == "" && (err != nil || (cfg.Login != nil) != (tt.user != "")):
			t.Errorf("%q: %v, %v", tt.args, cfg.Login, err)
		case tt.user != "" && *cfg.Login.(*client.Login) != (client.Login{User: "bob", Password: "bobsecret"}):
			t.Errorf("%q: %v", tt.args, cfg.Login)
		}
	}
}

// If --admin names several members, a command asks the first that answers, and credentials go to that one alone. A
// command about the member itself does not go on to another one.
func TestAdminGoesOn(t *testing.T) {
	f := newFakeMember(t)
	const nobody = "http://127.0.0.1:1"
	both := []string{"--admin", nobody + "," + f.URL, "--auth", "digest:super:x"}
	if c, err := linkOf(t, nil, both...).AdminClient(t.Context()); err != nil || c.BaseURL != f.URL || c.Authorization != "" {
		t.Errorf("%v, %v, want %s", c, err, f.URL)
	}
	if asked := f.requests(); len(asked) != 1 || asked[0] != "GET /v1/openapi.json" {
		t.Errorf("asked %q, want one question without credentials", asked)
	}
	if c, err := linkOf(t, nil, both...).FirstAdminClient(t.Context()); err != nil || c.BaseURL != nobody {
		t.Errorf("the first is %v, %v, want %s", c, err, nobody)
	}
	_, err := linkOf(t, nil, "--admin", nobody+",http://127.0.0.1:2").AdminClient(t.Context())
	if StatusOf(err) != Unavailable || !strings.Contains(err.Error(), "--admin: no member answers operators (http://127.0.0.1:1: dial") || strings.Contains(err.Error(), "names the URL") {
		t.Errorf("%v", err)
	}
}
