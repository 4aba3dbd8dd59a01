package trials

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rollcall/integration/needs"
	"rollcall/lab/process"
)

// logsOf returns the log directory of a member, which is apart from its data.
func logsOf(m *process.Member) string { return m.Data + "-log" }

// putBackCast is three members, all stopped. Only the first and the last have the writes of the second day. images has
// the data and the log of each at the end, and old the same at the end of the first day.
type putBackCast struct {
	members     []*process.Member
	images, old [][2]image
	want        map[string]string // data by path
}

func images(t *testing.T, members []*process.Member) (all [][2]image) {
	t.Helper()
	for _, m := range members {
		all = append(all, [2]image{take(t, m.Data), take(t, logsOf(m))})
	}
	return all
}

// newPutBackCast makes an ensemble that writes on two days, with a snapshot on the second one or without.
func newPutBackCast(t *testing.T, snapshot bool) putBackCast {
	t.Helper()
	cfg, writes := config(3), 50
	cfg.Prepare = func(m *process.Member) {
		text, err := os.ReadFile(m.Config)
		if err == nil {
			err = os.WriteFile(m.Config, fmt.Appendf(text, "dataLogDir=%s\n", logsOf(m)), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if !snapshot {
		cfg.Lines = strings.ReplaceAll(cfg.Lines, fmt.Sprintf("snapCount=%d", apartOfThree), "snapCount=1000000")
	}
	e := process.StartEnsemble(t, cfg)
	rng, c := rand.New(rand.NewPCG(1, 5)), putBackCast{want: map[string]string{}}
	createNodes(t, e.Settle(), rng, c.want, 20)
	e.StopAll()
	old := images(t, e.Members)
	for _, m := range e.Members {
		e.Start(m)
	}
	leader := e.Settle()
	behind, put := e.Members[leader.ID%3], e.Members[(leader.ID+1)%3]
	behind.Process.Kill()
	createNodes(t, leader, rng, c.want, writes)
	if snapshot {
		awaitSnapshots(t, put, 1)
	}
	e.KillAll()
	c.members = []*process.Member{put, behind, leader}
	c.images = images(t, c.members)
	for _, m := range c.members {
		c.old = append(c.old, old[m.ID-1])
	}
	return c
}

// putBacks are the logs of another day that a member may get.
var putBacks = []struct {
	name string
	do   func(c putBackCast) image // returns the log directory of the first member
}{
	{"its log of an earlier stop", func(c putBackCast) image { return c.images[0][1].withLog(c.old[0][1]) }},
	{"its log directory of an earlier stop", func(c putBackCast) image { return c.old[0][1] }},
	{"the log of another member that lags", func(c putBackCast) image { return c.images[0][1].withLog(c.images[1][1]) }},
}

// withLog returns an image with the segments and the mark of another one.
func (i image) withLog(other image) image {
	isLog := func(name string, _ file) bool { return filepath.Base(filepath.Dir(name)) == "log" }
	both := i.clone()
	maps.DeleteFunc(both, isLog)
	for name, f := range other {
		if isLog(name, f) {
			both[name] = f
		}
	}
	return both
}

// A member whose log is from another day does not start, and prints the reason. Without the former leader no member
// serves: one member has lost its log, and the other one lacks the last writes. With it every acknowledged write is
// there.
func TestLogIsPutBack(t *testing.T) {
	needs.Check(t, needs.Usual)
	for _, snapshot := range []bool{false, true} {
		t.Run(fmt.Sprintf("snapshot=%t", snapshot), func(t *testing.T) {
			t.Parallel()
			c := newPutBackCast(t, snapshot)
			for _, p := range putBacks {
				t.Run(p.name, func(t *testing.T) { c.play(t, p.do(c)) })
			}
		})
	}
}

// play starts the first two members, and then the third one. The first one has this log directory.
func (c putBackCast) play(t *testing.T, log image) {
	for i, m := range c.members {
		c.images[i][0].put(t, m.Data)
		c.images[i][1].put(t, logsOf(m))
	}
	log.put(t, logsOf(c.members[0]))
	put, behind := start(t, c.members[0]), start(t, c.members[1], "-v")
	if put.settles(t) {
		t.Fatalf("it serves with a log of another day: %v", read(put.Member, c.want))
	}
	path, err := filepath.Rel(put.Data, filepath.Join(logsOf(put.Member), "rollcall"))
	if err != nil {
		t.Fatal(err)
	}
	checkRejection(t, put, harm{path: path}, othersWay)
	checkWaits(t, behind)
	leader := start(t, c.members[2])
	for _, m := range []*run{behind, leader} {
		if !until(m.serves) {
			t.Fatalf("member %d does not serve", m.ID)
		}
		if err := read(m.Member, c.want); err != nil {
			t.Errorf("member %d: %v", m.ID, err)
		}
	}
	behind.proc.Kill()
	leader.proc.Kill()
}
