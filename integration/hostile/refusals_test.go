package hostile

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"rollcall/integration/needs"
	"rollcall/integration/wire"
	"rollcall/lab/process"
	"rollcall/zk/jute"
)

// operated is a member that strangers try to make do something. It has a session, whose id stands in the
// paths.
type operated struct {
	t      *testing.T
	member *process.Member
	port   string
	id     string // of the session
}

const (
	signedIn = "Authorization: digest super:secret\r\n"
	asJSON   = "Content-Type: application/json\r\n"
)

// changing returns the endpoints that change something, as "METHOD PATH". docs/admin.md has all of them,
// which admin.TestDocsHaveTheEndpoints holds.
func changing(t *testing.T) (all []string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/admin.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		item, _, ok := strings.Cut(line, " (changes): ")
		if !ok {
			continue
		}
		method, paths, _ := strings.Cut(strings.TrimPrefix(item, "* "), " ")
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(paths, -1) {
			all = append(all, method+" "+m[1])
		}
	}
	return all
}

// send sends bytes to the member at host, and returns the first reply, with its headers. The reply is empty if the
// member closes the connection.
func (o *operated) send(host, request string) (status int, header http.Header, body string) {
	o.t.Helper()
	method, _, _ := strings.Cut(request, " ")
	c, err := net.DialTimeout("tcp", net.JoinHostPort(host, o.port), process.Patience)
	if err != nil {
		o.t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(process.Patience)); err != nil {
		o.t.Fatal(err)
	}
	if _, err := io.WriteString(c, request); err != nil {
		o.t.Fatal(err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: method})
	if err != nil {
		return 0, nil, ""
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		o.t.Fatalf("%.200q: %v", request, err)
	}
	return answer.StatusCode, answer.Header, string(text)
}

// request returns a request for "METHOD PATH", with lines of header and a body of JSON.
func (o *operated) request(endpoint, host, lines string) string {
	endpoint = strings.ReplaceAll(endpoint, "{id}", o.id)
	return endpoint + " HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\nContent-Length: 2\r\n" + lines + "\r\n{}"
}

// logged returns the member's log.
func (o *operated) logged() []byte {
	o.t.Helper()
	text, err := os.ReadFile(o.member.Log)
	if err != nil {
		o.t.Fatal(err)
	}
	return text
}

// A member carries out no request without credentials, whether it comes from a page of another site, under a foreign
// name, from another machine, or written otherwise than it is read. The session that all of them try to end lives, and
// the log has no more lines about them than it may have.
func TestOperatorsAreRefused(t *testing.T) {
	needs.Check(t, needs.Nightly)
	e := process.StartEnsemble(t, process.Config{
		Binary: rollcall, Size: 1, Tick: tick,
		Lines: process.AnyHTTP + "admin.serverAddress=0.0.0.0\nDigestAuthenticationProvider.superDigest=super:lK75jTNcA+U9vtVEw5vB51mj/w4=\n",
	})
	o := &operated{t: t, member: e.Members[0]}
	addr, err := o.member.HTTP()
	if err != nil {
		t.Fatal(err)
	}
	if _, o.port, err = net.SplitHostPort(addr); err != nil {
		t.Fatal(err)
	}
	c, err := net.DialTimeout("tcp", o.member.Clients, process.Patience)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	conn := wire.New(c)
	session, err := conn.Open(20 * tick)
	if err != nil {
		t.Fatal(err)
	}
	go keepAlive(t.Context(), conn)
	o.id = session.SessionID.String()
	all := changing(t)
	if len(all) < 10 {
		t.Fatalf("docs/admin.md has %d endpoints that change something: %q", len(all), all)
	}
	begun := time.Now()
	o.refuses(all)
	o.refusesRequests()
	log := o.logged()
	minutes := 2 + int(time.Since(begun).Minutes()) // that this test has seen, the first and the last of them in part
	if n := bytes.Count(log, []byte("outcome=\"rejected")); n == 0 || n > minutes*refusedLines {
		t.Errorf("the log has %d lines about refused requests:\n%s", n, log)
	}
	if regexp.MustCompile(`from=\S+ outcome=done`).Match(log) {
		t.Errorf("a request was done:\n%s", log)
	}
	if status, _, body := o.send("127.0.0.1", o.request("GET /v1/sessions/{id}", "127.0.0.1", "")); status != 200 || !strings.Contains(body, `"state":"connected"`) {
		t.Errorf("the session: %d %s", status, body)
	}
	status, _, body := o.send("127.0.0.1", o.request("POST /v1/sessions/{id}/kill", "127.0.0.1", signedIn+asJSON))
	if status != 200 || !strings.Contains(body, `"reason":"killed"`) {
		t.Errorf("the kill of an administrator: %d %s", status, body)
	}
	if log := o.logged(); !bytes.Contains(log, []byte(`action="kill session" target=`+o.id+" by=super from=127.0.0.1:")) {
		t.Errorf("the kill is not in the log:\n%s", log)
	}
}

// keepAlive sends a ping every tick until ctx ends or the connection does: the test may take longer than any session's timeout.
func keepAlive(ctx context.Context, c *wire.Conn) {
	for due := time.NewTicker(tick); ; {
		select {
		case <-ctx.Done():
			return
		case <-due.C:
		}
		if c.Send(jute.XidPing, jute.OpPing, nil) != nil {
			return
		}
		if _, err := c.Recv(); err != nil {
			return
		}
	}
}

// refusedLines is the number of lines about rejected requests that a minute may have, as docs/admin.md says.
const refusedLines = 20

// guessedEndpoints is the number of endpoints that get wrong credentials: after ten of these, a member delays all
// requests from this machine, the right ones too. admin.TestEveryEndpointIsGuarded checks all endpoints.
const guessedEndpoints = 4

// refuses sends requests to every endpoint that it must reject.
func (o *operated) refuses(endpoints []string) {
	t := o.t
	type attempt struct {
		name, host, lines string
		status            int
	}
	wrong := []attempt{
		{"with a wrong password", "127.0.0.1", "Authorization: digest super:Secret\r\n" + asJSON, 401},
		{"with a wrong token", "127.0.0.1", "Authorization: Bearer " + strings.Repeat("x", 32) + "\r\n" + asJSON, 401},
	}
	local := []attempt{
		{"without credentials", "127.0.0.1", asJSON, 401},
		{"with a cookie", "127.0.0.1", "Cookie: Authorization=digest super:secret\r\n" + asJSON, 401},
		{"from a page of another site", "127.0.0.1", signedIn + asJSON + "Origin: https://example.com\r\n", 403},
		{"from two pages", "127.0.0.1", signedIn + asJSON + "Origin: http://127.0.0.1\r\nOrigin: https://example.com\r\n", 403},
		{"across sites", "127.0.0.1", signedIn + asJSON + "Sec-Fetch-Site: cross-site\r\n", 403},
		{"across sites, twice", "127.0.0.1", signedIn + asJSON + "Sec-Fetch-Site: none\r\nSec-Fetch-Site: cross-site\r\n", 403},
		{"by a foreign name", "example.com", signedIn + asJSON, 403},
		{"by a name that begins like one of its own", "localhost.example.com:" + o.port, signedIn + asJSON, 403},
		{"by no name", "", signedIn + asJSON, 403},
	}
	remote := []attempt{
		{"from another machine", "HOST", signedIn + asJSON, 403},
		{"from another machine that says it is this one", "127.0.0.1", signedIn + asJSON + "X-Forwarded-For: 127.0.0.1\r\nForwarded: for=127.0.0.1\r\nX-Real-IP: 127.0.0.1\r\n", 403},
	}
	elsewhere := otherAddress(t)
	for i, endpoint := range endpoints {
		attempts := local
		if i < guessedEndpoints {
			attempts = slices.Concat(wrong, local)
		}
		for _, a := range attempts {
			if status, _, body := o.send("127.0.0.1", o.request(endpoint, a.host, a.lines)); status != a.status {
				t.Errorf("%s, %s: %d %s, want %d", endpoint, a.name, status, body, a.status)
			}
		}
		for _, a := range remote {
			if elsewhere == "" {
				break
			}
			lines := o.request(endpoint, strings.Replace(a.host, "HOST", elsewhere, 1), a.lines)
			if status, _, body := o.send(elsewhere, lines); status != a.status {
				t.Errorf("%s, %s: %d %s, want %d", endpoint, a.name, status, body, a.status)
			}
		}
		if strings.HasPrefix(endpoint, "POST") {
			for _, kind := range []string{"", "Content-Type: text/plain\r\n", "Content-Type: application/x-www-form-urlencoded\r\n", asJSON + "Content-Type: text/plain\r\n"} {
				if status, _, body := o.send("127.0.0.1", o.request(endpoint, "127.0.0.1", signedIn+kind)); status != 415 {
					t.Errorf("%s with %q: %d %s, want 415", endpoint, kind, status, body)
				}
			}
			for _, method := range []string{"GET", "HEAD", "PUT", "DELETE", "OPTIONS", "post"} {
				other := strings.Replace(endpoint, "POST", method, 1)
				status, _, body := o.send("127.0.0.1", o.request(other, "127.0.0.1", signedIn+asJSON+"X-HTTP-Method-Override: POST\r\n"))
				reads := strings.HasSuffix(endpoint, "/log-level") || strings.HasSuffix(endpoint, "/limits") || strings.HasSuffix(endpoint, "/members")
				if status != 405 && !(reads && status == 200) {
					t.Errorf("%s: %d %s, want 405", other, status, body)
				}
			}
		}
	}
}

// refusesRequests sends requests that a server and a proxy in front of it might read differently.
func (o *operated) refusesRequests() {
	t := o.t
	kill := "/v1/sessions/" + o.id + "/kill"
	end := " HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
	for name, request := range map[string]string{
		"line ends in the path":                "POST /v1/sessions/0x1%0d%0aSet-Cookie:%20a=b%0d%0amsg=audit%20outcome=done/kill" + end + signedIn + asJSON + "\r\n",
		"line ends in a parameter":             "GET /v1/owner?path=/%0d%0aSet-Cookie:%20a=b" + end + "\r\n",
		"bare line ends":                       "GET /v1/owner?path=/\nSet-Cookie:a=b" + end + "\r\n",
		"dots":                                 "POST /v1/status/.." + strings.TrimPrefix(kill, "/v1") + end + asJSON + "\r\n",
		"encoded dots":                         "POST /livez/%2e%2e" + kill + end + asJSON + "\r\n",
		"encoded slashes":                      "POST /livez/..%2fv1%2fsessions%2f" + o.id + "%2fkill" + end + asJSON + "\r\n",
		"two slashes":                          "POST /" + kill + end + asJSON + "\r\n",
		"another server's path":                "POST http://example.com" + kill + end + signedIn + asJSON + "\r\n",
		"two hosts":                            "POST " + kill + end + "Host: example.com\r\n" + asJSON + "\r\n",
		"no host":                              "POST " + kill + " HTTP/1.1\r\nConnection: close\r\n" + asJSON + "\r\n",
		"no host in HTTP/1.0":                  "POST " + kill + " HTTP/1.0\r\n" + signedIn + asJSON + "\r\n",
		"a folded header":                      "POST " + kill + end + "X: a\r\n " + signedIn + asJSON + "\r\n",
		"a blank before the colon":             "POST " + kill + end + "Authorization : digest super:secret\r\n" + asJSON + "\r\n",
		"a header with a zero":                 "POST " + kill + end + "Authorization: digest super:secret\x00\r\n" + asJSON + "\r\n",
		"two lengths":                          "POST " + kill + end + asJSON + "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
		"a request within the body":            "GET /livez" + end + "Content-Length: 0\r\nTransfer-Encoding: identity\r\n\r\nPOST " + kill + end + signedIn + asJSON + "\r\n",
		"a long header":                        "POST " + kill + end + "X: " + strings.Repeat("x", 64<<10) + "\r\n" + signedIn + asJSON + "\r\n",
		"a long path":                          "POST " + kill + "?" + strings.Repeat("x", 64<<10) + end + signedIn + asJSON + "\r\n",
		"a long body":                          "POST " + kill + end + signedIn + asJSON + "Content-Length: 100000\r\n\r\n\"" + strings.Repeat("x", 99_999),
		"another body":                         "POST " + kill + end + signedIn + asJSON + "Content-Length: 6\r\n\r\n{\"x\":1",
		"a parameter that is unknown":          "POST " + kill + "?id=" + o.id + end + signedIn + asJSON + "Content-Length: 2\r\n\r\n{}",
		"two credentials":                      "POST " + kill + end + "Authorization: digest super:wrong\r\n" + signedIn + asJSON + "\r\n",
		"two credentials, the right one first": "POST " + kill + end + signedIn + asJSON + "Authorization: digest super:wrong\r\n\r\n",
		"another protocol":                     "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"nothing that is HTTP":                 "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
	} {
		status, header, body := o.send("127.0.0.1", request)
		if status >= 200 && status < 300 && !strings.HasPrefix(request, "GET /livez") {
			t.Errorf("%s: %d %s", name, status, body)
		}
		if header.Get("Set-Cookie") != "" || strings.Contains(body, "\nSet-Cookie") {
			t.Errorf("%s: the answer has what the request put into it: %v %s", name, header, body)
		}
	}
	if lines := regexp.MustCompile(`(?m)^msg=audit`).FindAll(o.logged(), -1); lines != nil {
		t.Error("a request has written a line into the log")
	}
}

// otherAddress returns an address of this machine that is not on its loopback interface, or "".
func otherAddress(t *testing.T) string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() && n.IP.To4() != nil {
			return n.IP.String()
		}
	}
	t.Log("this machine has no address but that of its loopback interface: nothing is sent from elsewhere")
	return ""
}
