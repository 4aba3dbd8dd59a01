package hostile

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"rollcall/integration/needs"
	"rollcall/integration/wire"
	"rollcall/lab/process"
	"rollcall/zk/jute"
)

const (
	multiConns = 32     // attacking connections, all from one address
	multiOps   = 10_000 // in each multi: as many as a member accepts by default
	multiAhead = 8      // multis in flight on each connection
	multiFrom  = "127.66.66.67"
	// mostMultiRatio is larger than mostRatio, because no write can pass the multi that is running. If nothing else runs, others wait
	// for 7 to 9 times as long.
	mostMultiRatio = 15
)

// Thirty-two connections send the largest multis that a member accepts, as fast as it replies. Before writes were
// charged by their operations, that stopped all clients for 41 s.
func TestLargestMultis(t *testing.T) {
	needs.Check(t, needs.Nightly)
	e, o := startMembers(t, "", "")
	victim := e.Members[0]
	admin := o.sessions[0]
	admin.call(t, jute.OpCreate, jute.CreateRequest{Path: []byte("/multi"), Data: []byte{}, ACL: jute.OpenACL})
	ops := make([]jute.MultiOp, multiOps+1)
	for i := range ops {
		ops[i] = jute.MultiOp{Op: jute.OpSetData, SetData: jute.SetDataRequest{Path: []byte("/multi"), Version: -1}}
	}

	retry(t, func() verdict {
		calm := max(o.write(t, calmTime).p99(t, "while calm"), leastP99)
		beside := o.besideMultis(t, victim, raw(jute.AppendMulti(nil, ops[1:])))
		attack, longest := beside.p99(t, "beside multis"), beside.longest()
		t.Logf("ratio %.1f", float64(attack)/float64(calm))
		if attack <= mostMultiRatio*calm && longest <= mostWait {
			return verdict{}
		}
		return verdict{
			wrong: fmt.Sprintf("others wait %v at p99 and %v at most, %v at p99 while calm: want at most %d times as long, and %v", attack, longest, calm, mostMultiRatio, mostWait),
			final: attack > worstAttempt*mostMultiRatio*calm || longest > worstAttempt*mostWait,
		}
	})

	sock := dial(t, victim, multiFrom)
	if _, err := sock.Open(othersTimeout); err != nil {
		t.Fatal(err)
	}
	if err := sock.Send(1, jute.OpMulti, raw(jute.AppendMulti(nil, ops))); err != nil {
		t.Fatal(err)
	}
	if err := sock.Closed(process.Patience); err != nil {
		t.Errorf("a multi of %d operations: %v, want the connection closed", len(ops), err)
	}
}

// besideMultis lets the others write for attackTime during multis. It returns the duration of each write.
func (o *others) besideMultis(t *testing.T, victim *process.Member, multi raw) writes {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var attackers sync.WaitGroup
	var answered atomic.Int64
	for range multiConns {
		attackers.Go(func() { answered.Add(int64(sendMultis(ctx, victim, multi))) })
	}
	beside := o.write(t, attackTime)
	cancel()
	attackers.Wait()
	t.Logf("%d multis answered", answered.Load())
	if answered.Load() < multiConns/2 {
		t.Errorf("%d multis were answered, want the attack to get on", answered.Load())
	}
	return beside
}

// sendMultis opens a session and sends the same multi until ctx ends, multiAhead at a time. It returns the number of
// successful ones. It ends at the first multi that fails.
func sendMultis(ctx context.Context, m *process.Member, multi raw) (answered int) {
	sock, err := dialFrom(ctx, m, multiFrom)
	if err != nil {
		return 0
	}
	defer sock.Close()
	defer context.AfterFunc(ctx, func() { _ = sock.Close() })()
	c := wire.New(sock)
	if _, err := c.Open(othersTimeout); err != nil {
		return 0
	}
	for ahead := 0; ; {
		for ; ahead < multiAhead; ahead++ {
			if err := c.Send(1, jute.OpMulti, multi); err != nil {
				return answered
			}
		}
		if reply, err := c.Recv(); err != nil || reply.Err != jute.OK {
			return answered
		}
		answered++
		ahead--
	}
}
