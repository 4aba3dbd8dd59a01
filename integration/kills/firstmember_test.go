package kills

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"rollcall/integration/cluster"
	"rollcall/integration/needs"
	"rollcall/lab/process"
	"rollcall/operator/api"
	"rollcall/zk/jute"
)

const (
	// loadSize bytes of log take longer to copy than an election takes to begin. The first half is written before the second member
	// is added, and the other half while that one catches up.
	loadSize = 128 << 20
	// loadNode bytes are in each write of them, to one of loadNodes nodes.
	loadNode, loadNodes = 64 << 10, 8
	// electionPause is the time that member 1 has for an election that it must not win, ten times as long as one takes.
	electionPause = 3 * time.Second
	// nodesKept is the number of nodes that two of three members acknowledge.
	nodesKept = 500
)

// A member begins alone, has a long log, and grows to three as docs/members.md says. Two of the three acknowledge nodes.
// Then the first one loses its disk and is started again, and while it copies the log, the leader is killed. The disks
// of the leader and of the third one are intact, so all nodes must be there afterwards. In one case the third one was
// paused while the nodes were written, and in the other one it is killed together with the leader. It copies long logs
// between processes; integration.TestJoiningSchedules does the same in virtual time in each run of CI.
func TestWipedFirstMember(t *testing.T) {
	needs.Check(t, needs.Nightly)
	binary, err := process.Build(t.TempDir()) // with the product's own constants
	if err != nil {
		t.Fatal(err)
	}
	for third, killed := range map[string]bool{"third was paused": false, "third is killed": true} {
		t.Run(third, func(t *testing.T) { loseFirstMember(t, binary, killed) })
	}
}

func loseFirstMember(t *testing.T, binary string, thirdKilled bool) {
	o := newOperator(t)
	r := &run{t: t, rng: rand.New(rand.NewPCG(1, 12))}
	r.Ensemble = process.StartEnsemble(t, process.Config{
		Binary: binary, Size: 1, Grows: true, Tick: tick, Lines: "snapCount=100000000\n" + o.lines(),
	})
	first, second, last := r.Members[0], r.NewMember(2), r.NewMember(3)
	r.coming = []*process.Member{second, last}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	c := r.client(ctx, 0)
	defer c.Abandon()
	if err := growLog(c, loadSize/2); err != nil {
		t.Fatal(err)
	}
	for _, m := range r.coming {
		r.Add(m)
		added := make(chan error, 1)
		go func() { added <- o.change(ctx, binary, r.Members[:1], "add", line(m)) }()
		if m == second {
			if err := catchesUp(ctx, o, first, second); err != nil {
				t.Fatal(err)
			}
			if err := growLog(c, loadSize/2); err != nil {
				t.Fatal(err)
			}
		}
		if err := <-added; err != nil {
			t.Fatal(err)
		}
		r.Reconfigure()
	}
	r.coming = nil
	if err := await(ctx, "all three vote", time.Now().Add(process.Patience), func() error { return o.checkWhole(ctx, r.Members) }); err != nil {
		t.Fatal(err)
	}
	if err := o.change(ctx, binary, r.Members[:1], "lead", "2"); err != nil {
		t.Fatal(err)
	}

	if !thirdKilled {
		if err := last.Process.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	nodes := make([]jute.CreateRequest, nodesKept)
	for i := range nodes {
		nodes[i] = jute.CreateRequest{Path: fmt.Appendf(nil, "/kept%d", i), ACL: jute.OpenACL}
	}
	if err := makeAll(c, nodes); err != nil {
		t.Fatal(err)
	}
	first.Process.Kill()
	if !thirdKilled {
		if err := last.Process.Continue(); err != nil {
			t.Fatal(err)
		}
	}
	r.Empty(first)
	r.Start(first)
	at := copying(ctx, first)
	killed := []*process.Member{second}
	if thirdKilled {
		killed = append(killed, last)
	}
	process.KillAll(killed)
	t.Logf("the leader was killed when member 1 had written %d MB of %d MB", at>>20, loadSize>>20)
	for _, m := range killed {
		time.Sleep(electionPause)
		r.Start(m)
	}
	began := time.Now()
	if err := await(ctx, "all three vote again", began.Add(process.Patience), func() error { return o.checkWhole(ctx, r.Members) }); err != nil {
		t.Error(err)
	}
	for _, m := range r.Members {
		found, err := walk(m)
		if err != nil {
			t.Errorf("member %d: %v", m.ID, err)
			if found, err = stored(m); err != nil {
				t.Errorf("member %d: %v", m.ID, err)
				continue
			}
		}
		missing := 0
		for _, n := range nodes {
			if _, there := found[string(n.Path)]; !there {
				missing++
			}
		}
		if missing > 0 {
			t.Errorf("%d of %d acknowledged nodes are missing on member %d", missing, nodesKept, m.ID)
		}
	}
}

// stored kills a member and returns the tree that its directory has, also from entries that may not be committed.
func stored(m *process.Member) (tree, error) {
	m.Process.Kill()
	i, err := openImage(m.Data)
	if err != nil {
		return nil, err
	}
	s, err := i.state(i.last)
	if err = errors.Join(err, i.log.Close()); err != nil {
		return nil, err
	}
	return treeOf(s), nil
}

// growLog writes a few nodes over and over, until the log has about size bytes more. The tree stays small. Writes may be lost.
func growLog(c *cluster.Client, size int) error {
	for i := range loadNodes {
		_, err := c.Create(fmt.Sprintf("/load%d", i), nil, 0)
		if err != nil && !errors.Is(err, jute.NodeExists) && !errors.Is(err, cluster.ErrLoss) {
			return err
		}
	}
	data := make([]byte, loadNode)
	var calls []*cluster.Call
	for i := range size / loadNode {
		calls = append(calls, c.Go(jute.OpSetData, &jute.SetDataRequest{Path: fmt.Appendf(nil, "/load%d", i%loadNodes), Data: data, Version: -1}))
	}
	for _, call := range calls {
		if _, err := call.Wait(); err != nil && !errors.Is(err, cluster.ErrLoss) {
			return fmt.Errorf("fill the log: %w", err)
		}
	}
	return nil
}

// catchesUp waits until a member copies the log, by the word of another one.
func catchesUp(ctx context.Context, o *operator, other, m *process.Member) error {
	return await(ctx, "a member catches up", time.Now().Add(process.Patience), func() error {
		list, err := getV1[api.Members](ctx, o, other, "members")
		for _, s := range list.Items {
			if s.MemberID == uint32(m.ID) && s.RaftAddress != "" {
				return nil
			}
		}
		return errors.Join(err, errors.New("it is not in raft's configuration"))
	})
}

// copying waits until a member's process has written three quarters of the log, and returns its bytes. It gives up
// after a while, because a member that finds no leader copies nothing.
func copying(ctx context.Context, m *process.Member) (bytes int64) {
	_ = await(ctx, "the member copies", time.Now().Add(5*time.Second), func() error {
		if bytes = written(m); bytes < loadSize/4*3 {
			return errors.New("too little was copied")
		}
		return nil
	})
	return bytes
}

// written returns the number of bytes that a member's process has written, or 0 if that is not known.
func written(m *process.Member) (bytes int64) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", m.Process.Cmd.Process.Pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if number, ok := strings.CutPrefix(line, "wchar: "); ok {
			bytes, _ = strconv.ParseInt(strings.TrimSpace(number), 10, 64) // the kernel writes a number
		}
	}
	return bytes
}
