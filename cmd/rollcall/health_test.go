package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"strings"
	"testing"

	"rollcall/cli"
)

// answerWord accepts connections at addr until the test ends, and answers srvr with text.
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
			name: "with problems", answer: srvr + "Problem: short of memory: writes that add data are refused\nSecurity: members are not authenticated\n",
			want: "ADDR: follower\nshort of memory: writes that add data are refused\nmembers are not authenticated\n",
		},
		{name: "not serving", answer: "This ZooKeeper instance is not currently serving requests\n", err: "health: ADDR: not serving: This ZooKeeper instance is not currently serving requests"},
		{name: "closed", answer: "\n", err: "health: ADDR: closed without an answer"},
		{name: "endless", answer: strings.Repeat("x", 2*maxHealthAnswer), err: "health: ADDR: not serving: xxx"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			addr := answerWord(t, tt.answer)
			var out bytes.Buffer
			err := health(t.Context(), addr, cli.NewOutput(cli.World{Out: &out}))
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

// A member that accepts the connection but does not answer is not healthy.
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
	_, err = askHealth(ctx, l.Addr().String())
	if err == nil || !strings.HasPrefix(err.Error(), "no answer in time") {
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
	if err := health(t.Context(), addr, cli.NewOutput(cli.World{Out: &out})); err == nil || out.Len() > 0 {
		t.Errorf("health: %v, printed %q", err, out.String())
	}
}

func TestHealthAddr(t *testing.T) {
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
			got, err := healthAddr(dir+"/zoo.cfg", nil)
			if got != tt.want || (err != nil) != (tt.want == "") {
				t.Errorf("healthAddr = %q, %v, want %q", got, err, tt.want)
			}
		})
	}
	const secure = "dataDir=DIR\nsecureClientPort=2281\nssl.clientAuth=none\nssl.keyStore.location=DIR/key.pem\n"
	for lines, want := range map[string]string{
		"": "ask http://127.0.0.1:8080/readyz instead", "admin.serverAddress=::\nadmin.serverPort=8081\n": "ask http://[::1]:8081/readyz instead", "admin.enableServer=false\n": "set admin.enableServer=true",
	} {
		dir, _ := inDir(t, map[string]string{"zoo.cfg": secure + lines})
		if _, err := healthAddr(dir+"/zoo.cfg", nil); err == nil || !strings.Contains(err.Error(), "only secureClientPort; "+want) {
			t.Errorf("healthAddr with TLS alone, %q: %v, want %s", lines, err, want)
		}
	}
	env := []string{"ZOO_CONF_DIR=" + t.TempDir(), "ZOO_DATA_DIR=" + t.TempDir()}
	if got, err := healthAddr("", env); got != "127.0.0.1:2181" || err != nil {
		t.Errorf("healthAddr without a configuration = %q, %v", got, err)
	}
}
