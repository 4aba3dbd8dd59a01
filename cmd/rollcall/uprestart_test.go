package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"rollcall/cli"
	"rollcall/lab/process"
	"rollcall/member"
)

// A member of rollcall up that was removed and is added again starts again in the process, and the others go
// on meanwhile.
func TestUpStartsMemberAgain(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	f := &upFlags{dataDir: filepath.Join(dir, "data"), ports: upPorts(t)}
	var out, errs lockedBuffer
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.runMembers(ctx, cli.IOStreams{Out: &out, Err: &errs}) }()
	defer func() {
		if stop(); <-ended != nil {
			t.Error("it ended with an error")
		}
	}()
	waitUntil(t, "the ensemble", func() bool { return strings.Contains(out.String(), "ready: connect to") })
	members := func(args ...string) {
		t.Helper()
		w := cli.IOStreams{Out: new(bytes.Buffer), Err: &errs, Now: time.Now, Env: []string{"ROLLCALL_ADMIN=http://" + loopbackAddr(f.ports[0]+upHTTP), "ROLLCALL_TOKEN_FILE=" + filepath.Join(f.dataDir, upToken)}}
		if _, err := cli.Execute(t.Context(), cli.NewRoot(w, "1"), append([]string{"members"}, args...)); err != nil {
			t.Fatalf("members %q: %v\n%s%s", args, err, out.String(), errs.String())
		}
	}
	members("remove", "3")
	members("add", fmt.Sprintf("server.3=127.0.0.1:%d:%d;127.0.0.1:%d", f.ports[2]+upQuorum, f.ports[2]+upElection, f.ports[2]))
	if n := strings.Count(errs.String(), "this member starts again in the same process"); n != 1 || !strings.Contains(errs.String(), "member=3") {
		t.Errorf("%d starts:\n%s", n, errs.String())
	}
}

// rollcall up is ready when its members are, although one of them was replaced before it served.
func TestUpAwaitsReplacedMember(t *testing.T) {
	dir := t.TempDir()
	f := &upFlags{dataDir: filepath.Join(dir, "data"), ports: upPorts(t)[:1]}
	var err error
	if f.files, err = openUpFiles(f.dataDir); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.files.Close() }()
	if err := f.writeMissingSecrets(); err != nil {
		t.Fatal(err)
	}
	var out, errs lockedBuffer
	u := newUpMember(func() (*member.Member, string, error) { return new(member.Member), "", nil }) // it never runs
	if _, err := u.makeMember(); err != nil {
		t.Fatal(err)
	}
	ready, ended := make(chan bool, 1), make(chan error, 1)
	go func() { ready <- u.awaitReady(t.Context()) }()
	waitUntil(t, "the wait for the first member", func() bool { return len(u.replaced) == 0 })
	u.openMember = func() (*member.Member, string, error) {
		return f.newMember(0, &eventPrinter{out: &out, started: time.Now()}, &errs)
	}
	if _, err := u.makeMember(); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	go func() { ended <- u.newest.Load().Run(ctx) }()
	defer func() {
		if stop(); <-ended != nil {
			t.Error("it ended with an error")
		}
	}()
	select {
	case ok := <-ready:
		if !ok {
			t.Error("the wait ended, and the member is not ready")
		}
	case <-time.After(20 * time.Second):
		t.Error("the second member is not ready")
	}
}

// upPorts returns ports for three members of which those above are free, too.
func upPorts(t *testing.T) (ports []int) {
	t.Helper()
	used := map[int]bool{}
	for len(ports) < upMembers {
		p := 20_000 + process.FreePort(t).Port%10_000 + 17*len(ports)
		free := true
		for _, above := range []int{0, upQuorum, upElection, upHTTP} {
			l, err := net.Listen("tcp", loopbackAddr(p+above))
			if free = free && err == nil && !used[p+above]; err == nil {
				_ = l.Close()
			}
		}
		if free {
			ports = append(ports, p)
			for _, above := range []int{0, upQuorum, upElection, upHTTP} {
				used[p+above] = true
			}
		}
	}
	return ports
}

// waitUntil polls ok until it returns true, for a minute at most.
func waitUntil(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for limit := time.Now().Add(time.Minute); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("no %s after a minute", what)
		}
	}
}

// lockedBuffer is a buffer that several goroutines write to.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
