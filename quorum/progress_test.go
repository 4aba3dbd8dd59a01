package quorum

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"rollcall/quorum/wire"
)

// Members that do not reply are named with the reason, as short as an operator needs it, and together if it is one.
func TestDescribeSilent(t *testing.T) {
	refused := errors.New(`rpc error: code = Unavailable desc = connection error: desc = "transport: Error while dialing: dial tcp 127.0.0.1:2888: connect: connection refused"`)
	for _, tt := range []struct {
		silent   []uint32
		failures map[uint32]error
		want     string
	}{
		{[]uint32{3, 2}, map[uint32]error{2: refused, 3: refused}, "members 2 and 3: connection refused"},
		{[]uint32{4, 2, 3}, map[uint32]error{2: refused, 3: refused, 4: refused}, "members 2, 3 and 4: connection refused"},
		{[]uint32{2}, map[uint32]error{2: errors.New("dial tcp: lookup zoo2: no such host")}, "member 2: no such host"},
		{[]uint32{2}, map[uint32]error{2: errors.New("quorum: connect to member 2 at 10.0.0.2:2888: dial tcp 10.0.0.2:2888: i/o timeout")}, "member 2: i/o timeout"},
		{[]uint32{2}, map[uint32]error{2: errors.New("quorum: connect to member 2 at 10.0.0.2:2888: it is member 4: wrong line")}, "member 2: it is member 4: wrong line"},
		{[]uint32{2, 3}, map[uint32]error{2: refused, 3: context.DeadlineExceeded}, "member 2: connection refused; member 3: no reply within 2s"},
		{[]uint32{2, 3}, map[uint32]error{2: wire.ErrOtherEnsemble}, "member 2: " + wire.ErrOtherEnsemble.Error() + "; member 3: no Hello was sent to it yet"},
	} {
		if got := describeSilent(tt.silent, tt.failures); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}

func TestMebibytes(t *testing.T) {
	for n, want := range map[int64]string{0: "0 MiB", 1: "1 MiB", 1 << 20: "1 MiB", 1<<20 + 1: "2 MiB", 900 << 20: "900 MiB"} {
		if got := mebibytes(n); got != want {
			t.Errorf("%d bytes: %s, want %s", n, got, want)
		}
	}
}

// slowMachine takes a time for each entry.
type slowMachine struct{ StateMachine }

func (s slowMachine) Apply(batch []CommittedEntry) error {
	time.Sleep(time.Duration(len(batch)) * 10 * time.Millisecond)
	return s.StateMachine.Apply(batch)
}

// A member that restarts with a long log reports how much of it is applied. It reports no progress once it takes part.
func TestProgressOfAStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 3)
		e.begin()
		lead := e.leader(1, 2, 3)
		late := others(lead)[0]
		for i := range 300 {
			e.propose(fmt.Sprint(i), lead)
		}
		e.wait("all to have the log", func() bool { return e.members[late].node.status.LastIndex() == e.members[lead].node.status.LastIndex() })
		e.stop(late)
		e.members[late].adjust = func(c *Config) { c.StateMachine = slowMachine{c.StateMachine} }
		e.start(late)
		begun, last, seen := time.Now(), -1, map[int]bool{}
		for e.members[late].node.Progress() != "" || e.members[late].node.status.LeaderID() == 0 {
			var percent int
			if _, err := fmt.Sscanf(e.members[late].node.Progress(), "applies its log, %d %%", &percent); err == nil {
				if percent < last || percent > 100 {
					t.Errorf("%d %% after %d %%", percent, last)
				}
				last, seen[percent] = percent, true
			}
			if time.Since(begun) > time.Minute {
				t.Fatalf("still %q", e.members[late].node.Progress())
			}
			time.Sleep(50 * time.Millisecond)
		}
		if took := time.Since(begun); took < 3*time.Second || len(seen) < 3 || last < 50 {
			t.Errorf("applied in %v, told %v", took, seen)
		}
	})
}

// slowlyReadLog takes a time for each entry that is read.
type slowlyReadLog struct{ raft.LogStore }

func (s slowlyReadLog) GetLog(index uint64, l *raft.Log) error {
	time.Sleep(10 * time.Millisecond)
	return s.LogStore.GetLog(index, l)
}

// slowlyReadSnapshots take a time for each twentieth of a snapshot.
type slowlyReadSnapshots struct{ raft.SnapshotStore }

func (s slowlyReadSnapshots) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	meta, r, err := s.SnapshotStore.Open(id)
	if err != nil {
		return nil, nil, err
	}
	return meta, slowlyRead{r, int(meta.Size)/20 + 1}, nil
}

type slowlyRead struct {
	io.ReadCloser
	most int // bytes at a time
}

func (r slowlyRead) Read(p []byte) (int, error) {
	time.Sleep(100 * time.Millisecond)
	return r.ReadCloser.Read(p[:min(len(p), r.most)])
}

// Before raft runs, a member reports how much of its snapshot it has read, and then how much of its log.
func TestProgressOfReading(t *testing.T) {
	t.Parallel()
	for _, withSnapshot := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			e := newEnsemble(t, 3)
			e.begin()
			lead := e.leader(1, 2, 3)
			late := others(lead)[0]
			propose := func() {
				for i := range 200 {
					e.propose(fmt.Sprint(i), lead)
				}
				e.wait("all to have applied the log", func() bool {
					return e.members[late].node.status.AppliedIndex() == e.members[lead].node.status.AppliedIndex()
				})
			}
			propose()
			if withSnapshot {
				if _, err := e.members[late].node.Snapshots().TakeSnapshot(t.Context(), 0); err != nil {
					t.Fatal(err)
				}
				propose()
			}
			e.stop(late)
			e.members[late].adjust = func(c *Config) {
				c.Stores.Log, c.Stores.Snapshots = slowlyReadLog{c.Stores.Log}, slowlyReadSnapshots{c.Stores.Snapshots}
			}
			e.start(late)
			node, begun := e.members[late].node, time.Now()
			last, shares := "", map[string][]int{}
			for ; node.status.raft.Load() == nil; time.Sleep(20 * time.Millisecond) {
				var what string
				var percent int
				text := node.Progress()
				if text == "reads its data" && last == "" {
					continue
				}
				if _, err := fmt.Sscanf(text, "reads its %s %d %%", &what, &percent); err != nil {
					t.Errorf("%q: %v", text, err)
				}
				if n := len(shares[what]); percent < 0 || percent > 100 || n > 0 && percent < shares[what][n-1] || last == "log," && what != last {
					t.Errorf("%q after %v of %q", text, shares[last], last)
				}
				if len(shares[what]) == 0 || shares[what][len(shares[what])-1] != percent {
					last, shares[what] = what, append(shares[what], percent)
				}
				if time.Since(begun) > time.Minute {
					t.Fatalf("still %q", text)
				}
			}
			if len(shares["log,"]) < 50 || (len(shares["snapshot,"]) >= 15) != withSnapshot {
				t.Errorf("with a snapshot: %t; it told %v", withSnapshot, shares)
			}
			e.wait("the member to take part", func() bool { return node.Progress() == "" && node.status.hasCaughtUp() })
		})
	}
}

// A member applies its own log before it copies the leader's, from the end of its snapshot on. It never knows fewer entries to be
// committed than it has applied.
func TestProgressOfLog(t *testing.T) {
	for _, tt := range []struct {
		applied, committed, first, last uint64
		caughtUp                        bool
		want                            string
	}{
		{150, 300, 100, 200, false, "applies its log, 50 %"},
		{0, 300, 100, 200, false, "applies its log, 0 %"},
		{198, 300, 100, 200, true, "applies its log, 98 %"},
		{110, 120, 100, 200, false, "applies its log, 50 %"},
		{199, 300, 100, 200, false, "copies the leader's log, applied up to entry 199 of 300 that it knows to be committed"},
		{199, 300, 100, 200, true, ""},
		{0, 0, 100, 200, false, "copies the leader's log, applied up to entry 100 of 100 that it knows to be committed"},
	} {
		if got := describeLog(tt.applied, tt.committed, tt.first, tt.last, tt.caughtUp); got != tt.want {
			t.Errorf("%+v: %q", tt, got)
		}
	}
}
