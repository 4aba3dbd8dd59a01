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

	"rollcall/api"
)

// besides returns where clients would be served by the member whose port for operators is at base, on host.
func besides(t *testing.T, base, host string) string {
	t.Helper()
	u, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		t.Fatal(err)
	}
	return net.JoinHostPort(host, strconv.Itoa(port-upDistance))
}

// Credentials go to the address that --admin names, whatever it is, and without it only to a member on this
// machine that has answered a question without them. A guessed port of another machine gets none. Linux takes
// connections to 0.0.0.0 to this machine, so that address stands for another machine that would answer.
func TestCredentialsGoNowhereElse(t *testing.T) {
	f := newFakeMember(t)
	token := tokenFile(t)
	stranger := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.note(r)
		_, _ = w.Write([]byte(`{"info":{"title":"Petstore"}}`))
	}))
	t.Cleanup(stranger.Close)
	away, here, named, foreign := besides(t, f.URL, "0.0.0.0"), besides(t, f.URL, "127.0.0.1"), besides(t, f.URL, "localhost"), besides(t, stranger.URL, "127.0.0.1")
	const (
		probe  = "GET /v1/openapi.json"
		plain  = "GET /v1/status"
		bearer = "GET /v1/status Bearer abcdefghijklmnop"
		digest = "GET /v1/status digest super:x"
		super  = "--auth digest:super:x"
		guess  = "credentials are not sent to 0.0.0.0 at a port that is only guessed; name the member's port for operators, such as --admin http://0.0.0.0:8080, or set ROLLCALL_ADMIN to it"
	)
	for _, tt := range []struct {
		line   string
		asked  []string // each request that any listener got
		status Status
		want   string // part of the error
	}{
		{"--hosts " + away, []string{probe, plain}, OK, ""},
		{"--auth digest:joe:x --hosts " + away, []string{probe, plain}, OK, ""},
		{"--token-file TOKEN --hosts " + away, nil, WrongUse, guess},
		{super + " --hosts " + away, nil, WrongUse, guess},
		{"--token-file TOKEN --hosts " + here, []string{probe, bearer}, OK, ""},
		{super + " --hosts " + named, []string{probe, digest}, OK, ""},
		{super + " --hosts " + away + "," + here, []string{probe, digest}, OK, ""},
		{"--token-file TOKEN --hosts " + foreign, []string{probe}, NoMember, "that is not a member of Rollcall"},
		{"--token-file TOKEN --hosts " + foreign + " --admin " + strings.Replace(f.URL, "127.0.0.1", "0.0.0.0", 1), []string{bearer}, OK, ""},
	} {
		w, _, _ := testWorld()
		_, err := Execute(t.Context(), NewRoot(w, "1", testNow), strings.Fields("status "+strings.Replace(tt.line, "TOKEN", token, 1)))
		if asked := f.requests(); !slices.Equal(asked, tt.asked) {
			t.Errorf("%s: asked %q, want %q", tt.line, asked, tt.asked)
		}
		if StatusOf(err) != tt.status || tt.want != "" && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v (status %d), want %s (status %d)", tt.line, err, StatusOf(err), tt.want, tt.status)
		}
	}
}

// Commands that ask each member ask those at which credentials are safe, and name the others.
func TestCredentialsOfSeveralMembers(t *testing.T) {
	f := newFakeMember(t)
	w, out, _ := testWorld("ROLLCALL_HOSTS=" + besides(t, f.URL, "0.0.0.0") + "," + besides(t, f.URL, "127.0.0.1"))
	_, err := Execute(t.Context(), NewRoot(w, "1", testNow), []string{"log-level", "--token-file", tokenFile(t), "debug"})
	if StatusOf(err) != WrongUse || !strings.Contains(err.Error(), "credentials are not sent to 0.0.0.0") || !strings.Contains(out.String(), "debug") {
		t.Errorf("%v (status %d): %s", err, StatusOf(err), out)
	}
	want := []string{"GET /v1/openapi.json", "GET /v1/whoami Bearer abcdefghijklmnop", "POST /v1/log-level Bearer abcdefghijklmnop"}
	if asked := f.requests(); !slices.Equal(asked, want) {
		t.Errorf("asked %q, want %q", asked, want)
	}
}

// A name that stands for this machine leads nowhere else, even if its address is another one.
func TestOnlyHere(t *testing.T) {
	for addr, allowed := range map[string]bool{
		"127.0.0.1:8080": true, "127.1.2.3:80": true, "[::1]:8080": true, "[::ffff:127.0.0.1]:80": true,
		"0.0.0.0:8080": false, "[::]:8080": false, "10.0.0.1:8080": false, "[fe80::1%lo]:80": false, "localhost:80": false, "": false,
	} {
		if err := onlyHere("tcp", addr, nil); (err == nil) != allowed {
			t.Errorf("%s: %v", addr, err)
		}
	}
	f := newFakeMember(t)
	base, reach, err := search(t.Context(), World{}, []string{besides(t, f.URL, "localhost")}, true)
	if err != nil || f.requests() == nil {
		t.Fatal(base, err)
	}
	c := &api.Client{Base: strings.Replace(f.URL, "127.0.0.1", "0.0.0.0", 1), Auth: "digest super:x", HTTP: reach}
	if _, err := api.Get[api.Caller](t.Context(), c, "whoami", nil); err == nil || !strings.Contains(err.Error(), "is not an address of this machine") || len(f.requests()) > 0 {
		t.Errorf("%v", err)
	}
}
