package bench

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"rollcall/client"
)

// What happens to all sessions of a storm at once.
const (
	stormExpires  = "expire"    // they fall silent, and their connections stay open
	stormVanishes = "vanish"    // their connections end, and they expire later
	stormCloses   = "close"     // their clients close them
	stormResumes  = "reconnect" // their connections end, and their clients come back at once
)

const (
	calmBeforeStorm = time.Second          // in which the writers write alone
	stormPoll       = 5 * time.Millisecond // how often the remaining nodes are counted
	// stormPause is the shortest time without an end of a session that does not belong to the storm. Servers expire sessions in buckets
	// one tick wide, so a storm can have two parts.
	stormPause = 100 * time.Millisecond
	// markEvery is the share of sessions with one node in a storm whose sessions have none. These nodes show when the sessions end.
	markEvery = 50
)

// storm is a run of the case with this name.
type storm struct {
	run     *caseRun
	parent  *parent // of the sessions' nodes
	writers []*bystander
	calm    tally // the writes before the storms
	beside  tally // the writes that a storm met
	spans   []time.Duration
	intervals
}

// runStorm lets many sessions end, or come back, at once while one client of each member writes. An op is a write that was under way
// between the first and the last of them.
func (r *caseRun) runStorm() (Result, error) {
	s := &storm{run: r}
	var err error
	if s.parent, err = r.tree.createParent(r.ctx, r.controlClient, "storm"); err != nil {
		return Result{}, err
	}
	var leave func()
	s.writers, leave, err = openBystanders(r, 0)
	defer leave()
	if err != nil {
		return Result{}, err
	}
	for n := range r.params.ResumeRounds {
		if err := s.runOne(n); err != nil {
			return Result{}, err
		}
	}
	return s.caseResult(), nil
}

// runOne opens the sessions and runs storm n beside the writers.
func (s *storm) runOne(n int) error {
	hold := &heldConns{}
	defer hold.closeAll()
	clients, err := s.openSessions(n, hold)
	defer func() { s.run.closeOrAbandon(clients) }()
	if err != nil {
		return err
	}
	stop := startBystanders(s.run, s.writers)
	defer stop()
	begin, end, during, err := s.strike(n, clients, hold)
	stop()
	if err != nil {
		return err
	}
	s.addInterval(begin, end)
	var span time.Duration
	for _, d := range during {
		span += d.until.Sub(d.from)
	}
	s.spans = append(s.spans, span)
	for _, w := range s.writers {
		w.divide(during, &s.calm, &s.beside)
	}
	return nil
}

// openSessions opens the sessions of a storm, with their nodes.
func (s *storm) openSessions(n int, hold *heldConns) ([]*client.Client, error) {
	r := s.run
	clients, err := r.openManySessions(r.ctx, r.params.Conns, func(i int) sessionConfig {
		config := sessionConfig{servers: r.serverFor(i)}
		if r.params.Storm == stormExpires {
			config.DialConn = hold.dialer(r.dialServer)
		}
		return config
	}, func(int, *client.Client) {})
	if err != nil {
		return clients, err
	}
	return clients, inParallel(r.ctx, r.params.Conns, parallelOpens, func(ctx context.Context, i int) error {
		return sendEach(r.params.nodesOf(i), func(k int, done func(error)) error {
			path := appendPadded([]byte(s.parent.path+"/"+strconv.Itoa(n)+"-"+strconv.Itoa(i)+"-"), int64(k))
			return clients[i].Pipeline().Create(ctx, string(path), nil, client.Ephemeral,
				func(_ string, _ client.Stat, err error) { done(err) })
		})
	})
}

// nodesOf returns the number of ephemeral nodes of session i of a storm.
func (p *Params) nodesOf(i int) int {
	if p.EphemeralsPerSession == 0 && i%markEvery == 0 {
		return 1
	}
	return p.EphemeralsPerSession
}

// strike lets the storm begin after a calm. It returns the usage at its begin and its end, and the times that belong to it. hold has the
// connections that stay open.
func (s *storm) strike(n int, clients []*client.Client, hold *heldConns) (begin, end usageReading, during []interval, err error) {
	r := s.run
	if err := sleepUntil(r.ctx, time.Now().Add(calmBeforeStorm)); err != nil {
		return begin, end, nil, err
	}
	switch r.params.Storm {
	case stormExpires, stormVanishes:
		if err := r.sendLastRequests(clients, s.parent.path, func(int) {}); err != nil {
			return begin, end, nil, err
		}
		hold.keepOpen.Store(true)
		abandonAll(clients)
		return s.awaitEnds()
	case stormCloses:
		if begin, err = r.readUsage(false); err != nil {
			return begin, end, nil, err
		}
		ctx, stop := context.WithTimeout(r.ctx, 2*r.params.Timeout+drainTimeout)
		defer stop()
		if n := len(clients) - closeAtOnce(ctx, clients); n > 0 {
			s.beside.addFailures("a session did not close", int64(n))
		}
		end, err = r.readUsage(true)
	default:
		back := &resumeResults{}
		if err := r.reconnectAll(back, clients, n+1); err != nil {
			return begin, end, nil, err
		}
		s.beside.addFailures("a session was lost", back.lostSessions)
		begin, end = back.begin, back.end
	}
	return begin, end, []interval{{begin.at, end.at}}, err
}

// awaitEnds waits until the sessions' nodes are gone. It returns the usage from when the first one went, and the times in which some did.
func (s *storm) awaitEnds() (begin, end usageReading, during []interval, err error) {
	r := s.run
	all := int64(0)
	for i := range r.params.Conns {
		all += int64(r.params.nodesOf(i))
	}
	var remaining atomic.Int64
	remaining.Store(all)
	defer r.reportProgress(func() string { return fmt.Sprintf("%d of %d nodes remain", remaining.Load(), all) })()
	polled := time.Now()
	until := polled.Add(3*r.params.Timeout + expiryGrace)
	for {
		stat, _, err := r.controlClient.Exists(r.ctx, s.parent.path)
		if err != nil {
			return begin, end, nil, err
		}
		before, now := polled, time.Now()
		if n := int64(stat.NumChildren); n < remaining.Swap(n) {
			during = appendInterval(during, interval{before, now})
			if begin.at.IsZero() {
				if begin, err = r.readUsage(false); err != nil {
					return begin, end, nil, err
				}
				begin.at = before // the storm may end with the same poll
			}
		}
		if stat.NumChildren == 0 {
			end, err = r.readUsage(true)
			return begin, end, during, err
		}
		if now.After(until) {
			return begin, end, nil, fmt.Errorf("%d nodes of silent sessions are left", stat.NumChildren)
		}
		polled = now
		if err := sleepUntil(r.ctx, now.Add(stormPoll)); err != nil {
			return begin, end, nil, err
		}
	}
}

// appendInterval appends a later interval. It joins it to the last one if they are less than stormPause apart.
func appendInterval(list []interval, next interval) []interval {
	if n := len(list); n > 0 && next.from.Sub(list[n-1].until) < stormPause {
		list[n-1].until = next.until
		return list
	}
	return append(list, next)
}

func (s *storm) caseResult() Result {
	result := s.intervals.intervalResult(s.run, &s.beside)
	slices.Sort(s.spans)
	result.Extra = []Figure{
		millisFigure("before it p50", s.calm.latencies.Quantile(0.5)), millisFigure("before it p99", s.calm.latencies.Quantile(0.99)),
		millisFigure("storm took", s.spans[len(s.spans)/2]), millisFigure("storm took at most", s.spans[len(s.spans)-1]),
	}
	return result
}

// heldConns are connections that can be kept open when their clients end.
type heldConns struct {
	keepOpen atomic.Bool

	mu    sync.Mutex
	conns []net.Conn
}

// dialer returns a function that dials connections to be kept.
func (h *heldConns) dialer(dial Dial) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, _, addr string) (net.Conn, error) {
		conn, err := dial(ctx, addr)
		if err != nil {
			return nil, err
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		h.conns = append(h.conns, conn)
		return &heldConn{Conn: conn, held: h}, nil
	}
}

func (h *heldConns) closeAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, conn := range h.conns {
		_ = conn.Close()
	}
}

// heldConn is a connection whose Close only ends its use if it is to be kept open.
type heldConn struct {
	net.Conn
	held *heldConns
}

func (c *heldConn) Close() error {
	if c.held.keepOpen.Load() {
		return c.Conn.SetDeadline(time.Now()) // ends reads and writes
	}
	return c.Conn.Close()
}
