package hostile

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"rollcall/integration/needs"
	"rollcall/integration/wire"
	"rollcall/lab/process"
	"rollcall/zk/jute"
)

const (
	stormSessions   = 3_000           // sessions that fall silent at once, on all members together
	stormEphemerals = 2               // nodes of each session
	stormTimeout    = 8 * time.Second // the sessions' timeout
	stormOpeners    = 16              // sessions opened at a time
	// mostStormRatio and freeStormTime limit how long other clients may wait at p99 in a storm.
	// They may wait mostStormRatio times as long as before the storm, or freeStormTime if that is
	// longer.
	mostStormRatio = 3
	freeStormTime  = 20 * time.Millisecond
	stormLook      = 5 * time.Millisecond // how often to count the nodes
)

// Thousands of sessions fall silent at once, and expire with their nodes while others write.
func TestStormOfExpiries(t *testing.T) {
	needs.Check(t, needs.Nightly)
	e, o := startMembers(t, "", "maxClientCnxns=0\n")
	directory := &other{Conn: dial(t, e.Members[0], ""), member: e.Members[0], path: []byte("/storm")}
	if _, err := directory.Open(process.Patience); err != nil {
		t.Fatal(err)
	}
	directory.call(t, jute.OpCreate, jute.CreateRequest{Path: directory.path, Data: []byte{}, ACL: jute.OpenACL})
	n := 0
	retry(t, func() verdict {
		n++
		fallSilent(t, e, n)
		before, during := o.inStorm(t, directory)
		calm, storm, longest := before.p99(t, "before the storm"), during.p99(t, "in the storm"), max(before.longest(), during.longest())
		limit := max(mostStormRatio*max(calm, leastP99), freeStormTime)
		if storm <= limit && longest <= mostWait {
			return verdict{}
		}
		return verdict{
			wrong: fmt.Sprintf("storm %d: others wait %v at p99, %v before it, and %v at most; want at most %v, and %v", n, storm, calm, longest, limit, mostWait),
			final: storm > worstAttempt*limit || longest > worstAttempt*mostWait,
		}
	})
}

// fallSilent opens the sessions of a storm, each with its nodes, and lets all of them send their
// last request.
func fallSilent(t *testing.T, e *process.Ensemble, n int) {
	t.Helper()
	conns := make([]*wire.Conn, stormSessions)
	var opening sync.WaitGroup
	for first := range stormOpeners {
		opening.Go(func() {
			heard := time.Now()
			for i := first; i < stormSessions; i += stormOpeners {
				c, err := openWithNodes(t.Context(), e.Members[i%len(e.Members)], fmt.Sprintf("/storm/%d-%d", n, i))
				if err != nil {
					t.Error(err)
					return
				}
				conns[i] = c
				if time.Since(heard) > stormTimeout/4 { // earlier sessions must live until all are open
					heard = time.Now()
					pingAll(t, conns[:i+1], first)
				}
			}
		})
	}
	opening.Wait()
	if t.Failed() {
		t.FailNow()
	}
	for first := range stormOpeners {
		pingAll(t, conns, first)
	}
	t.Cleanup(func() {
		for _, c := range conns {
			_ = c.Close()
		}
	})
}

// pingAll sends a ping on every stormOpeners-th connection, starting at one of them.
func pingAll(t *testing.T, conns []*wire.Conn, first int) {
	for i := first; i < len(conns); i += stormOpeners {
		if err := conns[i].Send(jute.XidPing, jute.OpPing, nil); err != nil {
			t.Error(err)
		}
	}
}

// openWithNodes opens a session and creates its ephemeral nodes.
func openWithNodes(ctx context.Context, m *process.Member, prefix string) (*wire.Conn, error) {
	sock, err := dialFrom(ctx, m, "")
	if err != nil {
		return nil, err
	}
	c := wire.New(sock)
	if _, err := c.Open(stormTimeout); err != nil {
		return nil, err
	}
	for j := range stormEphemerals {
		create := jute.CreateRequest{Path: fmt.Appendf(nil, "%s-%d", prefix, j), Data: []byte{}, ACL: jute.OpenACL, Flags: jute.Ephemeral}
		if err := c.Send(int32(j), jute.OpCreate, create); err != nil {
			return nil, err
		}
	}
	for made := 0; made < stormEphemerals; {
		switch r, err := c.Recv(); {
		case err != nil || r.Err != jute.OK:
			return nil, fmt.Errorf("create of %s: %v, %w", prefix, r, err)
		case r.Xid != jute.XidPing:
			made++
		}
	}
	return c, nil
}

// inStorm lets the others write until all nodes in the directory are gone. It returns the writes that
// were sent before the first node went, and those in flight from then on.
func (o *others) inStorm(t *testing.T, directory *other) (calm, storm writes) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var all writes
	var working sync.WaitGroup
	working.Go(func() { all = o.writeUntil(ctx, t) })
	var first, last time.Time
	for until := time.Now().Add(process.Patience); last.IsZero(); time.Sleep(stormLook) {
		at := time.Now()
		if at.After(until) {
			t.Fatal("the sessions do not expire")
		}
		var got jute.ExistsResponse
		if err := directory.call(t, jute.OpExists, jute.ExistsRequest{Path: directory.path}).Into(&got); err != nil {
			t.Fatal(err)
		}
		n := int(got.Stat.NumChildren)
		if n < stormSessions*stormEphemerals && first.IsZero() {
			first = at
		}
		if n == 0 {
			last = time.Now()
		}
	}
	cancel()
	working.Wait()
	t.Logf("the storm took %v", last.Sub(first))
	return all.before(first), all.since(first)
}
