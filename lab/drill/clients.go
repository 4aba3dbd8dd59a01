package drill

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"rollcall/client"
	"rollcall/lab/result"
	"rollcall/lab/target"
)

const (
	silentSessions     = 50
	hostileConnections = 200     // far below the limits of connections from one address
	massSessions       = 5_000   // as many as one application has
	stormSessions      = 15_000  // a process may open 20,000 files
	manyEphemerals     = 100_000 // of one session
	// ephemeralsPerMulti keeps a multi far below the 1 MB of a frame.
	ephemeralsPerMulti = 500
	// crowdInterval is the time between two counts of a silent crowd's nodes.
	crowdInterval = 100 * time.Millisecond
	// crowdParent is the parent of a crowd's nodes.
	crowdParent = "/crowd"
)

func silenceClients(s *stage) error { return s.fallSilent(silentSessions) }
func massExpiry(s *stage) error     { return s.fallSilent(massSessions) }

// fallSilent opens n sessions with an ephemeral node each, which then send nothing. Package judge judges when they end.
func (s *stage) fallSilent(n int) error {
	ends := s.clientFault("silence", fmt.Sprintf("%d sessions with an ephemeral node each send nothing", n))
	defer ends()
	opened, stop := context.WithTimeout(s.ctx, wellLimit)
	defer stop()
	if err := s.clients.load.Silence(opened, n); err != nil {
		return err
	}
	return s.waitTimeouts(2)
}

// clientFault shows and records something that clients do, until ends is called.
func (s *stage) clientFault(kind, text string) (ends func()) {
	at := s.noteBroken(target.Fault{Kind: target.Kind(kind)}, text)
	return func() { s.noteHealed(at) }
}

// abandonEphemerals makes many ephemeral nodes in one session, which then falls silent. Another session sees them.
func abandonEphemerals(s *stage) error {
	observer, err := client.Dial(s.ctx, s.servers, client.Config{Timeout: s.timeout})
	if err != nil {
		return err
	}
	defer observer.Abandon()
	if _, _, err := observer.Create(s.ctx, crowdParent, nil, client.Persistent); err != nil && !errors.Is(err, client.ErrNodeExists) {
		return err
	}
	one, err := openCrowd(s.ctx, s.servers, s.timeout, 1)
	if err != nil {
		return err
	}
	defer one.abandonAll()
	for made := 0; made < manyEphemerals; {
		var creates []client.Operation
		for range ephemeralsPerMulti {
			creates = append(creates, client.CreateOp(fmt.Sprintf("%s/%d", crowdParent, made), nil, client.Ephemeral))
			made++
		}
		if _, err := one.clients[0].Multi(s.ctx, creates...); err != nil {
			return fmt.Errorf("ephemeral node %d: %w", made, err)
		}
	}
	return s.judgeSilence(one, observer, manyEphemerals, fmt.Sprintf("a session with %d ephemeral nodes falls silent", manyEphemerals))
}

// judgeSilence mutes a crowd that has so many ephemeral nodes, and waits until all are gone.
func (s *stage) judgeSilence(c *crowd, observer *client.Client, nodes int, text string) error {
	ends := s.clientFault("silence", text)
	defer ends()
	began := s.sinceStart()
	c.muted.Store(true)
	v := result.Verdict{
		Rule: "all-ephemerals-go", Promise: "All ephemeral nodes of a session that ends are deleted, however many there are.",
		Page: "docs/sessions.md", Outcome: result.Pass, Judged: nodes, Slack: result.Since(wellLimit),
	}
	for left := nodes; left > 0; {
		if err := s.waitFor(crowdInterval); err != nil {
			return err
		}
		if _, stat, err := observer.Get(s.ctx, crowdParent); err == nil {
			left = stat.NumChildren
		}
		took := s.sinceStart() - began
		v.Reason = fmt.Sprintf("they were gone %.1f s after the last request of the session, whose timeout is %v", float64(took)/1000, s.timeout)
		if left > 0 && took > result.Since(s.timeout+wellLimit) {
			v.Outcome, v.Reason = result.Fail, ""
			v.Violations = []result.Violation{{At: s.sinceStart(), Text: fmt.Sprintf("%d of %d nodes are left %.1f s after the last request", left, nodes, float64(took)/1000)}}
			break
		}
	}
	s.verdicts = append(s.verdicts, v)
	return nil
}

// killWithManySessions kills the member that has a third of many sessions. All must find another member.
func killWithManySessions(s *stage) error {
	all, err := openCrowd(s.ctx, s.servers, s.timeout, stormSessions)
	if err != nil {
		return err
	}
	defer func() {
		ctx, stop := context.WithTimeout(context.WithoutCancel(s.ctx), wellLimit)
		defer stop()
		all.closeAll(ctx)
	}()
	if err := killFollower(s); err != nil {
		return err
	}
	began := s.sinceStart()
	for all.connected.Load() < stormSessions && all.expired.Load() == 0 && s.sinceStart()-began < result.Since(2*s.timeout) {
		if err := s.waitFor(crowdInterval); err != nil {
			return err
		}
	}
	v := result.Verdict{
		Rule: "all-reconnect", Promise: "Every session of a member that dies continues at another member.", Page: "docs/sessions.md",
		Outcome: result.Pass, Judged: stormSessions,
	}
	if up, lost := all.connected.Load(), all.expired.Load(); up < stormSessions {
		v.Outcome = result.Fail
		v.Violations = []result.Violation{{At: s.sinceStart(), Text: fmt.Sprintf("%d of %d sessions are connected, and %d have expired", up, stormSessions, lost)}}
	}
	s.verdicts = append(s.verdicts, v)
	return nil
}

// connectStrangers opens connections of strangers to all members, and closes them after one session timeout.
func connectStrangers(s *stage) error {
	ctx, stop := context.WithCancel(s.ctx)
	defer stop()
	ends := s.clientFault("strangers", fmt.Sprintf("%d connections of strangers", hostileConnections))
	defer ends()
	var all sync.WaitGroup
	members := s.target.Members()
	for i := range hostileConnections {
		rng := rand.New(rand.NewPCG(s.rng.Uint64(), uint64(i)))
		all.Go(func() { connectStranger(ctx, members[i%len(members)].Clients, rng) })
	}
	err := s.waitTimeouts(1)
	stop()
	all.Wait()
	return err
}
