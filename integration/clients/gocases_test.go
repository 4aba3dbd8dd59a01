package clients

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"rollcall/integration/needs"
	"rollcall/lab/process"
)

// Cases of kazoo, each a function of python/kazoo_cases.py.
func TestKazooCases(t *testing.T) {
	needs.Check(t, needs.Usual)
	needs.Check(t, needs.Kazoo)
	for _, tt := range []struct {
		number int
		name   string
	}{
		{259, "chroot-multi"},
		{360, "start-again"},
		{361, "expired"},
		{362, "auth-data"},
		{363, "rolled-back"},
	} {
		t.Run(fmt.Sprintf("%d %s", tt.number, tt.name), func(t *testing.T) {
			l := startLone(t)
			l.play("kazoo-"+tt.name, exec.Command(python, "-B", "python/kazoo_cases.py", tt.name, l.addr))
		})
	}
}

// A client of kazoo lives on when there is no room for its data. It breaks on codes that it does not know.
func TestKazooNoRoom(t *testing.T) {
	needs.Check(t, needs.Usual)
	needs.Check(t, needs.Kazoo)
	e := process.StartEnsemble(t, process.Config{Binary: rollcall, Size: 1, Tick: tick, Lines: "dataQuota=1M\n"})
	ctx, cancel := context.WithTimeout(t.Context(), scenarioLimit)
	defer cancel()
	cmd := exec.Command(python, "-B", "python/kazoo_cases.py", "no-room", e.Members[0].Clients)
	if err := obey(ctx, "kazoo-no-room", cmd, map[string]func() error{"ok": func() error { return nil }}); err != nil {
		t.Fatal(err)
	}
	fmt.Println("client scenario: kazoo-no-room ok")
}

// A client of kazoo that accepts a read-only server reads from the last of three members, and its writes are rejected.
// When the others are back, it writes again.
func TestKazooReadOnly(t *testing.T) {
	needs.Check(t, needs.Usual)
	needs.Check(t, needs.Kazoo)
	e := process.StartEnsemble(t, process.Config{Binary: rollcall, Size: 3, Tick: tick, Lines: "readonlymode.enabled=true\n"})
	ctx, cancel := context.WithTimeout(t.Context(), scenarioLimit)
	defer cancel()
	others, last := e.Members[:2], e.Members[2]
	cmd := exec.Command(python, "-B", "python/kazoo_cases.py", "read-only", last.Clients)
	if err := obey(ctx, "kazoo-read-only", cmd, map[string]func() error{
		"stop the others": func() error {
			process.KillAll(others)
			return nil
		},
		"start the others": func() error {
			for _, m := range others {
				e.Start(m)
			}
			return nil
		},
		"ok": func() error { return nil },
	}); err != nil {
		t.Fatal(err)
	}
	fmt.Println("client scenario: kazoo-read-only ok")
}

// 356: what go-zookeeper reports about a connection, from the beginning.
func TestGoStates(t *testing.T) {
	needs.Check(t, needs.Usual)
	l := startLone(t)
	c, err := dialGo(l.ctx, seat{name: "test", hosts: []string{l.addr}}, caseTimeout)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	want := []zk.State{zk.StateConnecting, zk.StateConnected, zk.StateHasSession}
	if got, _ := c.seen(); !slices.Equal(got, want) {
		t.Errorf("states %v, want %v", got, want)
	}
	fmt.Println("client scenario: go-states ok")
}

// 357: the server is replaced by another one: the session and its watches continue.
func TestGoServerReplaced(t *testing.T) {
	needs.Check(t, needs.Usual)
	e := startEnsemble(t, 3)
	leader := e.Settle()
	ctx, cancel := context.WithTimeout(t.Context(), scenarioLimit)
	defer cancel()
	c, err := dialGo(ctx, seat{name: "test", hosts: e.ClientAddresses(leader), moves: true}, sessionTimeout)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Create("/n", nil, 0, world); err != nil {
		t.Fatal(err)
	}
	_, _, event, err := c.GetW("/n")
	if err != nil {
		t.Fatal(err)
	}
	states, _ := c.seen()
	leader.Process.Kill()
	if err := c.hasSession(ctx, len(states)); err != nil {
		t.Fatal(err)
	}
	if id := c.SessionID(); id != c.sid {
		t.Errorf("session %#x, was %#x", id, c.sid)
	}
	other := client(ctx, t, e)
	if _, err := other.Set("/n", []byte("x"), -1); err != nil {
		t.Fatal(err)
	}
	select {
	case got := <-event:
		if got.Type != zk.EventNodeDataChanged || got.Path != "/n" {
			t.Errorf("event %+v", got)
		}
	case <-time.After(process.Patience):
		t.Error("no event")
	}
	fmt.Println("client scenario: go-server-replaced ok")
}

// 359: on a slow line no session expires as long as pings get through.
func TestGoSlowServer(t *testing.T) {
	needs.Check(t, needs.Usual)
	l := startLone(t)
	slow := startProxy(t, l.Members[0].Clients, 200*time.Millisecond)
	c, err := dialGoThrough(l.ctx, seat{name: "test", hosts: []string{slow.addr}}, sessionTimeout, net.DialTimeout)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Create("/mine", nil, zk.FlagEphemeral, world); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(3 * sessionTimeout / 2); time.Now().Before(end); {
		if _, _, err := c.Get("/mine"); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.undisturbed(); err != nil {
		t.Error(err)
	}
	fmt.Println("client scenario: go-slow-server ok")
}
