package clients

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/go-zookeeper/zk"

	"rollcall/integration/needs"
	"rollcall/lab/process"
)

// However all members end, by turns or at once, their sessions and nodes are there when they run
// again.
func TestRestart(t *testing.T) {
	needs.Check(t, needs.Usual)
	for _, members := range []int{1, 3} {
		for _, end := range []struct {
			name string
			all  func(*process.Ensemble)
		}{
			{"stopped", (*process.Ensemble).StopAll},
			{"killed", (*process.Ensemble).KillAll},
		} {
			name := fmt.Sprintf("%d-%s", members, end.name)
			t.Run(name, func(t *testing.T) {
				e := startEnsemble(t, members)
				ctx, cancel := context.WithTimeout(t.Context(), scenarioLimit)
				defer cancel()
				c, err := dialGo(ctx, seat{name: "test", hosts: e.ClientAddresses(e.Settle()), moves: true}, longTimeout)
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				before, err := plant(c)
				if err != nil {
					t.Fatal(err)
				}
				states, _ := c.seen()
				for range 2 { // the second time with what a restarted member has written
					end.all(e)
					for _, m := range e.Members {
						e.Start(m)
					}
					e.Settle()
				}
				if err := c.hasSession(ctx, len(states)); err != nil {
					t.Fatal(err)
				}
				if err := stillThere(ctx, c, before); err != nil {
					t.Fatal(err)
				}
				fmt.Printf("client scenario: go-restart %s ok\n", name)
			})
		}
	}
}

// Two of three members have lost their data for good. rollcall recover runs on the third, and all start again with the
// same zoo.cfg. The client keeps its session. Before that, recover rejects a member that was stopped while the others
// continued.
func TestRecover(t *testing.T) {
	needs.Check(t, needs.Usual)
	e := startEnsemble(t, 3)
	ctx, cancel := context.WithTimeout(t.Context(), scenarioLimit)
	defer cancel()
	leader := e.Settle()
	c, err := dialGo(ctx, seat{name: "test", hosts: e.ClientAddresses(leader), moves: true}, longTimeout)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	lesser := e.Members[0] // not the third, which is to have everything
	if lesser == leader {
		lesser = e.Members[1]
	}
	if err := lesser.Process.SendSignal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if _, err := lesser.Process.ExitStatus(ctx); err != nil {
		t.Fatal(err)
	}
	before, err := plant(c)
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(ctx, rollcall, "recover", "-yes", lesser.Config).CombinedOutput()
	if want := fmt.Sprintf("has more data than member %d", lesser.ID); err == nil || !strings.Contains(string(out), want) {
		t.Fatalf("recover of a member behind others: %v, want a refusal with %q: %s", err, want, out)
	}
	e.Start(lesser)
	e.Settle()
	states, _ := c.seen()
	e.StopAll()
	for _, m := range e.Members[:2] {
		e.Empty(m)
	}
	out, err = exec.CommandContext(ctx, rollcall, "recover", "-yes", e.Members[2].Config).CombinedOutput()
	if err != nil {
		t.Fatalf("recover: %v: %s", err, out)
	}
	for _, m := range e.Members {
		e.Start(m)
	}
	e.Settle()
	if err := c.hasSession(ctx, len(states)); err != nil {
		t.Fatal(err)
	}
	if err := stillThere(ctx, c, before); err != nil {
		t.Fatal(err)
	}
	fmt.Println("client scenario: go-recover ok")
}

// planted is a node as a client has seen it.
type planted struct {
	path string
	data []byte
	stat zk.Stat
	acl  []zk.ACL
}

// plant creates nodes of all kinds and returns them as they are then.
func plant(c *goClient) ([]planted, error) {
	secret := zk.DigestACL(zk.PermAll, "user", "secret")
	_, err := c.Create("/kept", []byte("data"), 0, world)
	steps := []func() error{
		func() error { _, err := c.Set("/kept", []byte("more"), 0); return err },
		func() error { _, err := c.Create("/kept/seq-", nil, zk.FlagSequence, world); return err },
		func() error { _, err := c.Create("/kept/gone", nil, 0, world); return err },
		func() error { return c.Delete("/kept/gone", 0) },
		func() error { _, err := c.Create("/kept/mine", []byte("e"), zk.FlagEphemeral, world); return err },
		func() error { return c.AddAuth("digest", []byte("user:secret")) },
		func() error { _, err := c.Create("/kept/secret", []byte("s"), 0, secret); return err },
		func() error { _, err := c.SetACL("/kept/secret", secret, 0); return err },
	}
	for _, step := range steps {
		err = errors.Join(err, step())
	}
	if err != nil {
		return nil, err
	}
	return harvest(c)
}

// harvest reads everything that plant created.
func harvest(c *goClient) ([]planted, error) {
	children, _, err := c.Children("/kept")
	if err != nil {
		return nil, err
	}
	slices.Sort(children)
	all := []planted{{path: "/kept"}}
	for _, child := range children {
		all = append(all, planted{path: "/kept/" + child})
	}
	for i := range all {
		data, stat, err := c.Get(all[i].path)
		if err != nil {
			return nil, err
		}
		acl, _, err := c.GetACL(all[i].path)
		if err != nil {
			return nil, err
		}
		all[i].data, all[i].stat, all[i].acl = data, *stat, acl
	}
	return all, nil
}

// stillThere compares the nodes with what exists now. The session must still own its ephemeral, and
// the ensemble must accept writes.
func stillThere(ctx context.Context, c *goClient, before []planted) error {
	// Requests that were in flight while members went down are lost to the client; later ones are
	// not.
	if err := process.Until(ctx, "reads work again", func() bool {
		_, _, err := c.Get("/kept")
		return err == nil
	}); err != nil {
		return err
	}
	now, err := harvest(c)
	if err != nil {
		return err
	}
	if !reflect.DeepEqual(now, before) {
		return fmt.Errorf("there is\n%+v\nwas\n%+v", now, before)
	}
	if err := errors.Join(c.holdsEphemeral("/kept/mine"), c.undisturbed()); err != nil {
		return err
	}
	_, err = c.Create("/kept/seq-", nil, zk.FlagSequence, world)
	return err
}

// A client that knows only one member, the leader, keeps its session when that member is killed and
// comes back. zkCli.sh reports the same in its output.
func TestLeaderReturns(t *testing.T) {
	needs.Check(t, needs.Usual)
	needs.Check(t, needs.ZooKeeper)
	e := startEnsemble(t, 3)
	leader := e.Settle()
	ctx, cancel := context.WithTimeout(t.Context(), scenarioLimit)
	defer cancel()
	at := seat{name: "test", hosts: []string{leader.Clients}, moves: true}
	c, err := dialGo(ctx, at, longTimeout)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Create("/mine", nil, zk.FlagEphemeral, world); err != nil {
		t.Fatal(err)
	}
	d, err := zkcli(at)
	if err != nil {
		t.Fatal(err)
	}
	defer d.stop()
	if err := d.sendLine(ctx, "create -e /java x", "Created /java"); err != nil {
		t.Fatal(err)
	}
	owner, err := ephemeralOwner(ctx, d, "/java")
	if err != nil {
		t.Fatal(err)
	}
	states, _ := c.seen()

	leader.Process.Kill()
	if _, err := d.expect(ctx, watched+"Disconnected"); err != nil {
		t.Fatal(err)
	}
	e.Settle() // the other two
	e.Start(leader)
	if err := c.hasSession(ctx, len(states)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(c.holdsEphemeral("/mine"), c.undisturbed()); err != nil {
		t.Fatal(err)
	}
	fmt.Println("client scenario: go-leader-returns ok")

	if err := process.Until(ctx, "zkCli.sh is connected again", func() bool {
		session, _ := events(d)
		return slices.Equal(session, []string{"SyncConnected", "Disconnected", "SyncConnected"})
	}); err != nil {
		t.Fatal(d.failed(err))
	}
	if now, err := ephemeralOwner(ctx, d, "/java"); err != nil || now != owner {
		t.Fatalf("%s, %v; was %s", now, err, owner)
	}
	if err := d.say("quit"); err != nil {
		t.Fatal(err)
	}
	if err := d.wantStatus(ctx, 0); err != nil {
		t.Fatal(err)
	}
	fmt.Println("client scenario: zkcli-leader-returns ok")
}

// rollcall health shows by its exit status whether the member of a zoo.cfg serves.
func TestHealth(t *testing.T) {
	needs.Check(t, needs.Usual)
	e := startEnsemble(t, 1)
	m := e.Members[0]
	health := func() int {
		cmd := exec.CommandContext(t.Context(), rollcall, "health", m.Config)
		out, err := cmd.CombinedOutput()
		if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
			t.Fatalf("health: %v: %s", err, out)
		}
		return cmd.ProcessState.ExitCode()
	}
	if status := health(); status != 0 {
		t.Errorf("health of a member that serves: %d, want 0", status)
	}
	e.StopAll()
	if status := health(); status != 1 {
		t.Errorf("health of a member that is down: %d, want 1", status)
	}
}
