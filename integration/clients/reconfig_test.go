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

	"github.com/go-zookeeper/zk"

	"rollcall/integration/needs"
	"rollcall/lab/process"
)

const (
	configNode = "/zookeeper/config"
	// absent is a server that nobody runs. Nothing listens on its ports, so an attempt to connect fails at once.
	absent = "server.100=127.0.0.9:11:12:observer;127.0.0.9:13"
)

// changeable starts three members whose server lines clients may change. The super user's password is secret.
func changeable(t *testing.T) (ctx context.Context, e *process.Ensemble) {
	t.Helper()
	e = process.StartEnsemble(t, process.Config{
		Binary: rollcall, Size: 3, Tick: tick,
		Lines: "reconfigEnabled=true\nDigestAuthenticationProvider.superDigest=super:lK75jTNcA+U9vtVEw5vB51mj/w4=\n",
	})
	ctx, cancel := context.WithTimeout(t.Context(), scenarioLimit)
	t.Cleanup(cancel)
	return ctx, e
}

// runProgram runs a program that needs nothing of the test but its end.
func runProgram(ctx context.Context, t *testing.T, scenario string, cmd *exec.Cmd) {
	t.Helper()
	if err := obey(ctx, scenario, cmd, map[string]func() error{"ok": func() error { return nil }}); err != nil {
		t.Fatal(err)
	}
	fmt.Printf("client scenario: %s ok\n", scenario)
}

// kazoo changes the list of servers, as its own tests do.
func TestKazooReconfig(t *testing.T) {
	needs.Check(t, needs.Usual)
	needs.Check(t, needs.Kazoo)
	ctx, e := changeable(t)
	runProgram(ctx, t, "kazoo-reconfig", exec.Command(python, "-B", "python/kazoo_cases.py", "reconfig", e.Members[0].Clients))
}

// go-zookeeper adds and removes an observer that does not run. It removes a follower, which then serves no client, and
// adds it to the list again. That follower serves again, in the same process, and has a node and an ephemeral that were
// made while it was out. The client watches the list meanwhile.
func TestGoReconfig(t *testing.T) {
	needs.Check(t, needs.Usual)
	ctx, e := changeable(t)
	leader := e.Settle()
	var follower *process.Member
	for _, m := range e.Members {
		if m != leader {
			follower = m
		}
	}
	c, err := dialGo(ctx, seat{name: "test", hosts: []string{leader.Clients}}, sessionTimeout)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.IncrementalReconfig([]string{absent}, nil, -1); !errors.Is(err, zk.ErrNoAuth) {
		t.Errorf("reconfig by nobody: %v", err)
	}
	if err := c.AddAuth("digest", []byte("super:secret")); err != nil {
		t.Fatal(err)
	}
	first := listOf(t, c)
	own := strings.Split(first, "\n")[follower.ID-1] + ";" + follower.Clients
	for _, s := range []struct {
		joining, leaving string
		version          int64
		want             string // the error
	}{
		{joining: absent, version: 7, want: zk.ErrBadVersion.Error()},
		{joining: "server.100=127.0.0.9", want: zk.ErrBadArguments.Error()},
		{joining: "server.100=127.0.0.9:11:12:observer", want: zk.ErrBadArguments.Error()},
		{leaving: "1,2", want: zk.ErrBadArguments.Error()},
		{joining: strings.NewReplacer("observer", "participant").Replace(strings.Join([]string{absent, again(absent, 101), again(absent, 102)}, ",")), want: "unknown error: -13"},
	} {
		if _, err := c.IncrementalReconfig([]string{s.joining}, []string{s.leaving}, s.version-1); err == nil || err.Error() != s.want {
			t.Errorf("reconfig with %+v: %v", s, err)
		}
	}
	if now := listOf(t, c); now != first {
		t.Errorf("refused changes have changed the list from %s to %s", first, now)
	}
	for _, s := range []struct {
		joining, leaving, want string
		serves                 bool // whether the follower does afterwards
	}{
		{joining: absent, want: absent, serves: true},
		{leaving: "100", serves: true},
		{leaving: fmt.Sprint(follower.ID)},
		{joining: own, want: own, serves: true},
	} {
		if s.joining == own {
			makeNodes(t, c, "/kept", "/mine")
		}
		_, _, changed, err := c.GetW(configNode)
		if err != nil {
			t.Fatal(err)
		}
		stat, err := c.IncrementalReconfig([]string{s.joining}, []string{s.leaving}, -1)
		if err != nil {
			t.Fatalf("joining %q, leaving %q: %v", s.joining, s.leaving, err)
		}
		if err := event(ctx, changed, zk.EventNodeDataChanged, configNode); err != nil {
			t.Error(err)
		}
		text := listOf(t, c)
		if !strings.HasSuffix(text, fmt.Sprintf("\nversion=%x", stat.Mzxid)) || !strings.Contains(text, s.want) ||
			s.leaving != "" && strings.Contains(text, "server."+s.leaving+"=") {
			t.Errorf("after joining %q, leaving %q the list is %s, zxid %#x", s.joining, s.leaving, text, stat.Mzxid)
		}
		if err := process.Until(ctx, fmt.Sprintf("the follower to serve: %t", s.serves), func() bool { return (follower.Mode() != "") == s.serves }); err != nil {
			t.Errorf("after joining %q, leaving %q: %v", s.joining, s.leaving, err)
		}
	}
	there, err := dialGo(ctx, seat{name: "there", hosts: []string{follower.Clients}}, sessionTimeout)
	if err != nil {
		t.Fatal(err)
	}
	defer there.Close()
	data, _, err := there.Get("/kept")
	_, mine, merr := there.Exists("/mine")
	if err := errors.Join(err, merr); err != nil || string(data) != "/kept" || mine.EphemeralOwner != c.sid || !follower.Process.IsRunning() {
		t.Errorf("the follower that was added again has %q and %+v, runs: %t, %v", data, mine, follower.Process.IsRunning(), err)
	}
	if err := c.undisturbed(); err != nil {
		t.Error(err)
	}
	fmt.Println("client scenario: go-reconfig ok")
}

// makeNodes makes a node with its own path as data, and an ephemeral.
func makeNodes(t *testing.T, c *goClient, node, ephemeral string) {
	t.Helper()
	_, err := c.Create(node, []byte(node), 0, world)
	_, eerr := c.Create(ephemeral, nil, zk.FlagEphemeral, world)
	if err := errors.Join(err, eerr); err != nil {
		t.Fatal(err)
	}
}

// again returns a server line with another id and other ports.
func again(line string, id int) string {
	return strings.NewReplacer("100", fmt.Sprint(id), "127.0.0.9", fmt.Sprintf("127.0.0.%d", id)).Replace(line)
}

// listOf returns the list of servers.
func listOf(t *testing.T, c *goClient) string {
	t.Helper()
	data, _, err := c.Get(configNode)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// zkCli.sh changes and shows the list.
func TestZkCLIReconfig(t *testing.T) {
	needs.Check(t, needs.Usual)
	needs.Check(t, needs.ZooKeeper)
	ctx, e := changeable(t)
	d, err := zkcli(seat{hosts: []string{e.Members[0].Clients}})
	if err != nil {
		t.Fatal(err)
	}
	defer d.stop()
	if _, err := d.expect(ctx, watched+"SyncConnected"); err != nil {
		t.Fatal(err)
	}
	if err := exchanges(ctx, d, []exchange{
		{"config", []string{"server.1=", "server.3=", "version="}},
		{"reconfig -add " + absent, []string{"Insufficient permission : "}},
		{"addauth digest super:secret", nil},
		{"reconfig -v 5 -add " + absent, []string{"version No is not valid : "}},
		{"reconfig -add " + absent, []string{"Committed new configuration:", absent}},
		{"config -c", []string{"127.0.0.9:13"}},
		{"config -w", []string{absent}},
		{"reconfig -remove 100", []string{"Committed new configuration:", watched + "SyncConnected type:NodeDataChanged path:" + configNode}},
	}); err != nil {
		t.Fatal(err)
	}
	if err := quit(ctx, d, 1); err != nil {
		t.Fatal(err)
	}
	fmt.Println("client scenario: zkcli-reconfig ok")
}

// Curator connects to the servers that the list has, once it has changed.
func TestCuratorTracksTheList(t *testing.T) {
	needs.Check(t, needs.Usual)
	t.Parallel()
	classPath := compileJava(t)
	ctx, e := changeable(t)
	runProgram(ctx, t, "curator-tracker", java(classPath, "CuratorTracker", e.Members[0].Clients, absent))
}

// kazoo knows one server at first. It watches the list, and keeps its session while all three servers are replaced.
func TestKazooFollowsTheList(t *testing.T) {
	needs.Check(t, needs.Usual)
	t.Parallel()
	needs.Check(t, needs.Kazoo)
	ctx, e := changeable(t)
	coming := newMembers(e)
	cmd := exec.Command(python, append([]string{"-B", "python/kazoo_cases.py", "follows", e.Members[0].Clients}, clientsOf(coming)...)...)
	follows(ctx, t, e, "kazoo-follows", cmd, coming)
}

// Curator knows one server at first. It follows the list by itself, and keeps its session while all three servers are
// replaced.
func TestCuratorFollowsTheList(t *testing.T) {
	needs.Check(t, needs.Usual)
	t.Parallel()
	classPath := compileJava(t)
	ctx, e := changeable(t)
	coming := newMembers(e)
	follows(ctx, t, e, "curator-follows", java(classPath, "CuratorFollows", append([]string{e.Members[0].Clients}, clientsOf(coming)...)...), coming)
}

// newMembers returns three members that will replace the present ones.
func newMembers(e *process.Ensemble) []*process.Member {
	return []*process.Member{e.NewMember(4), e.NewMember(5), e.NewMember(6)}
}

func clientsOf(members []*process.Member) (addrs []string) {
	for _, m := range members {
		addrs = append(addrs, m.Clients)
	}
	return addrs
}

// follows runs a client that follows the list. On its request, each member is replaced, first the one that the client is
// connected to.
func follows(ctx context.Context, t *testing.T, e *process.Ensemble, scenario string, cmd *exec.Cmd, coming []*process.Member) {
	t.Helper()
	leaving := slices.Clone(e.Members)
	var lines []string
	for _, m := range leaving {
		lines = append(lines, m.Line+";"+m.Clients)
	}
	if err := reconfigure(ctx, e.Members[1], lines, nil); err != nil { // the first list has no addresses for clients
		t.Fatal(err)
	}
	if err := obey(ctx, scenario, cmd, map[string]func() error{
		"replace all servers": func() error {
			for i, m := range coming {
				e.Add(m)
				if err := replace(ctx, e, leaving[i], m); err != nil {
					return err
				}
			}
			return nil
		},
		"ok": func() error { return nil },
	}); err != nil {
		t.Fatal(err)
	}
	fmt.Printf("client scenario: %s ok\n", scenario)
}

// replace puts a member that waits in the place of another one, and stops that one when it serves no client any more.
func replace(ctx context.Context, e *process.Ensemble, old, next *process.Member) error {
	stays := e.Members[1] // the members leave in their order
	if err := process.Until(ctx, "the list changes", func() bool {
		return reconfigure(ctx, stays, []string{next.Line + ";" + next.Clients}, []string{fmt.Sprint(old.ID)}) == nil
	}); err != nil {
		return err
	}
	if err := process.Until(ctx, "the old member serves nobody", func() bool {
		log, err := os.ReadFile(old.Log)
		return err == nil && strings.Contains(string(log), "this member was removed from the ensemble")
	}); err != nil {
		return err
	}
	e.Remove(old)
	return nil
}

// reconfigure changes the list, as super user, on one member.
func reconfigure(ctx context.Context, m *process.Member, joining, leaving []string) error {
	c, err := dialGo(ctx, seat{name: "operator", hosts: []string{m.Clients}}, sessionTimeout)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.AddAuth("digest", []byte("super:secret")); err != nil {
		return err
	}
	_, err = c.IncrementalReconfig(joining, leaving, -1)
	return err
}

// An observer serves clients: it forwards their writes, keeps their sessions while the leader changes, and counts in
// no majority.
func TestGoObserver(t *testing.T) {
	needs.Check(t, needs.Usual)
	e := process.StartEnsemble(t, process.Config{Binary: rollcall, Size: 4, Observers: 1, Tick: tick})
	ctx, cancel := context.WithTimeout(t.Context(), scenarioLimit)
	defer cancel()
	observer := e.Members[3]
	c, err := dialGo(ctx, seat{name: "test", hosts: []string{observer.Clients}}, sessionTimeout)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if list := listOf(t, c); strings.Count(list, ":participant") != 3 || strings.Count(list, ":observer") != 1 {
		t.Errorf("the list is %s", list)
	}
	if _, err := c.Create("/e", nil, zk.FlagEphemeral, world); err != nil {
		t.Fatal(err)
	}
	e.Settle().Process.Kill()
	if _, err := c.Create("/after", nil, 0, world); err != nil { // two of three voters are a majority
		t.Errorf("a write without the first leader: %v", err)
	}
	if err := errors.Join(c.holdsEphemeral("/e"), c.undisturbed()); err != nil {
		t.Error(err)
	}
	e.Settle().Process.Kill() // one voter of three and the observer are none
	if err := process.Until(ctx, "nobody leads", func() bool {
		return !slices.ContainsFunc(e.Members, func(m *process.Member) bool { return m.Process.IsRunning() && m.Mode() == "leader" })
	}); err != nil {
		t.Error(err)
	}
	fmt.Println("client scenario: go-observer ok")
}
