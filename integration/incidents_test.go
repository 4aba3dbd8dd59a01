package integration

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"rollcall/integration/cluster"
	"rollcall/member"
	"rollcall/zk/jute"
)

// The tests below repeat incidents of other servers that no other test here repeats. docs/incidents.md lists all
// incidents.

// A thousand clients open sessions through both followers while there is no leader. Each is answered on its own
// connection soon after there is one, with an id that no other client has and with a session that is its own.
func TestConnectsDuringAnElection(t *testing.T) {
	const clients, timeout, limit = 1000, 20 * tick, 2 * time.Second
	unlimited := func(cfg *member.Config) { cfg.Limits.MaxClientConns = -1 }
	ensembleWith(t, cluster.Options{Adjust: unlimited}, func(t *testing.T, e *cluster.Ensemble, leader, a, b uint32) {
		e.Joined()
		e.Pause(leader) // its port stays open, so the others have to notice its silence
		results := openTogether(e, clients, timeout, a, b)
		synctest.Wait()
		if n := sessionCount(e, a) + sessionCount(e, b); n != 0 {
			t.Fatalf("%d sessions before there is a leader, so this shows nothing", n)
		}
		ids := map[jute.SessionID]bool{}
		for range clients {
			r := <-results
			switch {
			case r.err != nil:
				t.Error(r.err)
			case ids[r.id]:
				t.Errorf("session %v was given to two clients", r.id)
			case r.took > limit:
				t.Errorf("session %v was opened and used after %v, want %v at most", r.id, r.took, limit)
			}
			ids[r.id] = true
		}
		e.Resume(leader)
		e.Ready()
		e.Equal()
	})
}

// opened is a session of openTogether, or the reason why there is none.
type opened struct {
	id   jute.SessionID
	took time.Duration
	err  error
}

// openTogether opens n sessions at the same time through the members by turns, and has each create an ephemeral node:
// /own-0, /own-1 and so on.
func openTogether(e *cluster.Ensemble, n int, timeout time.Duration, members ...uint32) <-chan opened {
	results := make(chan opened)
	begun := time.Now()
	for i := range n {
		go func() {
			id, err := openItsOwn(e, members[i%len(members)], fmt.Sprint("/own-", i), timeout)
			results <- opened{id, time.Since(begun), err}
		}()
	}
	return results
}

// openItsOwn opens a session and creates an ephemeral node. It returns an error unless that node belongs to the
// session that the handshake named.
func openItsOwn(e *cluster.Ensemble, on uint32, path string, timeout time.Duration) (id jute.SessionID, err error) {
	c, err := e.Dial(on)
	if err != nil {
		return 0, fmt.Errorf("dial member %d: %w", on, err)
	}
	granted, err := c.Open(timeout)
	if err != nil {
		return 0, fmt.Errorf("open a session on member %d: %w", on, err)
	}
	create := &jute.CreateRequest{Path: []byte(path), ACL: jute.OpenACL, Flags: jute.Ephemeral}
	r, _, err := c.Call(1, jute.OpCreate, create)
	if err != nil || r.Err != jute.OK {
		return 0, fmt.Errorf("create %s: %w", path, errors.Join(r.Err, err))
	}
	s := e.Member(on).State()
	s.RLock()
	defer s.RUnlock()
	stat, code := s.Exists([]byte(path), nil, nil)
	if code != jute.OK || stat.EphemeralOwner != granted.SessionID {
		return 0, fmt.Errorf("%s: %w, owner %v, want %v", path, code, stat.EphemeralOwner, granted.SessionID)
	}
	return granted.SessionID, nil
}

// sessionCount returns the number of sessions in a member's state.
func sessionCount(e *cluster.Ensemble, member uint32) int {
	s := e.Member(member).State()
	s.RLock()
	defer s.RUnlock()
	return s.SessionCount()
}

// One leader after the other is lost, each sooner than a session's timeout, and the last one has led before. A client
// that pings keeps its session. A silent client loses its session when its timeout is over, because its member knows how
// long the client has been silent. Only the times without a leader do not count. A member measures them by pings, so
// each may be up to half a tick too long. After a change at least a third of the timeout is left.
func TestSilentSessionUnderElections(t *testing.T) {
	ensemble(t, func(t *testing.T, e *cluster.Ensemble, leader, a, b uint32) {
		const timeout = 20 * tick
		e.Joined()
		present, silent := e.Connect(timeout, e.IDs()...), e.Connect(timeout, b)
		id := silent.Session()
		silent.Abandon()
		begun, led := time.Now(), time.Now()
		gaps, changes := time.Duration(0), 0
		hasLed := map[uint32]bool{leader: true}
		for changes < 3 || !hasLed[b] {
			time.Sleep(timeout / 6)
			lost, former := time.Now(), leader
			e.Pause(leader)
			e.Wait("another leader", timeout/2, func() bool { leader = otherLeader(e, former); return leader != 0 })
			led = time.Now()
			gaps += led.Sub(lost)
			e.Resume(former)
			e.Ready()
			hasLed[leader] = true
			changes++
		}
		for owner(e, leader, id) != 0 && time.Since(begun) < 3*timeout {
			time.Sleep(tick / 20)
		}
		limit := max(timeout+gaps+time.Duration(changes)*tick/2, led.Add(timeout/3).Sub(begun)) + tick
		if lived := time.Since(begun); lived < timeout || lived > limit {
			t.Errorf("the silent session ended after %v and %d changes of leader, want %v to %v", lived, changes, timeout, limit)
		}
		if owner(e, leader, present.Session()) == 0 {
			t.Error("the session of the client that pings has ended")
		}
		e.Equal()
	})
}

// otherLeader returns a member that leads and is not former, or 0 if there is none.
func otherLeader(e *cluster.Ensemble, former uint32) uint32 {
	for _, id := range e.IDs() {
		if id != former && e.Member(id).Role() == "leader" {
			return id
		}
	}
	return 0
}

// A thousand sessions fall due together. Each time when some have ended and others have not, the leader is lost, until
// none is left. Nothing gets stuck, no node stays, and each new leader gives the sessions that are left a third of their
// timeout.
func TestLeadersChangeWhileSessionsExpire(t *testing.T) {
	const clients, timeout, slow, atLeast = 1000, 4 * tick, 20 * time.Millisecond, 3 // leaders
	unlimited := func(cfg *member.Config) { cfg.Limits.MaxClientConns = -1 }
	ensembleWith(t, cluster.Options{Adjust: unlimited}, func(t *testing.T, e *cluster.Ensemble, leader, a, b uint32) {
		e.Joined()
		results := openTogether(e, clients, timeout, a, b)
		for range clients {
			if r := <-results; r.err != nil {
				t.Error(r.err)
			}
		}
		for _, id := range e.IDs() {
			e.Disk(id).SetLatency(slow) // so that one entry after the other can be seen
		}
		changes := 0
		for left := clients; left > 0; {
			for end := time.Now().Add(timeout + 3*tick); sessionCount(e, leader) == left; time.Sleep(slow / 4) {
				if time.Now().After(end) {
					t.Fatalf("%d sessions do not expire", left)
				}
			}
			if left = sessionCount(e, leader); left == 0 {
				break
			}
			e.Pause(leader)
			former := leader
			e.Wait("another leader", timeout, func() bool { leader = otherLeader(e, former); return leader != 0 })
			e.Resume(former)
			e.Ready()
			changes++
			left = sessionCount(e, leader)
			time.Sleep(timeout/3 - tick/2)
			if n := sessionCount(e, leader); n != left {
				t.Errorf("%d of %d sessions ended before a third of the timeout under the new leader", left-n, left)
			}
		}
		if changes < atLeast {
			t.Errorf("the leader changed %d times while sessions expired, want %d", changes, atLeast)
		}
		e.Equal()
		for i := range clients {
			if path := fmt.Sprint("/own-", i); has(e, a, path) {
				t.Errorf("%s is left", path)
			}
		}
	})
}

// A session expires while a follower does not get the log. Its client has heard of the expiry from another member, and
// opens a new session on that follower. The follower replies only when it has the expiry, so the client does not find
// its former ephemeral node there and take it for its own.
func TestNewSessionAfterAnExpiry(t *testing.T) {
	ensemble(t, func(t *testing.T, e *cluster.Ensemble, leader, a, b uint32) {
		e.Joined()
		c, old := e.Open(leader, 4*tick)
		if code := create(t, c, 1, "/mine", jute.Ephemeral); code != jute.OK {
			t.Fatal(code)
		}
		_ = c.Close()
		e.Equal()
		time.Sleep(4 * tick)  // it does not expire before
		e.BlockLog(leader, a) // for less than the time after which the follower is cut off, and rejects clients
		e.Wait("the session to expire", 10*tick, func() bool { return owner(e, leader, old.SessionID) == 0 })
		refused, err := e.Dial(b)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := refused.Resume(old, 0); err != nil || got.SessionID != 0 {
			t.Fatalf("resume of the expired session: %+v, %v", got, err)
		}
		if !has(e, a, "/mine") {
			t.Fatal("the follower does not lag, so this shows nothing")
		}
		time.AfterFunc(tick/4, func() { e.UnblockLog(leader, a) })
		next, _ := e.Open(a, 10*tick)
		r, _, err := next.Call(1, jute.OpExists, &jute.ExistsRequest{Path: []byte("/mine")})
		if err != nil || r.Err != jute.NoNode {
			t.Errorf("the former ephemeral node in the new session: %v, %v; want NoNode", r.Err, err)
		}
	})
}

// The longest transaction that a configuration can allow, and the close of a session with more ephemeral nodes than
// go at once, are in the log. All members are killed. They start again from that log, and are equal.
func TestLargestTransactionsOutliveARestart(t *testing.T) {
	const maxBuffer, pieces, ephemerals = 8 << 20, 8, 3000
	largest := func(cfg *member.Config) { cfg.Limits.MaxBuffer = maxBuffer }
	ensembleWith(t, cluster.Options{Adjust: largest}, func(t *testing.T, e *cluster.Ensemble, _, a, _ uint32) {
		e.Joined()
		c, _ := e.Open(a, longest)
		large := multiCreate("/large", pieces, make([]byte, maxBuffer/pieces-100), jute.Persistent)
		if n := len(large); n < maxBuffer-100*pieces || n > maxBuffer {
			t.Fatalf("the multi has %d bytes of %d", n, maxBuffer)
		}
		for xid, m := range []raw{large, multiCreate("/e", ephemerals, nil, jute.Ephemeral)} {
			if r, _, err := c.Call(int32(xid), jute.OpMulti, m); err != nil || r.Err != jute.OK {
				t.Fatalf("multi %d: %v, %v", xid, r.Err, err)
			}
		}
		if r, _, err := c.Call(2, jute.OpCloseSession, nil); err != nil || r.Err != jute.OK {
			t.Fatalf("close: %v, %v", r.Err, err)
		}
		for _, id := range e.IDs() {
			e.Kill(id)
		}
		for _, id := range e.IDs() {
			e.Boot(id)
		}
		e.Ready()
		e.Equal()
		for _, id := range e.IDs() {
			if !has(e, id, fmt.Sprint("/large", pieces-1)) || has(e, id, "/e0") || has(e, id, fmt.Sprint("/e", ephemerals-1)) {
				t.Errorf("member %d lacks a large node, or has an ephemeral node of the closed session", id)
			}
		}
	})
}

// multiCreate returns a transaction that creates n nodes, whose names begin with prefix.
func multiCreate(prefix string, n int, data []byte, mode jute.CreateMode) raw {
	var ops []jute.MultiOp
	for i := range n {
		create := jute.CreateRequest{Path: fmt.Append(nil, prefix, i), Data: data, ACL: jute.OpenACL, Flags: mode}
		ops = append(ops, jute.MultiOp{Op: jute.OpCreate, Create: create})
	}
	return jute.AppendMulti(nil, ops)
}

// stuckSnapshots stores snapshots on a disk that takes no byte of them until release is closed.
type stuckSnapshots struct {
	raft.SnapshotStore
	stuck   *atomic.Int32 // the writes that wait
	release <-chan struct{}
}

func (s stuckSnapshots) Create(version raft.SnapshotVersion, index, term uint64, configuration raft.Configuration,
	configurationIndex uint64, trans raft.Transport,
) (raft.SnapshotSink, error) {
	sink, err := s.SnapshotStore.Create(version, index, term, configuration, configurationIndex, trans)
	return stuckSink{sink, s}, err
}

type stuckSink struct {
	raft.SnapshotSink
	store stuckSnapshots
}

func (s stuckSink) Write(b []byte) (int, error) {
	s.store.stuck.Add(1)
	<-s.store.release
	s.store.stuck.Add(-1)
	return s.SnapshotSink.Write(b)
}

// The snapshots of all members hang in their disks, for longer than an operation of the log may hang. Writes take as
// long as before, and the leader continues to lead.
func TestSnapshotsHangInTheDisk(t *testing.T) {
	const writes, pause, limit = 100, 100 * time.Millisecond, 50 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		var stuck atomic.Int32
		release := make(chan struct{})
		free := sync.OnceFunc(func() { close(release) })
		defer free() // a test that fails must not wait for the disks
		e := cluster.Start(t, 3, cluster.Options{Adjust: func(cfg *member.Config) {
			cfg.SnapCount = 20
			cfg.Stores.Snapshots = stuckSnapshots{cfg.Stores.Snapshots, &stuck, release}
		}})
		leader := e.Ready()
		e.Joined()
		before := term(e, leader)
		c, _ := e.Open(e.Followers()[0], longest)
		xid := int32(0)
		write := func() {
			xid++
			if code := create(t, c, xid, fmt.Sprint("/w", xid), jute.Persistent); code != jute.OK {
				t.Fatal(code)
			}
		}
		e.Wait("all members to write a snapshot", time.Minute, func() bool { write(); return stuck.Load() == 3 })
		for range writes {
			time.Sleep(pause)
			begun := time.Now()
			write()
			if took := time.Since(begun); took > limit {
				t.Errorf("write %d took %v while snapshots hang", xid, took)
			}
		}
		if n, after := stuck.Load(), term(e, leader); n != 3 || after != before {
			t.Errorf("%d snapshots hang, want 3; term %v, was %v", n, after, before)
		}
		free()
		e.Equal()
	})
}
