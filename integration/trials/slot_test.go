package trials

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"rollcall/integration/wire"
	"rollcall/lab/process"
	"rollcall/zk/jute"
)

const (
	// tick makes elections begin after 250 ms. That is short, but longer than a process waits for the
	// CPU on a busy machine.
	tick = time.Second
	// patience is the time in which a member must serve or end. The disk that all trials share may hang for seconds.
	patience = time.Minute
	// answers is the time in which a connection must get a reply.
	answers = 10 * time.Second
	// snapshots is the least number of snapshots of a member, so that some trials damage one that it does not need.
	snapshots = 2
	// A single member has at least apartAlone entries between its snapshots. That is more than the log keeps
	// before a snapshot (process.BuildHurried), so the member needs its newest snapshot, however slow the disk is.
	// Of three members, the log may reach back to the older snapshot.
	apartAlone, apartOfThree = 64, 20
	// look is the interval at which it is polled.
	look = 10 * time.Millisecond
)

// slot is one single member and three members, all stopped, with the contents of their directories and
// the data that were acknowledged to clients. Its trials run one after another.
type slot struct {
	alone cast
	three cast
}

// cast is the members of a trial. The first one is damaged. Of three members, the second lacks the
// last writes and the third has everything. The first and the second together are a majority.
type cast struct {
	members []*process.Member
	images  []image
	others  []image           // for swapping files
	want    map[string]string // data by path
}

func newSlot(t *testing.T, rng *rand.Rand) *slot {
	t.Helper()
	return &slot{alone: castOfOne(t, rng), three: castOfThree(t, rng)}
}

// config returns the settings of members. The stall limit is as long as patience, because a disk
// that all trials share may hang for seconds. If members closed their clients' connections then,
// that would say nothing about the damage.
func config(size int) process.Config {
	apart := apartOfThree
	if size == 1 {
		apart = apartAlone
	}
	return process.Config{
		Binary: rollcall, Size: size, Tick: tick,
		Lines: fmt.Sprintf("snapCount=%d\nmaxClientCnxns=0\nstoreStallLimit=%d\n", apart, patience.Milliseconds()),
	}
}

// castOfOne makes a single member with snapshots, a log that continues after them, and full segments.
func castOfOne(t *testing.T, rng *rand.Rand) cast {
	t.Helper()
	other := process.StartEnsemble(t, config(1))
	createNodes(t, other.Members[0], rng, map[string]string{}, 150)
	e := process.StartEnsemble(t, config(1))
	c := cast{members: e.Members, want: map[string]string{}}
	m := e.Members[0]
	for n := range snapshots {
		createNodes(t, m, rng, c.want, 150)
		awaitSnapshots(t, m, n+1)
	}
	createNodes(t, m, rng, c.want, 60)
	e.KillAll()
	other.KillAll()
	c.images = []image{take(t, m.Data)}
	c.others = []image{take(t, other.Members[0].Data)}
	return c
}

func castOfThree(t *testing.T, rng *rand.Rand) cast {
	t.Helper()
	e := process.StartEnsemble(t, config(3))
	leader := e.Settle()
	c := cast{want: map[string]string{}}
	for n := range snapshots {
		createNodes(t, leader, rng, c.want, 150)
		for _, m := range e.Members {
			awaitSnapshots(t, m, n+1)
		}
	}
	createNodes(t, leader, rng, c.want, 30)
	behind, ahead := e.Members[leader.ID%3], e.Members[(leader.ID+1)%3]
	if rng.IntN(2) == 0 {
		behind, ahead = ahead, behind
	}
	behind.Process.Kill()
	createNodes(t, leader, rng, c.want, 60)
	e.KillAll()
	c.members = []*process.Member{ahead, behind, leader}
	if rng.IntN(2) == 0 {
		c.members = []*process.Member{leader, behind, ahead}
	}
	for _, m := range c.members {
		c.images = append(c.images, take(t, m.Data))
	}
	c.others = c.images[1:]
	return c
}

// node is a node that a trial creates.
type node struct {
	path, data string
	sent       bool // on a connection that has ended, so the node may be there
}

// createNodes makes nodes, all of which are acknowledged, and records them in want. If its connection is closed, it continues
// with the next one. Nothing limits the time for that, as long as some are acknowledged.
func createNodes(t *testing.T, m *process.Member, rng *rand.Rand, want map[string]string, nodes int) {
	t.Helper()
	left := make([]node, nodes)
	for i := range left {
		data := make([]byte, 50+rng.IntN(2000))
		for j := range data {
			data[j] = byte(rng.Uint32())
		}
		left[i] = node{path: fmt.Sprintf("/n%d", len(want)), data: string(data)}
		want[left[i].path] = left[i].data
	}
	for len(left) > 0 {
		var err error
		before := len(left)
		if !until(func() bool {
			left, err = createOnce(m, left)
			return !interrupted(err) || len(left) < before
		}) || err != nil && !interrupted(err) {
			t.Fatalf("create: %v", err)
		}
	}
}

// createOnce makes nodes on one connection, and returns those that were not acknowledged.
func createOnce(m *process.Member, nodes []node) ([]node, error) {
	conn, err := dial(m)
	if err != nil {
		return nodes, err
	}
	defer conn.Close()
	const window = 2 // so that they take many entries
	for asked, answered := 0, 0; answered < len(nodes); answered++ {
		for ; asked < min(len(nodes), answered+window); asked++ {
			n := nodes[asked]
			req := &jute.CreateRequest{Path: []byte(n.path), Data: []byte(n.data), ACL: jute.OpenACL}
			if err := conn.Send(1, jute.OpCreate, req); err != nil {
				return sent(nodes, answered, asked), err
			}
		}
		r, err := conn.Recv()
		if err != nil {
			return sent(nodes, answered, asked), err
		}
		if r.Err != jute.OK && (r.Err != jute.NodeExists || !nodes[answered].sent) {
			return nodes[answered:], fmt.Errorf("%s: %v", nodes[answered].path, r)
		}
	}
	return nil, nil
}

// sent records the nodes whose creates were sent, and returns the ones without a reply.
func sent(nodes []node, answered, asked int) []node {
	for i := range nodes[answered:asked] {
		nodes[answered+i].sent = true
	}
	return nodes[answered:]
}

// interrupted reports whether an error only ended a connection. A member closes its clients' connections while its disk
// hangs, as a disk under many trials may, and while there is no leader.
func interrupted(err error) bool {
	var network net.Error
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &network)
}

// dial opens a session at a member.
func dial(m *process.Member) (*wire.Conn, error) {
	raw, err := net.DialTimeout("tcp", m.Clients, answers)
	if err != nil {
		return nil, err
	}
	conn := wire.New(waiting{raw})
	if _, err := conn.Open(20 * tick); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// waiting is a connection on which each read and each write may take as long as answers. Their total time depends on the
// disk, and so is not limited.
type waiting struct{ net.Conn }

func (w waiting) Read(b []byte) (int, error) {
	if err := w.SetReadDeadline(time.Now().Add(answers)); err != nil {
		return 0, err
	}
	return w.Conn.Read(b)
}

func (w waiting) Write(b []byte) (int, error) {
	if err := w.SetWriteDeadline(time.Now().Add(answers)); err != nil {
		return 0, err
	}
	return w.Conn.Write(b)
}

// read compares the nodes that a member shows after a sync with the acknowledged ones. If its
// connection is closed, it begins anew.
func read(m *process.Member, want map[string]string) (err error) {
	until(func() bool {
		err = readOnce(m, want)
		return !interrupted(err)
	})
	return err
}

func readOnce(m *process.Member, want map[string]string) error {
	conn, err := dial(m)
	if err != nil {
		return err
	}
	defer conn.Close()
	r, _, err := conn.Call(1, jute.OpSync, &jute.SyncRequest{Path: []byte("/")})
	if err != nil || r.Err != jute.OK {
		return fmt.Errorf("sync: %v, %w", r, err)
	}
	r, _, err = conn.Call(2, jute.OpGetChildren2, &jute.GetChildrenRequest{Path: []byte("/")})
	var root jute.GetChildren2Response
	if err == nil {
		err = r.Into(&root)
	}
	if err != nil {
		return fmt.Errorf("children of the root: %w", err)
	}
	lost, other := 0, 0
	there := map[string]bool{}
	for _, c := range root.Children {
		there["/"+string(c)] = true
	}
	for path, data := range want {
		if !there[path] {
			lost++
			continue
		}
		r, _, err := conn.Call(3, jute.OpGetData, &jute.GetDataRequest{Path: []byte(path)})
		var got jute.GetDataResponse
		if err == nil && r.Err == jute.OK {
			err = r.Into(&got)
		}
		if err != nil || r.Err != jute.OK {
			return fmt.Errorf("read %s: %v, %w", path, r, err)
		}
		if string(got.Data) != data {
			other++
		}
	}
	if extra := len(there) - 1 - (len(want) - lost); lost+other+extra > 0 { // /zookeeper is one of them
		return fmt.Errorf("of %d acknowledged nodes %d are lost and %d have other data; %d were never acknowledged", len(want), lost, other, extra)
	}
	return nil
}

// awaitSnapshots waits until a member has n snapshots.
func awaitSnapshots(t *testing.T, m *process.Member, n int) {
	t.Helper()
	has := func() int {
		var all []string
		for _, pattern := range []string{filepath.Join("*", "*"), filepath.Join("*", "*", "*")} {
			found, _ := filepath.Glob(filepath.Join(m.Data, pattern, "state.bin")) // the pattern is valid
			all = append(all, found...)
		}
		return len(slices.DeleteFunc(all, func(path string) bool { return strings.Contains(path, ".tmp") }))
	}
	if err := process.Until(t.Context(), fmt.Sprintf("%d snapshots", n), func() bool { return has() >= n }); err != nil {
		t.Fatal(err)
	}
}

// run is a member's process in a trial.
type run struct {
	*process.Member
	proc *process.Process
	log  string
}

// start starts a member on the content of its directory, with flags for rollcall serve.
func start(t *testing.T, m *process.Member, flags ...string) *run {
	t.Helper()
	r := &run{Member: m, log: filepath.Join(t.TempDir(), "log")}
	log, err := os.Create(r.log)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(rollcall, slices.Concat([]string{"serve"}, flags, []string{m.Config})...)
	cmd.Stdout, cmd.Stderr = log, log
	if r.proc, err = process.Launch(fmt.Sprintf("member %d", m.ID), cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.proc.Kill()
		if t.Failed() {
			t.Logf("member %d printed:\n%s", m.ID, r.printed())
		}
	})
	return r
}

// printed returns the end of what the process has printed.
func (r *run) printed() string {
	text, err := os.ReadFile(r.log)
	if err != nil {
		return err.Error()
	}
	const most = 8 << 10
	return string(text[max(0, len(text)-most):])
}

// elections returns the number of elections that the member, which was started with -v, has lost.
func (r *run) elections(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile(r.log)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(text), "raft: pre-vote campaign failed")
}

// serves reports whether the member serves clients.
func (r *run) serves() bool { return r.proc.IsRunning() && r.Mode() != "" }

// settles waits until the member serves or has ended, and reports whether it serves.
func (r *run) settles(t *testing.T) (serves bool) {
	t.Helper()
	if !until(func() bool {
		serves = r.serves()
		return serves || !r.proc.IsRunning()
	}) {
		t.Fatalf("member %d neither serves nor ends", r.ID)
	}
	return serves
}

// until waits for a condition, and reports whether it became true in time.
func until(holds func() bool) bool {
	for begun := time.Now(); !holds(); time.Sleep(look) {
		if time.Since(begun) > patience {
			return false
		}
	}
	return true
}
