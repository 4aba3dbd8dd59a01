package clients

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"rollcall/integration/needs"
)

const zkCLI = "/usr/share/zookeeper/bin/zkCli.sh"

// zkcli starts Debian's zkCli.sh. With a command, it runs only that; without one, it gets commands
// as lines.
func zkcli(at seat, command ...string) (*dialogue, error) {
	return talk("zkCli.sh "+strings.Join(command, " "), zkcliCommand(at, command...))
}

func zkcliCommand(at seat, command ...string) *exec.Cmd {
	cmd := exec.Command(zkCLI, append([]string{"-server", strings.Join(at.hosts, ",")}, command...)...)
	// These flags make a small virtual machine that starts fast.
	cmd.Env = append(os.Environ(), "JVMFLAGS=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xmx128m")
	return cmd
}

// stays selects the seats on surviving members: zkCli.sh tries addresses in random order.
func stays(at seat) bool { return !at.moves }

const watched = "WatchedEvent state:"

// events returns zkCli.sh's output about its session, and how often it printed an event of a node. It does not always
// print that it has closed its session before it ends.
func events(d *dialogue) (session []string, nodes int) {
	for _, line := range d.out.with(watched) {
		state, ok := strings.CutSuffix(strings.TrimPrefix(line, watched), " type:None path:null")
		switch {
		case !ok:
			nodes++
		case state != "Closed":
			session = append(session, state)
		}
	}
	return session, nodes
}

// quit closes the session. It checks that nothing but its beginning was printed about it, and as
// many events of nodes as expected.
func quit(ctx context.Context, d *dialogue, nodes int) error {
	if err := d.say("quit"); err != nil {
		return err
	}
	if err := d.wantStatus(ctx, 0); err != nil {
		return err
	}
	if session, n := events(d); !slices.Equal(session, []string{"SyncConnected"}) || n != nodes {
		return d.failed(fmt.Errorf("its session saw %q and %d events of nodes, want one SyncConnected and %d", session, n, nodes))
	}
	return nil
}

// A session that gets its commands through a pipe does not notice the leader's death.
func TestZkCLISession(t *testing.T) {
	needs.Check(t, needs.Usual)
	needs.Check(t, needs.ZooKeeper)
	play(t, "zkcli-session", stays, func(ctx context.Context, s *stage, at seat) error {
		d, err := zkcli(at)
		if err != nil {
			return err
		}
		defer d.stop()
		if _, err := d.expect(ctx, watched+"SyncConnected"); err != nil {
			return err
		}
		node := s.path(at.name)
		before := []exchange{
			{"create " + node + " hello", []string{"Created " + node}},
			{"get " + node, []string{"hello"}},
			{"set " + node + " goodbye", nil},
			{"get -s " + node, []string{"goodbye", "dataVersion = 1"}},
			{"create -s " + node + "/s- x", []string{"Created " + node + "/s-0000000000"}},
			{"create -e " + node + "/e x", []string{"Created " + node + "/e"}},
			{"ls " + node, []string{"[e, s-0000000000]"}},
			{"stat " + node, []string{"cZxid = 0x", "cversion = 2", "dataVersion = 1", "aclVersion = 0", "dataLength = 7", "numChildren = 2"}},
			{"getAcl " + node, []string{"'world,'anyone", ": cdrwa"}},
			{"addauth digest user:secret", nil},
			{"setAcl " + node + "/s-0000000000 auth::rw", nil},
			{"getAcl " + node + "/s-0000000000", []string{"'digest,'user:", ": rw"}},
		}
		after := []exchange{
			{"create -s " + node + "/s- y", []string{"Created " + node + "/s-0000000002"}},
			{"get " + node + "/s-0000000000", []string{"x"}},
			{"create " + node + " again", []string{"Node already exists: " + node}},
			{"get " + node + "/none", []string{"Node does not exist: " + node + "/none"}},
			{"delete " + node, []string{"Node not empty: " + node}},
			{"set -v 7 " + node + " x", []string{"version No is not valid : " + node}},
			{"delete " + node + "/s-0000000000", nil},
			{"delete " + node + "/s-0000000002", nil},
			{"ls " + node, []string{"[e]"}},
		}
		if err := exchanges(ctx, d, before); err != nil {
			return err
		}
		owner, err := ephemeralOwner(ctx, d, node+"/e")
		if err != nil {
			return err
		}
		if err := s.disturb(ctx); err != nil {
			return err
		}
		if err := exchanges(ctx, d, after); err != nil {
			return err
		}
		if now, err := ephemeralOwner(ctx, d, node+"/e"); err != nil || now != owner {
			return errors.Join(err, fmt.Errorf("%s, was %s", now, owner))
		}
		if err := quit(ctx, d, 0); err != nil {
			return err
		}
		return emptied(ctx, at, node)
	})
}

// exchange is a command and what must be printed for it, in any order.
type exchange struct {
	command string
	prints  []string
}

func exchanges(ctx context.Context, d *dialogue, all []exchange) error {
	for _, e := range all {
		if err := d.sendLine(ctx, e.command, e.prints...); err != nil {
			return err
		}
	}
	return nil
}

func ephemeralOwner(ctx context.Context, d *dialogue, path string) (string, error) {
	if err := d.say("stat " + path); err != nil {
		return "", err
	}
	return d.expect(ctx, "ephemeralOwner = 0x")
}

// emptied checks that the session's ephemeral child was deleted with it.
func emptied(ctx context.Context, at seat, node string) error {
	c, err := dialGo(ctx, at, sessionTimeout)
	if err != nil {
		return err
	}
	defer c.Close()
	return c.waitGone(ctx, node+"/e")
}

// Watches set by zkCli.sh fire; those set before the fault fire after it.
func TestZkCLIWatch(t *testing.T) {
	needs.Check(t, needs.Usual)
	needs.Check(t, needs.ZooKeeper)
	play(t, "zkcli-watch", stays, func(ctx context.Context, s *stage, at seat) error {
		d, err := zkcli(at)
		if err != nil {
			return err
		}
		defer d.stop()
		node := s.path(at.name)
		changed := watched + "SyncConnected type:NodeDataChanged path:" + node
		if err := exchanges(ctx, d, []exchange{
			{"create " + node + " one", []string{"Created " + node}},
			{"get -w " + node, []string{"one"}},
			{"set " + node + " two", []string{changed}},
			{"get -w " + node, []string{"two"}},
			{"ls -w " + node, []string{"[]"}},
			{"stat -w " + node + "/new", []string{"Node does not exist"}},
		}); err != nil {
			return err
		}
		if err := s.disturb(ctx); err != nil {
			return err
		}
		if err := exchanges(ctx, d, []exchange{
			{"set " + node + " three", []string{changed}},
			{"create " + node + "/new x", []string{
				watched + "SyncConnected type:NodeChildrenChanged path:" + node,
				watched + "SyncConnected type:NodeCreated path:" + node + "/new",
			}},
			{"get " + node, []string{"three"}},
		}); err != nil {
			return err
		}
		return quit(ctx, d, 4)
	})
}

// Single commands show by their exit status whether they succeeded.
func TestZkCLICommands(t *testing.T) {
	needs.Check(t, needs.Usual)
	needs.Check(t, needs.ZooKeeper)
	play(t, "zkcli-commands", stays, func(ctx context.Context, s *stage, at seat) error {
		node := s.path(at.name)
		for _, c := range []struct {
			command string
			status  int
			prints  string
		}{
			{"create " + node + " hello", 0, "Created " + node},
			{"get " + node, 0, "hello"},
			{"get " + node + "/none", 1, "Node does not exist: " + node + "/none"},
			{"fault", 0, ""},
			{"set " + node + " there", 0, ""},
			{"get " + node, 0, "there"},
			{"ls " + node, 0, "[]"},
			{"delete " + node + "/none", 1, "Node does not exist: " + node + "/none"},
			{"delete " + node, 0, ""},
			{"stat " + node, 1, "Node does not exist: " + node},
			{"nonsense", 127, "Command not found"},
		} {
			run := func() error { return zkcliOnce(ctx, at, c.command, c.status, c.prints) }
			if c.command == "fault" {
				run = func() error { return s.disturb(ctx) }
			}
			if err := run(); err != nil {
				return err
			}
		}
		return nil
	})
}

// zkcliOnce runs one command in a session of its own.
func zkcliOnce(ctx context.Context, at seat, command string, status int, prints string) error {
	// It waits for the connection. Otherwise, messages about the connection may come in the middle
	// of a line.
	d, err := zkcli(at, append([]string{"-waitforconnection"}, strings.Fields(command)...)...)
	if err != nil {
		return err
	}
	defer d.stop()
	if err := d.wantStatus(ctx, status); err != nil {
		return err
	}
	_, err = d.expect(ctx, prints)
	return err
}
