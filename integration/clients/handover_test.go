package clients

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	ours "rollcall/client"
	"rollcall/client/lock"
	"rollcall/integration/needs"
)

// restartExample is the program of client/examples/restart, which holds a lock over its restarts.
type restartExample struct {
	binary, servers, session string
}

// start runs the program until it holds the lock, and returns the line in which it says so.
func (r restartExample) start(ctx context.Context, t *testing.T) (p *dialogue, holds string) {
	t.Helper()
	p, err := talk("restart", exec.Command(r.binary, "-servers", r.servers, "-session", r.session))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	if holds, err = p.expect(ctx, "holds"); err != nil {
		t.Fatal(err)
	}
	return p, holds
}

// end ends the program by a signal, and returns when its process is gone.
func (r restartExample) end(t *testing.T, p *dialogue, sig os.Signal) {
	t.Helper()
	if err := p.SendSignal(sig); err != nil {
		t.Fatal(err)
	}
	<-p.Done()
	if !p.Cmd.ProcessState.Success() {
		t.Fatalf("%v:\n%s", p.Cmd.ProcessState, p.out.text())
	}
}

// A program that is restarted four times keeps its lock: its node, its token, and its place before another client that
// waits for the lock all the time. That gets the lock when the program releases it.
func TestHandOver(t *testing.T) {
	needs.Check(t, needs.Usual)
	e := startEnsemble(t, 3)
	ctx, cancel := context.WithTimeout(t.Context(), scenarioLimit)
	defer cancel()
	dir := t.TempDir()
	r := restartExample{
		binary: filepath.Join(dir, "restart"), session: filepath.Join(dir, "session"),
		servers: strings.Join(e.ClientAddresses(e.Settle()), ","),
	}
	build := exec.CommandContext(ctx, "go", "build", "-o", r.binary, "rollcall/client/examples/restart")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	p, holds := r.start(ctx, t)
	other, err := ours.Dial(ctx, r.servers, ours.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Abandon()
	got := make(chan *ours.Right, 1)
	go func() {
		right, err := lock.NewMutex(other, "/examples/restart/lock", lock.Config{}).Lock(ctx)
		if err != nil {
			t.Error(err)
		}
		got <- right
	}()
	path := strings.Fields(holds)[1]
	_, exists, gone, err := other.ExistsWatch(ctx, path)
	if err != nil || !exists {
		t.Fatal(exists, err)
	}
	for range 4 {
		r.end(t, p, syscall.SIGTERM)
		if info, err := os.Stat(r.session); err != nil || info.Mode() != 0o600 {
			t.Fatal(info, err)
		}
		var again string
		if p, again = r.start(ctx, t); again != holds {
			t.Fatalf("the program %q, and before its restart it %q", again, holds)
		}
		if _, err := os.Stat(r.session); !os.IsNotExist(err) {
			t.Fatalf("the file with the session is left: %v", err)
		}
	}
	if len(gone.Fired) > 0 || len(got) > 0 {
		t.Fatal("the lock changed hands")
	}
	r.end(t, p, syscall.SIGINT)
	if event := <-gone.Fired; event.Type != ours.NodeDeleted {
		t.Errorf("the node was not deleted: %+v", event)
	}
	if right := <-got; right == nil || !right.Held() {
		t.Error("the other client does not get the lock")
	}
	fmt.Printf("client scenario: go-hand-over ok\n")
}
