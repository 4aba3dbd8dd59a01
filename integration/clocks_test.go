package integration

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/cluster"
	"rollcall/lab/history"
	"rollcall/leader"
	"rollcall/member"
	"rollcall/zk/jute"
)

// These say how nodes with a TTL are created and removed in a schedule.
const (
	agingPace = 100 * time.Millisecond // between two nodes
	agingTTL  = time.Second            // nodes with this TTL are all due within the schedule, by a right clock
	longTTL   = 30 * time.Minute       // nodes with this TTL are due only by a clock that was set forward
)

// reaping makes the reaper remove nodes soon after they are due.
var reaping = leader.Reaping{Interval: 200 * time.Millisecond, PerMinute: 60_000}

// aging is a session that creates nodes with a TTL during faults.
type aging struct {
	client *cluster.Client
	nodes  []aged
	end    chan struct{} // closed to end it
	done   chan struct{}
}

// aged is a node whose creation was acknowledged to its client.
type aged struct {
	path     string
	ttl      time.Duration
	stat     jute.Stat
	from, to time.Time // when it was sent and answered
}

const agingDir = "/aging"

// startAging creates nodes until stop is called.
func startAging(t *testing.T, e *cluster.Ensemble, timeout time.Duration) *aging {
	t.Helper()
	a := &aging{client: e.Connect(timeout), end: make(chan struct{}), done: make(chan struct{})}
	if _, err := a.client.Create(agingDir, nil, jute.Persistent); err != nil {
		t.Fatal(err)
	}
	if a.make(0, longTTL); len(a.nodes) == 0 {
		t.Fatal("no node with a long TTL")
	}
	go func() {
		defer close(a.done)
		for i := 1; ; i++ {
			select {
			case <-a.end:
				return
			case <-time.After(agingPace):
				a.make(i, agingTTL)
			}
		}
	}()
	return a
}

// make creates a node. A node of unknown outcome is not checked.
func (a *aging) make(i int, ttl time.Duration) {
	n := aged{path: fmt.Sprintf("%s/%d", agingDir, i), ttl: ttl, from: time.Now()}
	r, err := a.client.Do(jute.OpCreateTTL, &jute.CreateTTLRequest{
		CreateRequest: jute.CreateRequest{Path: []byte(n.path), ACL: jute.OpenACL, Flags: jute.PersistentWithTTL}, TTL: ttl.Milliseconds(),
	})
	var made jute.Create2Response
	if err == nil && r.Into(&made) == nil {
		n.stat, n.to = made.Stat, time.Now()
		a.nodes = append(a.nodes, n)
	}
}

// stop ends the session's work but keeps the session.
func (a *aging) stop() {
	close(a.end)
	a.client.Abandon()
	<-a.done
}

// checkStamps checks that each node's time is the time on the clock of its term's leader when the node was created.
func (r *run) checkStamps() {
	judge := func(path string, stat jute.Stat, from, to time.Time) {
		r.sum.stamps.Add(1)
		if err := r.Stamped(stat.Czxid, stat.Ctime, from, to); err != nil || stat.Ctime != stat.Mtime {
			r.Errorf("%s, made at %d and changed at %d: %v", path, stat.Ctime, stat.Mtime, err)
		}
	}
	for _, w := range r.writers {
		for _, n := range w.made {
			judge(n.path, n.stat, n.from, n.to)
		}
	}
	for _, n := range r.aging.nodes {
		judge(n.path, n.stat, n.from, n.to)
	}
}

// checkAged checks nodes with a TTL once all faults are over. No node was removed before it was due by some member's clock.
// If only the leader's clock was set forward, that leader removed none. If the leader's clock can be trusted, all nodes
// that are due by it are removed.
func (r *run) checkAged() {
	id := r.Leader()
	clock := r.Clock(id)
	common, ok := r.CommonTime()
	trusted := ok && (clock.Ahead()-common).Abs() <= time.Minute && clock.Steady(r.Booted(id), time.Minute)
	for _, n := range r.aging.nodes {
		due := n.stat.Mtime + n.ttl.Milliseconds()
		switch gone := !r.exists(id, n.path); {
		case gone && r.latest(n.from) < due:
			r.Errorf("%s is gone, and was due at %d, which no clock has shown", n.path, due)
		case gone && n.ttl == longTTL && !r.CommonJump(longTTL/2):
			r.Errorf("%s is gone after %v, and had a TTL of %v", n.path, time.Since(n.from), n.ttl)
		case trusted && clock.Now().UnixMilli() >= due:
			r.Wait(n.path+" to be removed, which is due", 10*time.Second, func() bool { return !r.exists(id, n.path) })
			r.sum.reaped.Add(1)
		case !gone && !trusted && clock.Now().UnixMilli() >= due:
			r.sum.held.Add(1)
		}
	}
}

// latest returns the latest time, in ms since 1970, that any clock has shown since a moment.
func (r *run) latest(since time.Time) (ms int64) {
	for _, id := range r.IDs() {
		ms = max(ms, r.Clock(id).Latest(since))
	}
	return ms
}

// exists reports whether a member's tree has a node.
func (r *run) exists(id uint32, path string) bool {
	s := r.Member(id).State()
	s.RLock()
	defer s.RUnlock()
	_, code := s.Exists([]byte(path), nil, nil)
	return !errors.Is(code, jute.NoNode)
}

// agingNode creates a node with a TTL and returns its Stat.
func agingNode(t *testing.T, c *cluster.Client, path string, ttl time.Duration) jute.Stat {
	t.Helper()
	r, err := c.Do(jute.OpCreateTTL, &jute.CreateTTLRequest{
		CreateRequest: jute.CreateRequest{Path: []byte(path), ACL: jute.OpenACL, Flags: jute.PersistentWithTTL}, TTL: ttl.Milliseconds(),
	})
	if err != nil {
		t.Fatal(err)
	}
	var made jute.Create2Response
	decode(t, r, &made)
	return made.Stat
}

// slow is the tick of ensembles that run for hours.
const slow = 20 * time.Second

// runWithReaper runs a test about clocks on an ensemble that searches for due nodes in every tick.
func runWithReaper(t *testing.T, tick time.Duration, run func(t *testing.T, e *cluster.Ensemble, leader uint32)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		e := cluster.Start(t, 3, cluster.Options{Tick: tick, Adjust: func(cfg *member.Config) { cfg.Reaping = leader.Reaping{Interval: tick} }})
		run(t, e, e.Ready())
	})
}

// heldBy reports whether a member says that its reaper is held.
func heldBy(t *testing.T, e *cluster.Ensemble, id uint32) bool {
	t.Helper()
	c, err := e.Dial(id)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if _, err := c.Write([]byte("mntr")); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(string(text), "zk_reaper_held\t1\n")
}

// The leader's clock is set wrong by an hour or a year, forward or back, and then right again. The
// times of nodes follow it at once, both ways and over a restart of all members. No node is removed
// because of its age while the clock is wrong. Nodes that were created under a right clock are
// removed when the clock is right again. One that was created while the clock was ahead stays until
// it is written again.
func TestLeadersClockJumps(t *testing.T) {
	for _, by := range []time.Duration{time.Hour, -time.Hour, 365 * 24 * time.Hour, -365 * 24 * time.Hour} {
		runWithReaper(t, tick, func(t *testing.T, e *cluster.Ensemble, leader uint32) {
			c := e.Connect(10 * tick)
			stamped := func(path string, stat jute.Stat, ahead time.Duration) {
				t.Helper()
				if off := time.UnixMilli(stat.Mtime).Sub(time.Now().Add(ahead)); off.Abs() > tick {
					t.Errorf("%v: %s has the time %v, which is off by %v", by, path, time.UnixMilli(stat.Mtime).UTC(), off)
				}
			}
			stamped("/before", agingNode(t, c, "/before", 3*tick), 0)
			e.Clock(leader).Step(by)
			stamped("/wrong", agingNode(t, c, "/wrong", 3*tick), by)
			stamped("/again", agingNode(t, c, "/again", 3*tick), by)
			time.Sleep(10 * tick)
			for _, path := range []string{"/before", "/wrong", "/again"} {
				if !has(e, leader, path) {
					t.Errorf("%v: %s was removed by a wrong clock", by, path)
				}
			}
			if !heldBy(t, e, leader) {
				t.Errorf("%v: the leader does not say that its reaper is held", by)
			}
			e.Clock(leader).Step(-by)
			stamped("/after", agingNode(t, c, "/after", 3*tick), 0)
			if _, err := c.Do(jute.OpSetData, &jute.SetDataRequest{Path: []byte("/again"), Version: -1}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * tick)
			if gone := !has(e, leader, "/before"); !gone || !has(e, leader, "/again") || !has(e, leader, "/after") || heldBy(t, e, leader) {
				t.Errorf("%v: 2 ticks after the clock was right, want only the node that is due gone, and the reaper not held; the node is gone: %t",
					by, gone)
			}
			time.Sleep(4 * tick) // the TTL of /again ends 1 tick after the check above, and the reaper runs within another tick
			if has(e, leader, "/again") || has(e, leader, "/after") || has(e, leader, "/wrong") != (by > 0) {
				t.Errorf("%v: nodes written under a right clock are there: %t, %t; a node created under a wrong one: %t",
					by, has(e, leader, "/again"), has(e, leader, "/after"), has(e, leader, "/wrong"))
			}
			for _, id := range e.IDs() {
				e.Kill(id)
			}
			for _, id := range e.IDs() {
				e.Boot(id)
			}
			e.Ready()
			stamped("/restarted", agingNode(t, e.Connect(10*tick), "/restarted", tick), 0)
			e.Equal()
		})
	}
}

// All clocks jump at once. A majority agrees, and still nothing is removed until the clocks have
// run evenly for an hour.
func TestAllClocksJump(t *testing.T) {
	t.Parallel()
	runWithReaper(t, slow, func(t *testing.T, e *cluster.Ensemble, leader uint32) {
		agingNode(t, e.Connect(10*slow), "/n", 30*time.Minute)
		for _, id := range e.IDs() {
			e.Clock(id).Step(365 * 24 * time.Hour)
		}
		time.Sleep(29 * time.Minute)
		if !has(e, leader, "/n") || !heldBy(t, e, leader) {
			t.Errorf("after half an hour: the node is there: %t, the reaper is held: %t", has(e, leader, "/n"), heldBy(t, e, leader))
		}
		time.Sleep(32 * time.Minute)
		if has(e, leader, "/n") || heldBy(t, e, leader) {
			t.Errorf("after an hour: the node is there: %t, the reaper is held: %t", has(e, leader, "/n"), heldBy(t, e, leader))
		}
	})
}

// The followers were started with clocks a year behind. No member sees its clock jump. The leader's clock differs from
// the clocks of most members, so the leader removes nothing until they agree.
func TestLeadersClockIsNotThatOfMost(t *testing.T) {
	runWithReaper(t, tick, func(t *testing.T, e *cluster.Ensemble, leader uint32) {
		c := e.Connect(10*tick, leader)
		agingNode(t, c, "/n", 10*tick)
		followers := e.Followers()
		restart := func(by time.Duration) {
			for _, id := range followers {
				e.Stop(id)
				e.Clock(id).Step(by)
				e.Boot(id)
				e.Ready()
			}
		}
		restart(-365 * 24 * time.Hour)
		time.Sleep(20 * tick)
		if !has(e, leader, "/n") || !heldBy(t, e, leader) || c.Disconnects() > 0 {
			t.Errorf("followers' clocks are wrong: the node is there: %t, the reaper is held: %t, %d disconnects",
				has(e, leader, "/n"), heldBy(t, e, leader), c.Disconnects())
		}
		restart(365 * 24 * time.Hour)
		time.Sleep(2 * tick)
		if has(e, leader, "/n") || heldBy(t, e, leader) || c.Disconnects() > 0 {
			t.Errorf("all clocks are right: the node is there: %t, the reaper is held: %t, %d disconnects",
				has(e, leader, "/n"), heldBy(t, e, leader), c.Disconnects())
		}
	})
}

// A leader's clock is a tenth faster than a follower's. A session whose client was heard only by this follower, which is
// cut off, ends as early as that allows. Until then the follower served the client, and it serves it no more. If the
// leader's clock is twice as fast, which is more than is promised, the follower still serves the client of a session
// that has ended, and the checker of histories detects both.
func TestClocksOfDifferentRates(t *testing.T) {
	for _, tt := range []struct {
		leader, follower float64
		broken           bool
	}{
		{leader: 1, follower: 1},
		{leader: 1.1, follower: 1},
		{leader: 1, follower: 0.91},
		{leader: 1, follower: 1.1},
		{leader: 2, follower: 1, broken: true},
		{leader: 1, follower: 0.5, broken: true},
	} {
		t.Run(fmt.Sprintf("leader %v, follower %v", tt.leader, tt.follower), func(t *testing.T) {
			var h history.History
			synctest.Test(t, func(t *testing.T) { h = cutOffWithRates(t, tt.leader, tt.follower) })
			var vouched bool
			for _, v := range history.Check(h) {
				vouched = vouched || v.Rule == "f"
				if !tt.broken {
					t.Error(v)
				}
			}
			if tt.broken && !vouched {
				t.Error("the checker has not seen that a member vouched for a session that had ended")
			}
		})
	}
}

// cutOffWithRates opens sessions on a follower, cuts the follower off, and lets the clients ping until their connections are
// closed and the sessions have ended.
func cutOffWithRates(t *testing.T, ofLeader, ofFollower float64) history.History {
	e := cluster.Start(t, 3, cluster.Options{Record: true})
	leader := e.Ready()
	e.Joined()
	a := e.Followers()[0]
	e.SetRate(leader, ofLeader)
	e.SetRate(a, ofFollower)
	var open []jute.SessionID
	for i := range 10 { // the pings of the leader come at different times after theirs
		timeout := time.Duration(2+2*i) * tick
		c, session := e.Open(a, timeout)
		open = append(open, session.SessionID)
		go func() {
			for c.Send(jute.XidPing, jute.OpPing, nil) == nil {
				if _, err := c.Recv(); err != nil {
					return
				}
				time.Sleep(tick / 10)
			}
		}()
		time.Sleep(tick / 7)
	}
	time.Sleep(2 * tick)
	e.Play(cluster.Plan{{Kind: cluster.Isolate, Who: cluster.Target(fmt.Sprintf("m%d", a)), For: 25 * tick}}, nil, func() bool {
		return !slices.ContainsFunc(open, func(id jute.SessionID) bool { return owner(e, leader, id) != 0 })
	})
	e.Ready()
	h, err := e.History()
	if err != nil {
		t.Fatal(err)
	}
	return h
}
