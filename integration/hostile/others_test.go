package hostile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"rollcall/integration/wire"
	"rollcall/lab/process"
	"rollcall/zk/jute"
)

const (
	tick          = time.Second           // of the members
	othersEach    = 4                     // other clients' sessions on each member
	othersEvery   = 20 * time.Millisecond // how often each of them writes its node and reads it
	othersTimeout = 20 * time.Second      // of their sessions, which are silent while an attack is prepared; the longest that members grant
	othersSize    = 100                   // bytes of their nodes
	// calmTime is the time in which others are measured before an attack and again after it. Both are needed, because
	// the machine may be slower at one time than at another. attackTime is the time in which they are measured during
	// it.
	calmTime   = 3 * time.Second
	attackTime = 5 * time.Second
	// mostRatio bounds the wait of others at p99 during an attack, as a multiple of their wait in a quiet ensemble.
	mostRatio = 10
	// leastP99 replaces a smaller p99: a single request that waited for a garbage collection or a
	// slow write to the disk is no attack.
	leastP99 = 2 * time.Millisecond
)

// others are the well-behaved clients: a few sessions on each member. All of them must be served
// for as long as the test lasts.
type others struct {
	sessions []*other
}

// other is one of the others. It has a node of its own.
type other struct {
	*wire.Conn
	member *process.Member
	path   []byte
	xid    int32
}

// startMembers starts three members as processes, and the other clients. memory is the limit of
// their memory, for example "250MiB", or "" for none. lines are more lines of zoo.cfg.
func startMembers(t *testing.T, memory, lines string) (*process.Ensemble, *others) {
	t.Helper()
	cfg := process.Config{Binary: rollcall, Size: 3, Tick: tick, Lines: lines}
	if memory != "" {
		cfg.Env = []string{"GOMEMLIMIT=" + memory}
	}
	e := process.StartEnsemble(t, cfg)
	o := &others{}
	for _, m := range e.Members {
		for range othersEach {
			o.sessions = append(o.sessions, openOther(t, m, len(o.sessions)))
		}
	}
	return e, o
}

func openOther(t *testing.T, m *process.Member, i int) *other {
	t.Helper()
	c := &other{Conn: dial(t, m, ""), member: m, path: fmt.Appendf(nil, "/other%d", i)}
	if _, err := c.Open(othersTimeout); err != nil {
		t.Fatal(err)
	}
	c.call(t, jute.OpCreate, jute.CreateRequest{Path: c.path, Data: make([]byte, othersSize), ACL: jute.OpenACL})
	return c
}

// comeBack opens a new session for each of the others, after all members have started again. Each writes its node.
func (o *others) comeBack(t *testing.T) {
	t.Helper()
	for _, c := range o.sessions {
		c.Conn = dial(t, c.member, "")
		if _, err := c.Open(othersTimeout); err != nil {
			t.Fatal(err)
		}
		c.call(t, jute.OpSetData, jute.SetDataRequest{Path: c.path, Data: []byte("x"), Version: -1})
	}
}

// dial connects to a member's port for clients, from an address of this machine if from is not "".
// Call it only from the test's own goroutine.
func dial(t *testing.T, m *process.Member, from string) *wire.Conn {
	t.Helper()
	sock, err := dialFrom(t.Context(), m, from)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sock.Close() })
	return wire.New(sock)
}

func dialFrom(ctx context.Context, m *process.Member, from string) (net.Conn, error) {
	d := net.Dialer{Timeout: process.Patience}
	if from != "" {
		d.LocalAddr = &net.TCPAddr{IP: net.ParseIP(from)}
	}
	return d.DialContext(ctx, "tcp", m.Clients)
}

// call does what wire.Conn.Call does. The request must succeed.
func (c *other) call(t *testing.T, op jute.Op, rec wire.Record) wire.Reply {
	t.Helper()
	reply, err := c.try(op, rec)
	if err != nil {
		t.Fatal(err)
	}
	return reply
}

func (c *other) try(op jute.Op, rec wire.Record) (wire.Reply, error) {
	c.xid++
	_ = c.SetDeadline(time.Now().Add(process.Patience)) // if it fails, so will the call
	reply, _, err := c.Call(c.xid, op, rec)
	if err == nil && reply.Err != jute.OK {
		err = fmt.Errorf("answered: %w", reply.Err)
	}
	if err != nil {
		return reply, fmt.Errorf("another client of member %d: %v %s: %w", c.member.ID, op, c.path, err)
	}
	return reply, nil
}

// work writes the node and reads it every othersEvery until end. It returns the duration of each request, from the time
// when it was due. A late request also makes the ones after it late.
func (c *other) work(end time.Time) ([]time.Duration, error) {
	var took []time.Duration
	for due := time.Now(); due.Before(end); due = due.Add(othersEvery) {
		time.Sleep(time.Until(due))
		data := fmt.Appendf(nil, "%0*d", othersSize, c.xid)
		if _, err := c.try(jute.OpSetData, jute.SetDataRequest{Path: c.path, Data: data, Version: -1}); err != nil {
			return took, err
		}
		written := time.Now()
		took = append(took, written.Sub(due))
		reply, err := c.try(jute.OpGetData, jute.GetDataRequest{Path: c.path})
		if err != nil {
			return took, err
		}
		took = append(took, time.Since(written))
		var got jute.GetDataResponse
		if err := reply.Into(&got); err != nil {
			return took, fmt.Errorf("another client of member %d: %w", c.member.ID, err)
		}
		if !bytes.Equal(got.Data, data) {
			return took, fmt.Errorf("another client of member %d reads %q; wrote %q", c.member.ID, got.Data, data)
		}
	}
	return took, nil
}

// measure lets all of them work for the time d and returns the p99 of their requests.
func (o *others) measure(t *testing.T, d time.Duration) time.Duration {
	t.Helper()
	var (
		mu      sync.Mutex
		all     []time.Duration
		errs    error
		working sync.WaitGroup
	)
	end := time.Now().Add(d)
	for _, c := range o.sessions {
		working.Go(func() {
			took, err := c.work(end)
			mu.Lock()
			defer mu.Unlock()
			all = append(all, took...)
			errs = errors.Join(errs, err)
		})
	}
	working.Wait()
	if errs != nil {
		t.Fatal(errs)
	}
	slices.Sort(all)
	p99 := all[len(all)*99/100]
	t.Logf("others: %d requests, p50 %v, p99 %v, longest %v", len(all), all[len(all)/2], p99, all[len(all)-1])
	return p99
}

// measureDuring measures the others while attack runs, and in a quiet ensemble before and after that. attack must last until
// its context ends. The test fails if they wait more than mostRatio times as long as in the worse of the two quiet
// times, in each try.
func (o *others) measureDuring(t *testing.T, attack func(ctx context.Context)) {
	t.Helper()
	before := o.measure(t, calmTime)
	retry(t, func() verdict {
		ctx, cancel := context.WithCancel(t.Context())
		var attacking sync.WaitGroup
		attacking.Go(func() { attack(ctx) })
		p99 := o.measure(t, attackTime)
		cancel()
		attacking.Wait()
		after := o.measure(t, calmTime)
		calm := max(before, after, leastP99)
		ratio := float64(p99) / float64(calm)
		t.Logf("others: p99 %v while calm, %v under attack: ratio %.1f", calm, p99, ratio)
		before = after
		if ratio <= mostRatio {
			return verdict{}
		}
		return verdict{
			wrong: fmt.Sprintf("others wait %v at p99 under attack, %v while calm: %.1f times as long, want at most %d", p99, calm, ratio, mostRatio),
			final: ratio > worstAttempt*mostRatio,
		}
	})
}
