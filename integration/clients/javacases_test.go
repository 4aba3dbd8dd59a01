package clients

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"rollcall/integration/needs"
	"rollcall/lab/process"
)

// caseTimeout is the session timeout of clients whose session is to expire.
const caseTimeout = 4 * time.Second

// lone is one member with a proxy in front of it, and what can be done to a client of that proxy.
type lone struct {
	*process.Ensemble
	*proxy
	t   *testing.T
	ctx context.Context
}

func startLone(t *testing.T) *lone {
	t.Helper()
	e := startEnsemble(t, 1)
	ctx, cancel := context.WithTimeout(t.Context(), scenarioLimit)
	t.Cleanup(cancel)
	return &lone{e, startProxy(t, e.Members[0].Clients, 0), t, ctx}
}

// actions are the requests that client programs may make of the test.
func (l *lone) actions() map[string]func() error {
	do := func(f func()) func() error { return func() error { f(); return nil } }
	return map[string]func() error{
		"cut":                 do(l.cut),
		"block":               do(l.block),
		"unblock":             do(l.unblock),
		"block until expired": l.blockUntilExpired,
		"restart and change":  l.restartAndChange,
		"ok":                  do(func() {}),
	}
}

// blockUntilExpired keeps the client away until its session has expired. Such a program has created
// an ephemeral node below /sessions.
func (l *lone) blockUntilExpired() error {
	l.block()
	defer l.unblock()
	c := client(l.ctx, l.t, l.Ensemble)
	defer c.Close()
	return process.Until(l.ctx, "the session expires", func() bool {
		names, _, err := c.Children("/sessions")
		return err == nil && len(names) == 0
	})
}

// restartAndChange restarts the member and changes what the client watches before the client can
// come back.
func (l *lone) restartAndChange() error {
	m := l.Members[0]
	m.Process.Kill()
	l.Start(m)
	l.Settle()
	c := client(l.ctx, l.t, l.Ensemble)
	defer c.Close()
	if _, err := c.Set("/data", []byte("x"), -1); err != nil {
		return fmt.Errorf("set: %w", err)
	}
	if err := c.Delete("/gone", -1); err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	for _, path := range []string{"/new", "/parent/child"} {
		if _, err := c.Create(path, nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
			return fmt.Errorf("create %s: %w", path, err)
		}
	}
	l.unblock()
	return nil
}

// play runs a client program on the proxy.
func (l *lone) play(scenario string, cmd *exec.Cmd) {
	l.t.Helper()
	if err := obey(l.ctx, scenario, cmd, l.actions()); err != nil {
		l.t.Fatal(err)
	}
	fmt.Printf("client scenario: %s ok\n", scenario)
}

// Cases of ZooKeeper's own Java client, each a function of java/ClientCases.java.
func TestJavaCases(t *testing.T) {
	needs.Check(t, needs.Usual)
	classPath := compileJava(t)
	for _, tt := range []struct {
		number  int
		name    string
		timeout time.Duration // of its sessions
	}{
		{348, "killed", longTimeout},
		{349, "expired", caseTimeout},
		{350, "write-while-cut-off", longTimeout},
		{351, "watches-catch-up", longTimeout}, // the session must outlast a restart of the member
		{352, "chroot", longTimeout},
		{353, "missing-chroot", longTimeout},
		{354, "bad-auth", longTimeout},
		{355, "xid-wraps", longTimeout},
	} {
		t.Run(fmt.Sprintf("%d %s", tt.number, tt.name), func(t *testing.T) {
			l := startLone(t)
			l.play("java-"+tt.name, java(classPath, "ClientCases", tt.name, l.addr, strconv.Itoa(int(tt.timeout.Milliseconds()))))
		})
	}
}

// 364: the holder of a latch and of a lock is cut off. A waiting client gets both when the holder's
// session has expired. That takes T and a tick and a half, and longer on a busy machine.
func TestCuratorHolderExpires(t *testing.T) {
	needs.Check(t, needs.Usual)
	t.Parallel()
	classPath := compileJava(t)
	l := startLone(t)
	ms := func(d time.Duration) string { return strconv.Itoa(int(d.Milliseconds())) }
	l.play("curator-holder-expires", java(classPath, "CuratorExpiry", l.addr, l.Members[0].Clients,
		ms(caseTimeout), ms(caseTimeout+3*tick/2+slack)))
}

// slack is the time that starting threads and processing events may take on a busy machine.
const slack = 3 * time.Second
