package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"rollcall/cli"
	"rollcall/quorum/disk"
)

// runCommand runs a command line as run does. Nothing is on its stdin, and it has no terminal.
func runCommand(ctx context.Context, args, env []string, stdout, stderr io.Writer) error {
	return runCommandLine(ctx, args, cli.IOStreams{In: strings.NewReader(""), Out: stdout, Err: stderr, Env: env, Now: time.Now})
}

// The help of a command names its arguments as well as its flags. Nothing is on stderr.
func TestCommandHelp(t *testing.T) {
	for command, want := range map[string]string{
		"up":            "rollcall up [flags]\n",
		"bench":         "rollcall bench [flags] CASE...\n",
		"bench compare": "rollcall bench compare [flags] CASE...\n",
		"serve":         "rollcall serve [flags] [zoo.cfg]\n",
		"health":        "rollcall health [flags] [zoo.cfg]\n",
		"recover":       "rollcall recover [flags] [zoo.cfg]\n",
		"version":       "rollcall version [flags]\n",
		"":              "rollcall COMMAND [flags]\n",
	} {
		for _, flag := range []string{"-h", "-help", "--help"} {
			var stdout, stderr bytes.Buffer
			err := runCommand(t.Context(), append(strings.Fields(command), flag), nil, &stdout, &stderr)
			if err != nil || !strings.HasPrefix(stdout.String(), want) || stderr.Len() > 0 {
				t.Errorf("%s %s: %v: %s%s", command, flag, err, stdout.String(), stderr.String())
			}
		}
	}
}

// Without a command, the list of commands is on stderr, and the command line is wrong.
func TestNoCommand(t *testing.T) {
	var stdout, stderr bytes.Buffer
	err := runCommand(t.Context(), nil, nil, &stdout, &stderr)
	if cli.StatusOf(err) != cli.UsageError || stdout.Len() > 0 || !strings.Contains(stderr.String(), "\n  serve ") {
		t.Errorf("%v: %s, %s", err, stdout.String(), stderr.String())
	}
}

// The version is printed by the command and by the flag, as before there were commands with flags.
func TestVersionCommand(t *testing.T) {
	for _, arg := range []string{"version", "-version", "--version"} {
		var stdout bytes.Buffer
		if err := runCommand(t.Context(), []string{arg}, nil, &stdout, io.Discard); err != nil || stdout.String() != buildCommit().String()+"\n" {
			t.Errorf("%s: %v, %q", arg, err, stdout.String())
		}
	}
}

// The error about a port in use names the flag for others.
func TestUpOnTakenPort(t *testing.T) {
	l, port, err := net.Listener(nil), 1<<16, error(nil)
	for port > 60000 { // up also needs the ports up to 2,000 above
		if l, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }()
		port = l.Addr().(*net.TCPAddr).Port
	}
	args := []string{"up", "-data", t.TempDir(), "-port", fmt.Sprint(port)}
	err = runCommand(t.Context(), args, nil, io.Discard, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "address already in use; --port takes others") {
		t.Errorf("%v", err)
	}
}

// Where up cannot serve operators another program listens, perhaps of another user. So up ends, and names
// neither that port nor the token.
func TestUpOnTakenPortForOperators(t *testing.T) {
	for range 20 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }()
		var out bytes.Buffer
		args := []string{"up", "-data", t.TempDir(), "-members", "1", "-port", fmt.Sprint(l.Addr().(*net.TCPAddr).Port - upHTTP)}
		err = runCommand(t.Context(), args, nil, &out, io.Discard)
		if err != nil && !strings.Contains(err.Error(), "HTTP for operators") {
			continue // one of the other ports
		}
		if !errors.Is(err, syscall.EADDRINUSE) || !strings.HasSuffix(err.Error(), "; --ports takes others") || strings.Contains(out.String(), "token") {
			t.Errorf("%v, printed\n%s", err, out.String())
		}
		return
	}
	t.Fatal("no free ports")
}

// Without credentials, a port for HTTP that is in use is one warning, which names the keys to set, and no error. The
// member serves clients. With them the member does not start, because another program would be taken for it.
func TestHTTPPortInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	dir, _ := inDir(t, map[string]string{"zoo.cfg": "dataDir=DIR\nclientPort=0\nclientPortAddress=127.0.0.1\nadmin.serverPort=" + port + "\n"})
	ctx, stop := context.WithCancel(t.Context())
	logged := &lineWatcher{text: "msg=\"member starts\"", seen: stop}
	if err := runCommand(ctx, []string{"serve", filepath.Join(dir, "zoo.cfg")}, nil, io.Discard, logged); err != nil {
		t.Errorf("serve: %v", err)
	}
	text := logged.all.String()
	if n := strings.Count(text, "level=WARN"); n != 1 || !strings.Contains(text, "HTTP for operators is not served; set another admin.serverPort, or admin.enableServer=false") {
		t.Errorf("%d warnings in\n%s", n, text)
	}
	if !strings.Contains(text, `http=""`) {
		t.Errorf("the line about the start names an address for HTTP:\n%s", text)
	}
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte("abcdefghijklmnop\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	token := filepath.Join(dir, "token")
	for _, line := range []string{"admin.tokenFile=" + token, "admin.readTokenFile=" + token, "admin.metricsTokenFile=" + token, "DigestAuthenticationProvider.superDigest=super:xQJmxLMiHGwaqBvst5y6rkB6HQs="} {
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		err := runCommand(ctx, []string{"serve", "--set", line, filepath.Join(dir, "zoo.cfg")}, nil, io.Discard, io.Discard)
		if !errors.Is(err, syscall.EADDRINUSE) || !strings.HasSuffix(err.Error(), "set another admin.serverPort, or admin.enableServer=false") {
			t.Errorf("%s: %v", line, err)
		}
		stop()
	}
}

// The commands of the member's machine reach it at the socket in its data directory, and over TCP with a proof
// of the token. At the end the socket is gone.
func TestCommandsReachTheMember(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().String()
	if err := l.Close(); err != nil { // the member takes it
		t.Fatal(err)
	}
	_, number, _ := net.SplitHostPort(port)
	dir, at := inDir(t, map[string]string{
		"zoo.cfg": "dataDir=DIR/data\nclientPort=0\nclientPortAddress=127.0.0.1\nadmin.serverPort=" + number + "\nadmin.tokenFile=DIR/token\n", "token": "abcdefghijklmnop\n", "other": "another-token-1234\n",
	})
	ctx, stop := context.WithCancel(t.Context())
	started := make(chan struct{})
	logged := &lineWatcher{text: "msg=\"member starts\"", seen: func() { close(started) }}
	ended := make(chan error)
	go func() {
		ended <- runCommand(ctx, []string{"serve", filepath.Join(dir, "zoo.cfg")}, nil, io.Discard, logged)
	}()
	select {
	case <-started:
	case err := <-ended:
		t.Fatal(err)
	}
	for _, tt := range []struct{ args, want string }{
		{"log-level debug --token-file DIR/token", ""}, // found by ZOO_CONF_DIR
		{"log-level debug --token-file DIR/token --admin unix:DIR/data/admin.sock", ""},
		{"log-level debug --token-file DIR/token --admin http://" + port, ""},
		{"log-level debug --token-file DIR/other --admin http://" + port, "does not prove that it has the token"},
		{"log-level debug --token-file DIR/other", "credentials of this request are wrong"},
	} {
		var out bytes.Buffer
		err := runCommand(t.Context(), strings.Fields(at(tt.args)), []string{"ZOO_CONF_DIR=" + dir}, &out, &out)
		if (err == nil) != (tt.want == "") || err != nil && (!strings.Contains(err.Error(), tt.want) || cli.StatusOf(err) != cli.Denied) {
			t.Errorf("%s: %v, want %q\n%s", tt.args, err, tt.want, out.String())
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "data", "admin.sock")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is left: %v", err)
	}
	if text := logged.all.String(); !strings.Contains(text, " from=unix:") || !strings.Contains(text, "the proof of the token is wrong") {
		t.Errorf("the log does not say who has asked:\n%s", text)
	}
}

// lineWatcher collects what is written, and calls seen when text is in a line of it. One goroutine at a
// time writes: the logger sees to that.
type lineWatcher struct {
	text string
	seen func()
	all  strings.Builder
}

func (w *lineWatcher) Write(b []byte) (int, error) {
	if strings.Contains(string(b), w.text) {
		w.seen()
	}
	return w.all.Write(b)
}

// If a member's data directory belongs to another member, the error names the file that says so and
// the file that holds this member's number.
func TestServeInAnothersDirectory(t *testing.T) {
	dir, at := inDir(t, map[string]string{"myid": "3", "zoo.cfg": "dataDir=DIR\nclientPort=2181\n"})
	own := filepath.Join(dir, "rollcall")
	identity := `{"format": 3, "member": 1, "servers": ["1=m1:3888"]}`
	if err := errors.Join(os.Mkdir(own, 0o700), os.WriteFile(filepath.Join(own, "identity.json"), []byte(identity), 0o600)); err != nil {
		t.Fatal(err)
	}
	err := runCommand(t.Context(), []string{"serve", "-client", "127.0.0.1:0", filepath.Join(dir, "zoo.cfg")}, nil, io.Discard, io.Discard)
	if !errors.Is(err, disk.ErrOtherMember) {
		t.Fatalf("%v, want ErrOtherMember", err)
	}
	for _, want := range []string{at("DIR/rollcall/identity.json is of member 1"), "this is member 3", at("is from DIR/myid")} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want it to say %q", err, want)
		}
	}
}

// A member waits for its disk, and gets the timer slack. Other commands do not.
func TestWaitsForDisk(t *testing.T) {
	for line, want := range map[string]bool{
		"serve zoo.cfg": true, "serve": true, "bench": false,
		"bench --hosts a:1 get": false, "up": false, "": false, "floor": false,
	} {
		if got := waitsForDisk(strings.Fields(line)); got != want {
			t.Errorf("%q: %t, want %t", line, got, want)
		}
	}
}
