package hostile

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"rollcall/integration/needs"
	"rollcall/integration/wire"
	"rollcall/lab/process"
)

const (
	connectFrom    = "127.66.66.70"
	connectors     = 64                    // attackers that open sessions
	connectEvery   = 64 * time.Millisecond // of each of them: 1,000 a second together. Faster ones use up the ports of their address, and the kernel's search for one takes both processors
	connectTimeout = 10 * time.Second      // of their sessions
	resumeEvery    = 50 * time.Millisecond
	connectTokens  = 100 // of the throttle, and so many come back in a second
	// connectLeast is the least number of handshakes that the throttle must reject; with fewer there was no storm. Two
	// busy cores made 20,000.
	connectLeast    = 2_000
	connectThrottle = "maxClientCnxns=0\nconnection_throttle_tokens=100\nconnection_throttle_fill_time=10\n"
)

// Many clients open sessions ten times as fast as the throttle allows. The throttle rejects most of them, others wait
// little longer than before, and a client that comes back for its session gets in each time.
func TestStormOfConnects(t *testing.T) {
	needs.Check(t, needs.Nightly)
	e, o := startMembers(t, "", connectThrottle)
	victim := e.Members[0]
	var opened, refused, resumed atomic.Int64
	begun := time.Now()
	// few reports whether a slow machine needs more time for the storm.
	few := func() bool { return refused.Load() < connectLeast && time.Since(begun) < process.Patience }
	o.measureDuring(t, func(ctx context.Context) {
		var attackers sync.WaitGroup
		for range connectors {
			attackers.Go(func() {
				for due := time.Now(); ctx.Err() == nil || few(); due = due.Add(connectEvery) {
					time.Sleep(time.Until(due))
					if openAndLeave(context.WithoutCancel(ctx), victim) {
						opened.Add(1)
					} else {
						refused.Add(1)
					}
				}
			})
		}
		attackers.Go(func() { resumed.Add(resumeOften(ctx, t, victim)) })
		attackers.Wait()
	})
	took := time.Since(begun)
	t.Logf("%d sessions were opened, %d refused, %d resumed in %v", opened.Load(), refused.Load(), resumed.Load(), took)
	if most := connectTokens * int64(2+took.Seconds()); opened.Load() > most {
		t.Errorf("%d sessions were opened in %v, want at most %d", opened.Load(), took, most)
	}
	if refused.Load() < connectLeast || resumed.Load() == 0 {
		t.Errorf("%d refused and %d resumed, want at least %d and one", refused.Load(), resumed.Load(), connectLeast)
	}
}

// openAndLeave opens a session and ends the connection. It reports whether there was a session.
func openAndLeave(ctx context.Context, m *process.Member) bool {
	sock, err := dialFrom(ctx, m, connectFrom)
	if err != nil {
		return false
	}
	defer func() { _ = sock.Close() }()
	_ = sock.SetDeadline(time.Now().Add(process.Patience)) // if it fails, so will the handshake
	res, err := wire.New(sock).Open(connectTimeout)
	return err == nil && res.SessionID != 0
}

// resumeOften resumes a session again and again until ctx ends. It returns the number of resumes, and the test fails if
// one fails.
func resumeOften(ctx context.Context, t *testing.T, m *process.Member) (n int64) {
	var c *wire.Conn
	defer func() {
		if c != nil {
			_ = c.Close()
		}
	}()
	connect := func() bool {
		sock, err := dialFrom(context.WithoutCancel(ctx), m, "")
		if err != nil {
			t.Errorf("resume: %v", err)
			return false
		}
		_ = sock.SetDeadline(time.Now().Add(process.Patience))
		c = wire.New(sock)
		return true
	}
	if !connect() {
		return 0
	}
	session, err := c.Open(connectTimeout)
	for err != nil && ctx.Err() == nil { // as all new sessions, this one may be refused
		_ = c.Close()
		if !connect() {
			return 0
		}
		session, err = c.Open(connectTimeout)
	}
	for ctx.Err() == nil {
		_ = c.Close()
		if !connect() {
			return n
		}
		if res, err := c.Resume(session, 0); err != nil || res.SessionID != session.SessionID {
			t.Errorf("resume %d: session %v, %v", n+1, res.SessionID, err)
			return n
		}
		n++
		time.Sleep(resumeEvery)
	}
	return n
}
