package cli

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// portOf returns the port of a URL.
func portOf(t *testing.T, base string) string {
	t.Helper()
	u, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	return u.Port()
}

// replaceHost returns where clients would be served by the member of rollcall up whose port for operators is at base, on host.
func replaceHost(t *testing.T, base, host string) string {
	t.Helper()
	port, err := strconv.Atoi(portOf(t, base))
	if err != nil {
		t.Fatal(err)
	}
	return net.JoinHostPort(host, strconv.Itoa(port-upPortOffset))
}

// Credentials go to the address that --admin names, whatever it is, and without it only to the default address on
// this machine, if a member has replied there to a request without them. The token is proved there, and the password of
// the super user goes nowhere over TCP. A guessed port gets none, not even one of this machine, and neither does another
// machine. Linux takes connections to 0.0.0.0 to this machine, so that address stands for another machine that would
// reply.
func TestCredentialsGoNowhereElse(t *testing.T) {
	f := newFakeMember(t)
	token := tokenFile(t)
	stranger := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.note(r)
		_, _ = w.Write([]byte(`{"info":{"title":"Petstore"}}`))
	}))
	t.Cleanup(stranger.Close)
	away, here := replaceHost(t, f.URL, "0.0.0.0"), replaceHost(t, f.URL, "127.0.0.1")
	member, foreign := portOf(t, f.URL), portOf(t, stranger.URL)
	const (
		nobody = "1"
		probe  = "GET /v1/openapi.json"
		plain  = "GET /v1/status"
		bearer = "GET /v1/status Bearer abcdefghijklmnop"
		super  = "--auth digest:super:x"
		guess  = "credentials are not sent to 0.0.0.0 at a port that is only guessed; name the member's port for operators, such as --admin http://0.0.0.0:8080, or set ROLLCALL_ADMIN to it"
		alone  = "name another one with --admin or ROLLCALL_ADMIN, because credentials go to no other address by themselves"
	)
	for _, tt := range []struct {
		line   string
		usual  string   // the default port
		asked  []string // each request that any listener got
		status Status
		want   string // part of the error
	}{
		{"--hosts " + away, nobody, []string{probe, plain}, OK, ""},
		{"--hosts " + here, nobody, []string{probe, plain}, OK, ""},
		{"--hosts 127.0.0.1:65000", member, []string{probe, plain}, OK, ""},
		{"--auth digest:joe:x --hosts " + away, nobody, []string{probe, plain}, OK, ""},
		{"--token-file TOKEN --hosts " + away, member, nil, UsageError, guess},
		{super + " --hosts " + away, nobody, []string{probe, plain}, OK, ""},
		{"--token-file TOKEN --hosts " + here, nobody, nil, Unavailable, alone},
		{super + " --hosts " + here, nobody, []string{probe, plain}, OK, ""},
		{"--token-file TOKEN --hosts " + here, member, []string{probe, bearer}, OK, ""},
		{"--token-file TOKEN", member, []string{probe, bearer}, OK, ""},
		{super + " --hosts localhost:1", member, []string{probe, plain}, OK, ""},
		{"--token-file TOKEN --hosts " + here, foreign, []string{probe}, Unavailable, "that is not a member of Rollcall"},
		{"--token-file TOKEN --hosts " + here + " --admin " + strings.Replace(f.URL, "127.0.0.1", "0.0.0.0", 1), foreign, []string{bearer}, OK, ""},
	} {
		w, _, _ := testWorld()
		w.adminPort = tt.usual
		_, err := Execute(t.Context(), NewRoot(w, "1"), strings.Fields("status -o json "+strings.Replace(tt.line, "TOKEN", token, 1)))
		if asked := f.requests(); !slices.Equal(asked, tt.asked) {
			t.Errorf("%s: asked %q, want %q", tt.line, asked, tt.asked)
		}
		if StatusOf(err) != tt.status || tt.want != "" && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v (status %d), want %s (status %d)", tt.line, err, StatusOf(err), tt.want, tt.status)
		}
	}
}

// Commands that ask each member ask the one at which credentials are safe, and name the others.
func TestCredentialsOfSeveralMembers(t *testing.T) {
	f := newFakeMember(t)
	w, out, _ := testWorld("ROLLCALL_HOSTS=" + replaceHost(t, f.URL, "0.0.0.0") + ",127.0.0.1:1,127.0.0.1:2")
	w.adminPort = portOf(t, f.URL)
	_, err := Execute(t.Context(), NewRoot(w, "1"), []string{"log-level", "--token-file", tokenFile(t), "debug"})
	if StatusOf(err) != UsageError || !strings.Contains(err.Error(), "credentials are not sent to 0.0.0.0") || !strings.Contains(out.String(), "debug") {
		t.Errorf("%v (status %d): %s", err, StatusOf(err), out)
	}
	if want := "credentials are sent to " + f.URL + " alone, not to another member for 127.0.0.1:2; --admin names the URL of each"; !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
	const probe = "GET /v1/openapi.json"
	want := []string{probe, probe, "GET /v1/whoami Bearer abcdefghijklmnop", "POST /v1/log-level Bearer abcdefghijklmnop"}
	if asked := f.requests(); !slices.Equal(asked, want) {
		t.Errorf("asked %q, want %q", asked, want)
	}
}
