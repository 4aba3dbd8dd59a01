package clients

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"rollcall/integration/needs"
	"rollcall/lab/process"
)

var world = zk.WorldACL(zk.PermAll)

// playGo runs a scenario with go-zookeeper. act is the part of the client of one seat.
func playGo(t *testing.T, name string, act func(ctx context.Context, s *stage, c *goClient) error) {
	play(t, "go-"+name, nil, func(ctx context.Context, s *stage, at seat) error {
		c, err := dialGo(ctx, at, longTimeout)
		if err != nil {
			return err
		}
		defer c.Close()
		if err := act(ctx, s, c); err != nil {
			return err
		}
		return c.undisturbed()
	})
}

// A session survives the fault with its id and its ephemerals. They are deleted when it is closed.
func TestGoSession(t *testing.T) {
	playGo(t, "session", func(ctx context.Context, s *stage, c *goClient) error {
		if err := c.undisturbed(); err != nil {
			return err
		}
		before, after := s.path(c.at.name+"-before"), s.path(c.at.name+"-after")
		if _, err := c.Create(before, []byte("x"), zk.FlagEphemeral, world); err != nil {
			return err
		}
		if err := c.disturb(ctx, s); err != nil {
			return err
		}
		if _, err := c.Create(after, []byte("x"), zk.FlagEphemeral, world); err != nil {
			return fmt.Errorf("create during the election: %w", err)
		}
		if err := errors.Join(c.holdsEphemeral(before), c.holdsEphemeral(after), c.undisturbed()); err != nil {
			return err
		}
		if err := s.meet(ctx); err != nil {
			return err
		}
		first := s.seats[0].name // closes; the others watch, from their own members
		if c.at.name == first {
			c.Close()
			return s.meet(ctx)
		}
		if err := s.meet(ctx); err != nil {
			return err
		}
		if err := errors.Join(c.waitGone(ctx, s.path(first+"-before")), c.waitGone(ctx, s.path(first+"-after"))); err != nil {
			return err
		}
		return s.noneExpired(ctx)
	})
}

// noneExpired checks that no living member has expired a session.
func (s *stage) noneExpired(ctx context.Context) error {
	return process.Until(ctx, "no member has expired a session", func() bool {
		return !slices.ContainsFunc(s.alive, func(address string) bool {
			member := process.Member{Clients: address}
			return !strings.Contains(member.FourLetterWord("mntr"), "zk_stale_sessions_expired\t0\n")
		})
	})
}

// A client keeps its session with pings alone. When it falls silent, it loses its session and ephemerals, but not before
// its timeout. When it comes back, it gets that as the reply, and another session.
func TestGoEphemeral(t *testing.T) {
	needs.Check(t, needs.Nightly)
	const timeout = 8 * tick // this client gives up after two thirds of it without a reply
	playGo(t, "ephemeral", func(ctx context.Context, s *stage, c *goClient) error {
		var wire cable
		lost, err := dialGoThrough(ctx, c.at, timeout, wire.dial)
		if err != nil {
			return err
		}
		defer lost.Close()
		select { // long enough to use up what the new session was granted
		case <-time.After(timeout + tick):
		case <-ctx.Done():
			return ctx.Err()
		}
		states, _ := lost.seen()
		if !slices.Equal(states, connected) {
			return fmt.Errorf("a client that only pings saw %v", states)
		}
		node := s.path(c.at.name)
		heard := time.Now() // before the last thing that its member received from it
		if _, err := lost.Create(node, nil, zk.FlagEphemeral, world); err != nil {
			return err
		}
		wire.cut()
		exists, _, gone, err := c.ExistsW(node)
		if err != nil || !exists {
			return errors.Join(err, fmt.Errorf("exists %s: %t", node, exists))
		}
		if err := c.disturb(ctx, s); err != nil {
			return err
		}
		if err := event(ctx, gone, zk.EventNodeDeleted, node); err != nil {
			return err
		}
		if lived := time.Since(heard); lived < timeout {
			return fmt.Errorf("session of %v expired after %v", timeout, lived)
		}
		wire.mend()
		if err := lost.reaches(ctx, zk.StateExpired, len(states)); err != nil {
			return err
		}
		if err := lost.hasSession(ctx, len(states)); err != nil {
			return err
		}
		if lost.SessionID() == lost.sid {
			return fmt.Errorf("session %#x came back from the dead", lost.sid)
		}
		return nil
	})
}

// cable is the network of one client, which can be cut. The zero value works.
type cable struct {
	mu     sync.Mutex
	broken bool
	conn   net.Conn // the last one
}

var errCut = errors.New("the cable is cut")

func (c *cable) dial(network, address string, timeout time.Duration) (net.Conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.broken {
		return nil, errCut
	}
	conn, err := net.DialTimeout(network, address, timeout)
	c.conn = conn
	return conn, err
}

func (c *cable) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.broken = true
	_ = c.conn.Close() // it is to break, however
}

func (c *cable) mend() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.broken = false
}

// A lock is held through the fault while the others wait for it. It has one holder at a time.
func TestGoLock(t *testing.T) {
	needs.Check(t, needs.Usual)
	var inside atomic.Int32
	playGo(t, "lock", func(ctx context.Context, s *stage, c *goClient) error {
		lock := zk.NewLock(c.Conn, s.path("lock"), world)
		got := make(chan error, 1)
		holder := c.at.name == s.seats[0].name // the client that moves, if one does
		if holder {
			if err := lock.Lock(); err != nil {
				return err
			}
			inside.Store(1)
		}
		if err := s.meet(ctx); err != nil {
			return err
		}
		if !holder {
			go func() { got <- lock.Lock() }()
		}
		if err := allContend(ctx, s, c); err != nil {
			return err
		}
		if err := c.disturb(ctx, s); err != nil {
			return err
		}
		if holder {
			if err := c.holdsEphemeral(mine(c, s.path("lock"))); err != nil {
				return err
			}
		} else {
			select {
			case err := <-got:
				if n := inside.Add(1); n != 1 || err != nil {
					return errors.Join(err, fmt.Errorf("got the lock as holder %d", n))
				}
			case <-ctx.Done():
				return fmt.Errorf("the lock was never released: %w", ctx.Err())
			}
		}
		inside.Store(0)
		if err := lock.Unlock(); err != nil {
			return err
		}
		return lockAgain(lock, &inside)
	})
}

// allContend waits until every seat has its node at the lock.
func allContend(ctx context.Context, s *stage, c *goClient) error {
	return process.Until(ctx, "all contend for the lock", func() bool {
		children, _, err := c.Children(s.path("lock"))
		return err == nil && len(children) == len(s.seats)
	})
}

// mine returns the path of the child that is this session's ephemeral.
func mine(c *goClient, dir string) string {
	children, _, err := c.Children(dir)
	if err != nil {
		return dir
	}
	for _, child := range children {
		if _, stat, err := c.Get(dir + "/" + child); err == nil && stat.EphemeralOwner == c.sid {
			return dir + "/" + child
		}
	}
	return dir
}

// lockAgain takes the lock several times while others do so too.
func lockAgain(lock *zk.Lock, inside *atomic.Int32) error {
	for range 5 {
		if err := lock.Lock(); err != nil {
			return err
		}
		if n := inside.Add(1); n != 1 {
			return fmt.Errorf("%d hold the lock", n)
		}
		inside.Add(-1)
		if err := lock.Unlock(); err != nil {
			return err
		}
	}
	return nil
}

// Watches on data, existence and children fire for changes by any client before the fault. Watches
// set before the fault fire for changes made after it.
func TestGoWatches(t *testing.T) {
	needs.Check(t, needs.Usual)
	playGo(t, "watches", func(ctx context.Context, s *stage, c *goClient) error {
		actor := c.at.name == s.seats[len(s.seats)-1].name // of a member that lives
		for round := range 3 {
			dir := s.path(fmt.Sprintf("round%d", round))
			if actor {
				if _, err := c.Create(dir, []byte("old"), 0, world); err != nil {
					return err
				}
			}
			if err := s.meet(ctx); err != nil {
				return err
			}
			w, err := watchAll(c, dir)
			if err != nil {
				return err
			}
			pause := s.meet
			if round == 1 {
				pause = func(ctx context.Context) error { return c.disturb(ctx, s) }
			}
			if err := pause(ctx); err != nil {
				return err
			}
			if actor {
				if err := change(c, dir); err != nil {
					return fmt.Errorf("round %d: %w", round, err)
				}
			}
			if err := w.check(ctx, c); err != nil {
				return fmt.Errorf("round %d: %w", round, err)
			}
		}
		return nil
	})
}

// watchSet is one watch of each kind below dir.
type watchSet struct {
	dir                  string
	data, made, children <-chan zk.Event
}

func watchAll(c *goClient, dir string) (w watchSet, err error) {
	w.dir = dir
	if _, err = c.Sync(dir); err != nil {
		return w, err
	}
	if _, _, w.data, err = c.GetW(dir); err != nil {
		return w, err
	}
	if _, _, w.made, err = c.ExistsW(dir + "/new"); err != nil {
		return w, err
	}
	_, _, w.children, err = c.ChildrenW(dir)
	return w, err
}

// change causes one event of each kind.
func change(c *goClient, dir string) error {
	_, err := c.Set(dir, []byte("new"), 0)
	if err == nil {
		_, err = c.Create(dir+"/new", nil, 0, world)
	}
	return err
}

// check waits for the three events. A client that has got an event must see the change.
func (w watchSet) check(ctx context.Context, c *goClient) error {
	if err := event(ctx, w.data, zk.EventNodeDataChanged, w.dir); err != nil {
		return err
	}
	if data, _, err := c.Get(w.dir); err != nil || string(data) != "new" {
		return errors.Join(err, fmt.Errorf("data after the event: %q", data))
	}
	if err := event(ctx, w.made, zk.EventNodeCreated, w.dir+"/new"); err != nil {
		return err
	}
	if err := event(ctx, w.children, zk.EventNodeChildrenChanged, w.dir); err != nil {
		return err
	}
	if children, _, err := c.Children(w.dir); err != nil || !slices.Equal(children, []string{"new"}) {
		return errors.Join(err, fmt.Errorf("children after the event: %q", children))
	}
	return nil
}

// A multi happens completely or not at all, and names the operation that failed.
func TestGoMulti(t *testing.T) {
	needs.Check(t, needs.Usual)
	playGo(t, "multi", func(ctx context.Context, s *stage, c *goClient) error {
		if err := multi(c, s.path(c.at.name+"-before")); err != nil {
			return err
		}
		if err := c.disturb(ctx, s); err != nil {
			return err
		}
		return multi(c, s.path(c.at.name+"-after"))
	})
}

func multi(c *goClient, node string) error {
	results, err := c.Multi(
		&zk.CreateRequest{Path: node, Data: []byte("1"), Acl: world},
		&zk.CreateRequest{Path: node + "/child", Data: []byte("1"), Acl: world},
		&zk.CheckVersionRequest{Path: node, Version: 0},
		&zk.SetDataRequest{Path: node, Data: []byte("2"), Version: 0},
		&zk.DeleteRequest{Path: node + "/child", Version: 0},
	)
	if err != nil || len(results) != 5 || results[0].String != node || results[3].Stat == nil || results[3].Stat.Version != 1 {
		return errors.Join(err, fmt.Errorf("multi: %+v", results))
	}
	data, stat, err := c.Get(node)
	if err != nil || string(data) != "2" || stat.Version != 1 || stat.NumChildren != 0 || stat.Cversion != 2 {
		return errors.Join(err, fmt.Errorf("after the multi: %q %+v", data, stat))
	}
	results, err = c.Multi(
		&zk.CreateRequest{Path: node + "/other", Acl: world},
		&zk.CreateRequest{Path: node, Acl: world},
	)
	if !errors.Is(err, zk.ErrNodeExists) || len(results) != 2 || results[0].Error != nil || !errors.Is(results[1].Error, zk.ErrNodeExists) {
		return errors.Join(err, fmt.Errorf("multi that fails: %+v", results))
	}
	if exists, _, err := c.Exists(node + "/other"); err != nil || exists {
		return errors.Join(err, fmt.Errorf("the multi that failed left %s/other: %t", node, exists))
	}
	return nil
}

// Sequential nodes are created all the time while the leader is killed. Each create succeeds, none
// happens twice, and no number is given twice or left out.
func TestGoSequential(t *testing.T) {
	needs.Check(t, needs.Usual)
	playGo(t, "sequential", func(ctx context.Context, s *stage, c *goClient) error {
		w := &sequence{c: c, prefix: s.path(c.at.name + "-")}
		if err := w.create(10); err != nil {
			return err
		}
		through := make(chan error, 1)
		stop := make(chan struct{})
		if c.at.moves { // what is in flight when its own member is killed may or may not have happened
			through <- nil
		} else {
			go func() { through <- w.createUntil(stop) }()
		}
		err := c.disturb(ctx, s)
		close(stop)
		if err := errors.Join(err, <-through); err != nil {
			return fmt.Errorf("creates through the fault: %w", err)
		}
		if err := w.create(10); err != nil {
			return fmt.Errorf("creates after the fault: %w", err)
		}
		if err := s.meet(ctx); err != nil {
			return err
		}
		return w.check(s)
	})
}

// sequence has the nodes that one client created.
type sequence struct {
	c      *goClient
	prefix string
	names  []string
}

func (w *sequence) create(n int) error {
	for range n {
		name, err := w.c.Create(w.prefix, nil, zk.FlagSequence, world)
		if err != nil {
			return errors.Join(err, fmt.Errorf("behind %q", w.names))
		}
		w.names = append(w.names, strings.TrimPrefix(name, w.prefix))
	}
	return nil
}

// createUntil creates nodes until stop is closed, and then as many again.
func (w *sequence) createUntil(stop <-chan struct{}) error {
	for {
		select {
		case <-stop:
			return w.create(10)
		default:
			if err := w.create(1); err != nil {
				return err
			}
		}
	}
}

// check compares the replies with the existing nodes, when all are done.
func (w *sequence) check(s *stage) error {
	if _, err := w.c.Sync(s.root); err != nil {
		return err
	}
	children, stat, err := w.c.Children(s.root)
	if err != nil {
		return err
	}
	if int(stat.Cversion) != len(children) {
		return fmt.Errorf("%d children, cversion %d", len(children), stat.Cversion)
	}
	numbers := make(map[string]string) // number → seat
	var own []string
	for _, child := range children {
		who, number, _ := strings.Cut(child, "-")
		if other, twice := numbers[number]; twice {
			return fmt.Errorf("number %s is both %s's and %s's", number, other, who)
		}
		numbers[number] = who
		if who == w.c.at.name {
			own = append(own, number)
		}
	}
	if slices.Sort(own); !slices.Equal(own, w.names) {
		return fmt.Errorf("created %q, found %q", w.names, own)
	}
	if last := slices.Max(slices.Collect(maps.Keys(numbers))); last != fmt.Sprintf("%010d", len(children)-1) {
		return fmt.Errorf("%d sequential nodes end with number %s", len(children), last)
	}
	return nil
}

// srvrIsWell checks go-zookeeper's reading of srvr. While a leader is elected, there may be none.
func srvrIsWell(servers []string) error {
	leaders := 0
	stats, ok := zk.FLWSrvr(servers, process.Patience)
	for _, st := range stats {
		if st.Error != nil || st.NodeCount < 5 || st.Connections < 1 || st.Epoch < 0 {
			return fmt.Errorf("srvr of %s: %+v", st.Server, st)
		}
		if st.Mode == zk.ModeLeader || st.Mode == zk.ModeStandalone {
			leaders++
		}
	}
	if !ok || len(stats) != len(servers) || leaders != 1 {
		return fmt.Errorf("srvr: %t, %d answers, %d leaders", ok, len(stats), leaders)
	}
	return nil
}

// go-zookeeper's four-letter functions parse every living member's replies.
func TestGoFourLetterWords(t *testing.T) {
	needs.Check(t, needs.Usual)
	playGo(t, "four-letter-words", func(ctx context.Context, s *stage, c *goClient) error {
		if err := c.disturb(ctx, s); err != nil {
			return err
		}
		if _, err := c.Create(s.path(c.at.name), bytes.Repeat([]byte("x"), 1000), 0, world); err != nil {
			return err // after it there is a leader again
		}
		if err := s.meet(ctx); err != nil {
			return err
		}
		if ok := zk.FLWRuok(s.alive, process.Patience); len(ok) != len(s.alive) || slices.Contains(ok, false) {
			return fmt.Errorf("ruok: %v", ok)
		}
		wrong := errors.New("nothing was asked")
		if err := process.Until(ctx, "all are well by srvr", func() bool {
			wrong = srvrIsWell(s.alive)
			return wrong == nil
		}); err != nil {
			return fmt.Errorf("%w: %w", err, wrong)
		}
		// The parser cannot read the line about its own connection, neither here nor on ZooKeeper.
		found := 0
		lists, _ := zk.FLWCons(s.alive, process.Patience)
		for _, list := range lists {
			for _, one := range list.Clients {
				if one.SessionID == c.SessionID() && one.Received >= 2 && one.Sent >= 2 && one.LastOperation != "" && one.Timeout > 0 {
					found++
				}
			}
		}
		if len(lists) != len(s.alive) || found != 1 {
			return fmt.Errorf("cons: %d answers, session %#x is in %d of them", len(lists), c.SessionID(), found)
		}
		return s.meet(ctx) // no client closes before all have looked
	})
}
