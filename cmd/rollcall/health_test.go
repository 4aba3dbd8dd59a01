package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"rollcall/cli"
	"rollcall/internal/localsocket"
	"rollcall/operator/api"
)

// answerWord accepts connections at addr until the test ends, and replies to srvr with text.
func answerWord(t *testing.T, text string) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			word := make([]byte, 4)
			if _, err := io.ReadFull(conn, word); err == nil && string(word) == "srvr" {
				_, _ = io.WriteString(conn, text)
				_ = conn.Close()
				continue
			}
			t.Cleanup(func() { _ = conn.Close() })
		}
	}()
	return l.Addr().String()
}

func TestHealth(t *testing.T) {
	const srvr = "Zookeeper version: 3.9.5-1\nLatency min/avg/max: 0/0.0/0\nMode: follower\nNode count: 5\n"
	tests := []struct{ name, answer, want, err string }{
		{name: "serving", answer: srvr, want: "ADDR: follower\n"},
		{
			name: "with problems", answer: srvr + "Problem: short of memory: writes that add data are rejected\nSecurity: members are not authenticated\n",
			want: "ADDR: follower\nshort of memory: writes that add data are rejected\nmembers are not authenticated\n",
		},
		{
			name: "with a dead voter", answer: srvr + "Problem: the leader has not heard voter 3 for 1m2s: start it, or if it is gone for good, run rollcall members remove 3\n",
			want: "ADDR: follower\nthe leader has not heard voter 3 for 1m2s: start it, or if it is gone for good, run rollcall members remove 3\n",
		},
		{name: "not serving", answer: "This ZooKeeper instance is not currently serving requests\n", err: "health: ADDR: not serving: This ZooKeeper instance is not currently serving requests"},
		{name: "closed", answer: "\n", err: "health: ADDR: closed without a reply"},
		{name: "endless", answer: strings.Repeat("x", 2*maxHealthReply), err: "health: ADDR: not serving: xxx"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			addr := answerWord(t, tt.answer)
			var out bytes.Buffer
			err := printHealth(t.Context(), cli.IOStreams{}, memberEndpoints{clientAddr: addr}, cli.NewOutput(cli.IOStreams{Out: &out}))
			text := ""
			if err != nil {
				text = err.Error()
			}
			if want := strings.ReplaceAll(tt.err, "ADDR", addr); !strings.HasPrefix(text, want) || want == "" && text != "" {
				t.Errorf("health: %v, want %q", err, want)
			}
			if want := strings.ReplaceAll(tt.want, "ADDR", addr); out.String() != want {
				t.Errorf("printed %q, want %q", out.String(), want)
			}
		})
	}
}

// A member that accepts the connection but does not reply is not healthy.
func TestHealthSilent(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		if _, err := io.ReadFull(conn, make([]byte, 4)); err == nil {
			stop() // the time is over
		}
		_, _ = conn.Read(make([]byte, 1)) // until the other side closes
	}()
	_, err = probeHealth(ctx, memberEndpoints{clientAddr: l.Addr().String()})
	if err == nil || !strings.HasPrefix(err.Error(), "no reply in time") {
		t.Errorf("askHealth: %v", err)
	}
}

func TestHealthRefused(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	_ = l.Close()
	var out bytes.Buffer
	if err := printHealth(t.Context(), cli.IOStreams{}, memberEndpoints{clientAddr: addr}, cli.NewOutput(cli.IOStreams{Out: &out})); err == nil || out.Len() > 0 {
		t.Errorf("health: %v, printed %q", err, out.String())
	}
}

func TestHealthPlace(t *testing.T) {
	tests := []struct{ name, cfg, want string }{
		{"all interfaces", "clientPort=2182", "127.0.0.1:2182"},
		{"all interfaces, IPv6", "clientPort=2182\nclientPortAddress=::", "[::1]:2182"},
		{"one address", "clientPort=2182\nclientPortAddress=10.0.0.1", "10.0.0.1:2182"},
		{"of the server line", "server.1=h:1:2;zoo1:2183", "zoo1:2183"},
		{"none", "", ""},
		{"any", "clientPort=0", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir, _ := inDir(t, map[string]string{"zoo.cfg": "dataDir=DIR\n" + tt.cfg})
			got, err := locateMember("", dir+"/zoo.cfg", nil)
			if got.clientAddr != tt.want || (err != nil) != (tt.want == "") {
				t.Errorf("placeOf = %q, %v, want %q", got.clientAddr, err, tt.want)
			}
		})
	}
	const secure = "dataDir=DIR\nsecureClientPort=2281\nssl.clientAuth=none\nssl.keyStore.location=DIR/key.pem\n"
	for lines, want := range map[string]string{
		"": "ask http://127.0.0.1:8080/readyz instead", "admin.serverAddress=::\nadmin.serverPort=8081\n": "ask http://[::1]:8081/readyz instead", "admin.enableServer=false\n": "set admin.enableServer=true",
	} {
		dir, _ := inDir(t, map[string]string{"zoo.cfg": secure + lines})
		if _, err := locateMember("", dir+"/zoo.cfg", nil); err == nil || !strings.Contains(err.Error(), "only secureClientPort; "+want) {
			t.Errorf("placeOf with TLS alone, %q: %v, want %s", lines, err, want)
		}
	}
	env := []string{"ZOO_CONF_DIR=" + t.TempDir(), "ZOO_DATA_DIR=" + t.TempDir()}
	if got, err := locateMember("", "", env); got.clientAddr != "127.0.0.1:2181" || err != nil {
		t.Errorf("placeOf without a configuration = %q, %v", got.clientAddr, err)
	}
}

// A member that does not serve clients gives one reason: health says what /readyz says. It asks at the socket
// of the member's data directory, or at its port for operators, where another member may answer.
func TestHealthReason(t *testing.T) {
	const sentence, reason = "This ZooKeeper instance is not currently serving requests\n", "this member was removed from the ensemble"
	var status atomic.Int32
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/whoami" {
			_ = json.NewEncoder(w).Encode(api.Caller{MemberID: 3})
			return
		}
		w.WriteHeader(int(status.Load()))
		_, _ = io.WriteString(w, reason+"\nmore\n")
	})
	tcp := httptest.NewServer(handler)
	defer tcp.Close()
	dir := t.TempDir()
	l, err := localsocket.Listen(dir)
	if err != nil {
		t.Fatal(err)
	}
	local := httptest.NewUnstartedServer(handler)
	_ = local.Listener.Close()
	local.Listener = l
	local.Start()
	defer local.Close()
	operators := tcp.Listener.Addr().String()
	for _, tt := range []struct {
		name, answer string
		at           memberEndpoints
		status       int32
		want         string
	}{
		{"the socket", sentence, memberEndpoints{dataDir: dir}, 503, "not serving: " + reason},
		{"the port", sentence, memberEndpoints{dataDir: t.TempDir(), memberID: 3, operatorAddr: operators}, 503, "not serving: " + reason},
		{"the port of another member", sentence, memberEndpoints{memberID: 4, operatorAddr: operators}, 503, "not serving: This ZooKeeper"},
		{"read-only", "Mode: read-only\n", memberEndpoints{dataDir: dir}, 503, reason},
		{"nobody says it", sentence, memberEndpoints{}, 503, "not serving: This ZooKeeper"},
		{"it serves meanwhile", sentence, memberEndpoints{dataDir: dir}, 200, "not serving: This ZooKeeper"},
	} {
		tt.at.clientAddr = answerWord(t, tt.answer)
		status.Store(tt.status)
		err := printHealth(t.Context(), cli.IOStreams{}, tt.at, cli.NewOutput(cli.IOStreams{}))
		if want := "health: " + tt.at.clientAddr + ": " + tt.want; err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %s", tt.name, err, want)
		}
	}
	if err := os.WriteFile(dir+"/zoo.cfg", []byte("dataDir="+dir+"\nclientPort=2181\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for addr, want := range map[string]string{"": dir, "127.0.0.1:2181": dir, "localhost:2181": dir, "127.0.0.1:2182": "", "10.0.0.1:2181": ""} {
		if at, err := locateMember(addr, dir+"/zoo.cfg", nil); err != nil || at.dataDir != want {
			t.Errorf("%q: %+v, %v, want the data directory %q", addr, at, err, want)
		}
	}
}

// At another kind of port, health says what is there, and does not guess from a reply that it cannot read.
func TestHealthAtOtherPorts(t *testing.T) {
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	defer secure.Close()
	silent, err := tls.Listen("tcp", "127.0.0.1:0", secure.TLS)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	go func() {
		for {
			conn, err := silent.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = conn.Read(make([]byte, 1)) // the handshake
				_ = conn.Close()
			}()
		}
	}()
	for addr, want := range map[string]string{
		web.Listener.Addr().String():    "is a port for HTTP: --addr takes a port for clients",
		secure.Listener.Addr().String(): "is a port for HTTPS: --addr takes a port for clients",
		silent.Addr().String():          "is a port for TLS, such as secureClientPort, and health speaks no TLS",
	} {
		var out bytes.Buffer
		err := printHealth(t.Context(), cli.IOStreams{}, memberEndpoints{clientAddr: addr}, cli.NewOutput(cli.IOStreams{Out: &out}))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "health: ") || out.Len() > 0 {
			t.Errorf("%v, printed %q; want %q", err, &out, want)
		}
	}
}
