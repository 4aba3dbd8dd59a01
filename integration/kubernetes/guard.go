package kubernetes

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"rollcall/lab/judge"
	"rollcall/lab/load"
	"rollcall/lab/result"
)

const (
	// tick is tickTime of the manifests.
	tick = 2 * time.Second
	// sessionTimeout is that of the guard's clients: the shortest that servers with this tick grant.
	sessionTimeout = 2 * tick
	// guardInterval is the time between two requests of a client, and so the precision of the waits.
	guardInterval = 20 * time.Millisecond
	// stopGuardWithin limits the time in which all that was acknowledged is read.
	stopGuardWithin = time.Minute
)

// guard is clients that write, read, hold locks and sessions while something is done to the cluster, and know all that was acknowledged.
type guard struct {
	t    *testing.T
	load *load.Load

	isStopped bool
}

// seen is what the clients saw.
type seen struct {
	writes       int // that were acknowledged
	lostWrites   int // of these
	sessions     int
	lostSessions int // that ended although their clients could use any member
	locks        int
	longest      time.Duration // wait for a write, by a client that may use any member
}

// startGuard starts the clients. pods are the numbers of the pods that they know, all of which must exist in the end: then all that was
// acknowledged is read from each of them.
func (c *cluster) startGuard(pods int) *guard {
	c.t.Helper()
	cfg := load.Config{
		Chroot: "/guarded", Timeout: sessionTimeout, Tick: tick, Seed: 1, Interval: guardInterval, TLS: c.clientTLS, DialConn: c.dial,
	}
	port := "2181"
	if c.clientTLS != nil {
		port = "2281"
	}
	for i := range pods {
		cfg.Servers = append(cfg.Servers, result.Member{Name: podName(i), Clients: net.JoinHostPort(podName(i)+".rollcall-members", port)})
	}
	ctx, cancel := context.WithTimeout(c.t.Context(), readyWithin)
	defer cancel()
	l, err := load.Start(ctx, cfg)
	if err != nil {
		c.t.Fatal(err)
	}
	g := &guard{t: c.t, load: l}
	c.t.Cleanup(func() {
		if !g.isStopped {
			stopped, cancel := context.WithCancel(context.Background())
			cancel() // the test has failed before, and nothing needs to be read
			l.Stop(stopped)
		}
	})
	return g
}

// dial connects to a pod by its name, as the pods see it at this moment.
func (c *cluster) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	ip, err := c.nodes.names.lookup(host)
	if err != nil {
		return nil, err
	}
	return (&net.Dialer{}).DialContext(ctx, network, net.JoinHostPort(ip, port))
}

// check stops the clients, and reads all that was acknowledged from all pods. Each promise that was broken fails the test, and so does a
// session that was lost: a client that may use any member keeps its own.
func (g *guard) check() seen {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), stopGuardWithin)
	defer cancel()
	g.isStopped = true
	evidence := g.load.Stop(ctx)
	s := seen{writes: evidence.Load.Writes, sessions: evidence.Load.Sessions, locks: evidence.Load.Locks}
	for _, v := range judge.Judge(evidence, judge.Limits{}) {
		if v.Outcome == result.Fail {
			g.t.Errorf("%s: %s\n%+v", v.Rule, v.Promise, v.Violations)
		}
		if v.Rule != "lost-writes" {
			continue
		}
		if s.lostWrites = len(v.Violations) + v.More; v.Outcome == result.NotRun {
			g.t.Errorf("no write was judged: %s", v.Reason)
		}
	}
	for _, reason := range evidence.Unread {
		g.t.Errorf("what was acknowledged was not read from all: %s", reason)
	}
	for _, session := range evidence.Sessions {
		if session.Ended == judge.Expired && !isPinned(session.Client) {
			s.lostSessions++
			g.t.Errorf("session %s of %s was lost at %.3f s", session.ID, session.Client, session.EndedAt/1000)
		}
	}
	for _, gap := range evidence.Gaps {
		if gap.Member == "" && gap.Kind == string(judge.Write) {
			s.longest = time.Duration(gap.Longest.To-gap.Longest.From) * time.Millisecond
		}
	}
	return s
}

// isPinned reports whether a client uses one member alone. Its session ends if that one is away for longer than the timeout.
func isPinned(client string) bool {
	return strings.HasPrefix(client, "probe-") && client != "probe-any"
}

func (s seen) String() string {
	return fmt.Sprintf("%d writes acknowledged, %d lost; %d sessions, %d lost; %d locks; longest wait of a write %v",
		s.writes, s.lostWrites, s.sessions, s.lostSessions, s.locks, s.longest.Round(time.Millisecond))
}
