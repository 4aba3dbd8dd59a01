package cli

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"rollcall/internal/localsocket"
)

// onSocket serves the member on the socket of a data directory, and returns the variable that names its configuration.
func (f *fakeMember) onSocket(t *testing.T) (dir, variable string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "zoo.cfg"), []byte("dataDir="+dir+"\nclientPort=2181\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := localsocket.Listen(dir)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: f.mux(), ReadHeaderTimeout: time.Minute}
	ended := make(chan struct{})
	go func() { _ = s.Serve(l); close(ended) }()
	t.Cleanup(func() { _ = s.Close(); <-ended })
	return dir, "ZOO_CONF_DIR=" + dir
}

// A command asks the member of its own machine at its socket, unless another one is named. Credentials go there as
// they are.
func TestMemberOfThisMachine(t *testing.T) {
	f := newFakeMember(t)
	dir, variable := f.onSocket(t)
	const (
		probe  = "GET /v1/openapi.json"
		plain  = "GET /v1/status"
		bearer = plain + " Bearer abcdefghijklmnop"
	)
	for _, tt := range []struct {
		line  string
		asked []string
	}{
		{"", []string{plain}},
		{"--hosts 127.0.0.1:2181", []string{plain}},
		{"--token-file TOKEN", []string{bearer}},
		{"--auth digest:super:x", []string{plain + " digest super:x"}},
		{"--hosts 127.0.0.1:2182 --token-file TOKEN", []string{probe, bearer}}, // another member's port
		{"--token-file TOKEN --admin " + f.URL, []string{bearer}},
		{"--token-file TOKEN --admin unix:" + filepath.Join(dir, localsocket.SocketName), []string{bearer}},
		{"--token-file TOKEN --admin http://127.0.0.1:1,unix:" + filepath.Join(dir, localsocket.SocketName), []string{bearer}},
	} {
		w, _, _ := testWorld(variable)
		w.adminPort = portOf(t, f.URL)
		_, err := Execute(t.Context(), NewRoot(w, "1"), strings.Fields("status -o json "+strings.Replace(tt.line, "TOKEN", tokenFile(t), 1)))
		if asked := f.requests(); err != nil || !slices.Equal(asked, tt.asked) {
			t.Errorf("%s: %v, asked %q, want %q", tt.line, err, asked, tt.asked)
		}
	}
	if err := os.Chmod(dir, 0o777); err != nil { // anybody could have put the socket there
		t.Fatal(err)
	}
	w, _, _ := testWorld(variable)
	w.adminPort = portOf(t, f.URL)
	if _, err := Execute(t.Context(), NewRoot(w, "1"), []string{"status", "-o", "json", "--token-file", tokenFile(t)}); err != nil {
		t.Error(err)
	}
	if asked := f.requests(); !slices.Equal(asked, []string{probe, bearer}) {
		t.Errorf("asked %q, want the port alone", asked)
	}
}

// A program that has taken the port of a member reads neither the token nor the password, and nothing that it answers is
// believed.
func TestPortOfAnother(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var read []byte // by the program; a text is here before its sender gets an answer
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.SetDeadline(time.Now().Add(time.Minute))
			part := make([]byte, 64<<10)
			n, _ := c.Read(part)
			mu.Lock()
			read = append(read, part[:n]...)
			mu.Unlock()
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
			_ = c.Close()
		}
	}()
	defer func() {
		_ = l.Close()
		<-stopped
	}()
	for _, line := range []string{"--token-file TOKEN", "--auth digest:super:hush-hush"} {
		w, _, _ := testWorld("ROLLCALL_ADMIN=http://" + l.Addr().String())
		_, failure := Execute(t.Context(), NewRoot(w, "1"), strings.Fields("log-level debug "+strings.Replace(line, "TOKEN", tokenFile(t), 1)))
		mu.Lock()
		text := read
		read = nil
		mu.Unlock()
		if len(text) == 0 || bytes.Contains(text, []byte("abcdefghijklmnop")) || bytes.Contains(text, []byte("hush-hush")) {
			t.Errorf("%s: the program has read %q", line, text)
		}
		if strings.HasPrefix(line, "--token-file") && (StatusOf(failure) != Denied || !strings.Contains(failure.Error(), "does not prove that it has the token")) {
			t.Errorf("%s: %v (status %d)", line, failure, StatusOf(failure))
		}
	}
}
