package deploy

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"golang.org/x/sync/errgroup"

	"rollcall/integration/needs"
)

// The ensemble that `make up` starts survives four faults: the death of its leader, the loss of the
// next leader's network, the loss of a follower's network, and a restart of all members. Sessions
// that were opened before the first fault live through the others. Before the restart, `rollcall drill`
// drills it with the hooks for containers.
func TestEnsemble(t *testing.T) {
	needs.Check(t, needs.Nightly, needs.Containers)
	s := newStack(t)
	s.up(t, "make", "up")
	s.checkSettings(t)
	s.checkSecret(t)
	s.checkVersion(t)
	t.Logf("image of %s bytes", s.docker(t, "image", "inspect", "--format", "{{.Size}}", s.project))

	write(t, s, "/kept", "/sessions")
	faults := &faults{stack: s}
	faults.play(t, "killed", s.leader(t), kill)
	faults.play(t, "cut", s.leader(t), cut)
	faults.play(t, "follower-cut", s.follower(t), cut)
	s.rotateSecret(t)
	for _, c := range faults.clients {
		c.Close()
	}
	t.Run("drill", s.drill)

	if _, _, err := s.run(t.Context(), patience, "make", "down"); err != nil {
		t.Fatal(err)
	}
	s.up(t, "deploy/ensemble.sh", "up") // the same image, although the tree may have changed meanwhile
	read(t, s, "/kept")
	read(t, s, "/rotated")

	if _, _, err := s.run(t.Context(), patience, "make", "down", "VOLUMES=1"); err != nil {
		t.Fatal(err)
	}
	if left := s.remaining(t, "ps", "--all") + s.remaining(t, "volume", "ls") + s.remaining(t, "network", "ls"); left != "" {
		t.Errorf("make down VOLUMES=1 left %q", left)
	}
}

// checkVersion checks that the image and a member report the commit that they are built from, or outside of a git checkout that it is unknown.
func (s *stack) checkVersion(t *testing.T) {
	t.Helper()
	stdout, _, err := s.run(t.Context(), patience, "git", "-c", "safe.directory=*", "log", "-1", "--format=%H %ct")
	if err != nil {
		if got := s.docker(t, "run", "--rm", s.project, "version"); !strings.Contains(got, "built without git") {
			t.Errorf("version prints %q, and git says: %v", got, err)
		}
		return
	}
	var id string
	var date int64
	if _, err := fmt.Sscan(stdout, &id, &date); err != nil {
		t.Fatal(err)
	}
	at := time.Unix(date, 0).UTC()
	if got := s.docker(t, "run", "--rm", s.project, "version"); !strings.Contains(got, id+" of "+at.Format(time.RFC3339)) {
		t.Errorf("version prints %q, want commit %s of %v", got, id, at)
	}
	labels := s.docker(t, "image", "inspect", "--format", "{{json .Config.Labels}}", s.project)
	for _, want := range []string{`opencontainers.image.revision":"` + id, `opencontainers.image.created":"` + at.Format("2006-01-02"), `opencontainers.image.version":"0.`, `opencontainers.image.licenses":"Apache-2.0"`} {
		if !strings.Contains(labels, want) {
			t.Errorf("the image's labels are %s, want %s", labels, want)
		}
	}
	stats, ok := zk.FLWSrvr([]string{s.members[0].addr}, patience)
	if !ok || !strings.Contains(stats[0].Version, "-"+id[:12]) || !stats[0].BuildTime.Equal(at.Truncate(time.Minute)) {
		t.Errorf("srvr says version %s of %v (%t), want commit %s of %v", stats[0].Version, stats[0].BuildTime, ok, id, at)
	}
}

// checkSettings checks settings in compose.yaml that clients cannot see.
func (s *stack) checkSettings(t *testing.T) {
	t.Helper()
	asking, other := s.members[0].inspect(t), s.members[1].inspect(t)
	if !other.HostConfig.ReadonlyRootfs || other.Config.User != "1000:1000" {
		t.Errorf("user %q, read-only root %t, want 1000:1000, true", other.Config.User, other.HostConfig.ReadonlyRootfs)
	}
	for _, m := range s.members {
		want := []mount{{Name: s.project + "_" + m.service, Destination: "/data"}, {Name: s.project + "_secret", Destination: "/secret"}}
		got := m.inspect(t).Mounts
		slices.SortFunc(got, func(a, b mount) int { return strings.Compare(a.Destination, b.Destination) })
		if !slices.Equal(got, want) {
			t.Errorf("%s keeps its data in %v, want %v", m.service, got, want)
		}
	}
	if len(other.HostConfig.PortBindings) != 1 {
		t.Errorf("published: %v, want the client port alone", other.HostConfig.PortBindings)
	}
	for port, bindings := range other.HostConfig.PortBindings {
		for _, b := range bindings {
			if b.HostIP != "127.0.0.1" {
				t.Errorf("%s is published on %q, want 127.0.0.1", port, b.HostIP)
			}
		}
	}
	// health stands in for a stranger here, because the image has no other program that could
	// connect.
	dial := func(network string, port int) string {
		addr := fmt.Sprintf("%s:%d", other.NetworkSettings.Networks[s.network(network)].IPAddress, port)
		_, _, err := s.run(t.Context(), patience, "docker", "exec", asking.ID, "/rollcall", "health", "-addr", addr)
		return fmt.Sprint(err)
	}
	const refused = "connection refused"
	for _, port := range []int{2888, 3888} {
		if got := dial("clients", port); !strings.Contains(got, refused) {
			t.Errorf("port %d on the clients' network: %s, want %s", port, got, refused)
		}
		if got := dial("members", port); !strings.Contains(got, "no answer") && !strings.Contains(got, "closed") && !strings.Contains(got, "reset by peer") {
			t.Errorf("port %d on the members' network: %s, want somebody who hangs up", port, got)
		}
	}
}

// checkSecret checks that members have proved the secret to each other: none says that it has not.
func (s *stack) checkSecret(t *testing.T) {
	t.Helper()
	for _, m := range s.members {
		stdout, stderr, err := s.run(t.Context(), patience, "docker", "logs", m.inspect(t).ID)
		if log := stdout + stderr; err != nil || !strings.Contains(log, "member starts") || strings.Contains(log, "not authenticated") || strings.Contains(log, "open to others") {
			t.Errorf("%s: %v, logged\n%s", m.service, err, log)
		}
	}
}

// rotateSecret runs the commands of docs/security.md that change the secret of the ensemble of compose.yaml. It
// does not wait until the members look at the file, but sends them SIGHUP.
func (s *stack) rotateSecret(t *testing.T) {
	t.Helper()
	var ids []string
	for _, m := range s.members {
		ids = append(ids, m.inspect(t).ID)
	}
	all := strings.Join(ids, " ")
	reads := func(secrets string) string {
		return "docker kill --signal HUP " + all + "; for m in " + all + "; do until docker logs $m 2>&1 | grep -q " + secrets + "; do sleep 0.1; done; done\n"
	}
	block := blocksOf(text(t, "../../docs/security.md"))["Rotate the secret"][4]
	before, after, _ := strings.Cut(block, "sleep 15 ")
	_, after, found := strings.Cut(after, "\n")
	if !found || !strings.HasPrefix(before, "umask 077\n") {
		t.Fatalf("the block for compose.yaml in docs/security.md is not as this test knows it:\n%s", block)
	}
	commands := strings.NewReplacer("rollcall_secret", s.project+"_secret", " rollcall)", " "+s.project+")").Replace(before + reads("secrets=2") + after)
	if stdout, stderr, err := s.run(t.Context(), patience, "bash", "-euo", "pipefail", "-c", "cd $(mktemp -d)\n"+commands+reads("secrets=1")); err != nil {
		t.Fatalf("%v:\n%s%s", err, stdout, stderr)
	}
	write(t, s, "/rotated")
}

// faults plays faults on one ensemble, one after another, with more clients each time.
type faults struct {
	*stack
	clients []*client
}

// play puts another client on each member, and fault takes the victim away. Clients of the other
// members must notice nothing, and those of the victim must keep their session elsewhere. back
// undoes the fault.
func (f *faults) play(t *testing.T, name string, victim *member, fault func(t *testing.T, victim *member) (back func())) {
	t.Helper()
	for _, m := range f.members {
		f.clients = append(f.clients, connect(t, f.addresses(m), "/sessions/"+name+"-"+m.service))
	}
	seen, moves := make([]int, len(f.clients)), make([]bool, len(f.clients))
	for i, c := range f.clients {
		states, _ := c.seen()
		seen[i], moves[i] = len(states), c.Server() == victim.addr
	}

	back := fault(t, victim)
	began := time.Now()
	g, ctx := errgroup.WithContext(t.Context())
	for i, c := range f.clients {
		g.Go(func() error {
			err := c.goOn(ctx, name, seen[i], moves[i])
			t.Logf("%s: %s goes on after %.1f s, moved: %t", name, c.node, time.Since(began).Seconds(), moves[i])
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatalf("%s: %v", name, err)
	}

	back()
	f.leader(t)
	for i, c := range f.clients {
		if err := c.same(seen[i], moves[i]); err != nil {
			t.Errorf("%s, and back: %v", name, err)
		}
	}
	// What the clients hold exists on the member that came back. That member may need a moment to
	// reach the leader; a client that knows no other member waits for that.
	connect(t, []string{victim.addr}, "/sessions/"+name+"-first").Close()
	c := connect(t, f.addresses(victim), "/sessions/"+name+"-back")
	f.clients = append(f.clients, c)
	if _, err := c.Sync("/"); err != nil {
		t.Fatal(err)
	}
	for _, other := range f.clients {
		if exists, stat, err := c.Exists(other.node); err != nil || !exists || stat.EphemeralOwner != other.sid {
			t.Errorf("%s on %s, which was %s: exists %t, %+v, %v", other.node, victim.service, name, exists, stat, err)
		}
	}
}

// kill kills a member's process. It is started again on its data.
func kill(t *testing.T, victim *member) (back func()) {
	s, id := victim.stack, victim.inspect(t).ID
	s.docker(t, "kill", id)
	return func() {
		s.docker(t, "start", id)
		victim.waitHealth(t, "healthy")
	}
}

// cut disconnects a member from the members' network. The member goes on running, and clients still
// reach it. Docker's health check must notice, and the others must stay healthy.
func cut(t *testing.T, victim *member) (back func()) {
	s, before := victim.stack, victim.inspect(t)
	network := s.network("members")
	s.docker(t, "network", "disconnect", network, before.ID)
	return func() {
		victim.waitHealth(t, "unhealthy")
		for _, m := range s.members {
			if health := m.inspect(t).State.Health.Status; m != victim && health != "healthy" {
				t.Errorf("%s is %s while only %s is cut off", m.service, health, victim.service)
			}
		}
		s.docker(t, "network", "connect", "--ip", before.NetworkSettings.Networks[network].IPAddress, network, before.ID)
		victim.waitHealth(t, "healthy")
	}
}

// write creates persistent nodes.
func write(t *testing.T, s *stack, paths ...string) {
	t.Helper()
	c := connect(t, s.addresses(s.members[0]), "/writer")
	defer c.Close()
	for _, path := range paths {
		if _, err := c.Create(path, []byte(path), 0, zk.WorldACL(zk.PermAll)); err != nil {
			t.Fatalf("create %s: %v", path, err)
		}
	}
}

// read checks on every member that a node of write exists.
func read(t *testing.T, s *stack, path string) {
	t.Helper()
	for _, m := range s.members {
		c := connect(t, s.addresses(m), "/reader-"+m.service)
		if data, _, err := c.Get(path); err != nil || string(data) != path {
			t.Errorf("%s on %s: %q, %v, want what was written", path, m.service, data, err)
		}
		c.Close()
	}
}
