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
	floodConns = 19 // attacking connections, all from one address
	floodAhead = 8  // large writes in flight on each connection
	floodFrom  = "127.66.66.68"
	floodTime  = 3 * time.Second
	// floodPart is the fraction of a large write's median wait that others may wait at p99. A large
	// write waits for the 151 others in flight. A small one waits only for those that have been
	// sent, which fill two entries, and for a few more on its way through the log. That is fewer
	// than a tenth of them.
	floodPart = 10
)

// Nineteen connections write 1 MB each, as fast as they are answered. Before writes were charged by
// their bytes, others waited 6.3 s at p99.
func TestFloodOfLargeWrites(t *testing.T) {
	needs.Check(t, needs.Nightly)
	e, o := startMembers(t, "", "")
	for i := range floodConns {
		o.sessions[0].call(t, jute.OpCreate, jute.CreateRequest{Path: floodPath(i), Data: []byte{}, ACL: jute.OpenACL})
	}
	retry(t, func() verdict {
		large, small := o.inFlood(t, e.Members[0])
		large.p99(t, "that attack")
		p99, limit, longest := small.p99(t, "in the flood"), large.median()/floodPart, small.longest()
		if least := 2 * floodConns; len(large) < least {
			return verdict{wrong: fmt.Sprintf("%d large writes were answered, want at least %d", len(large), least)}
		}
		if p99 <= limit && longest <= mostWait {
			return verdict{}
		}
		return verdict{
			wrong: fmt.Sprintf("others wait %v at p99, and %v at most; want at most %v, a part of what large writes wait, and %v", p99, longest, limit, mostWait),
			final: p99 > worstAttempt*limit || longest > worstAttempt*mostWait,
		}
	})
}

// inFlood lets the others write for floodTime during large writes. It returns the durations of both kinds.
func (o *others) inFlood(t *testing.T, victim *process.Member) (large, small writes) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var (
		mu      sync.Mutex
		flowing sync.WaitGroup // until each connection has been answered once
		working sync.WaitGroup
	)
	flowing.Add(floodConns)
	for i := range floodConns {
		working.Go(func() {
			mine, err := sendLarge(ctx, victim, i, sync.OnceFunc(flowing.Done))
			if err != nil && ctx.Err() == nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			large = append(large, mine...)
		})
	}
	flowing.Wait()
	flooded := time.Now()
	small = o.write(t, floodTime)
	cancel()
	working.Wait()
	return large.since(flooded), small
}

func floodPath(i int) []byte { return fmt.Appendf(nil, "/flood%d", i) }

// sendLarge opens a session and writes bigSize bytes until ctx ends, floodAhead writes at a time. It calls answered
// after each reply and when it ends. It returns the wait of each write.
func sendLarge(ctx context.Context, m *process.Member, i int, answered func()) (all writes, err error) {
	defer answered()
	sock, err := dialFrom(ctx, m, floodFrom)
	if err != nil {
		return nil, err
	}
	defer sock.Close()
	defer context.AfterFunc(ctx, func() { _ = sock.Close() })()
	c := wire.New(sock)
	if _, err := c.Open(othersTimeout); err != nil {
		return nil, err
	}
	write := jute.SetDataRequest{Path: floodPath(i), Version: -1, Data: make([]byte, bigSize)}
	var sent []time.Time // of those in flight
	for {
		for len(sent) < floodAhead {
			sent = append(sent, time.Now())
			if err := c.Send(1, jute.OpSetData, write); err != nil {
				return all, err
			}
		}
		reply, err := c.Recv()
		if err == nil && reply.Err != jute.OK {
			err = reply.Err
		}
		if err != nil {
			return all, fmt.Errorf("large write %d: %w", i, err)
		}
		all = append(all, written{sent[0], time.Since(sent[0])})
		sent = sent[1:]
		answered()
	}
}
