package integration

import (
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/config"
	"rollcall/integration/cluster"
	"rollcall/member"
	"rollcall/zk/jute"
)

// bound is a listener that reports a wildcard as its address, as in a container.
type bound struct{ net.Listener }

type wildcard struct{}

func (wildcard) Network() string { return "tcp" }
func (wildcard) String() string  { return "0.0.0.0:3888" }

func (bound) Addr() net.Addr { return wildcard{} }

// All members bind one address, the wildcard, and advertise different ones. Two of them are
// candidates in one term. The third, which hears from both, elects one.
func TestTwoCandidatesBehindOneBindAddress(t *testing.T) {
	var seen terms
	wild := cluster.Options{Events: seen.hear, Adjust: func(cfg *member.Config) {
		listen, addrs := cfg.Network.Listen, map[string]string{}
		cfg.BindAddress = func(addr string) string {
			b := fmt.Sprint("0.0.0.0:", len(addrs)) // its ports are the same on all members
			addrs[b] = addr
			return b
		}
		cfg.Network.Listen = func(addr string) (net.Listener, error) {
			l, err := listen(addrs[addr])
			return bound{l}, err
		}
	}}
	synctest.Test(t, func(t *testing.T) {
		e := cluster.Start(t, 3, wild)
		e.Ready()
		e.Joined()
		contested := 0
		for i := 0; contested < 2; i++ { // raft draws its timeouts at random
			if i == 60 {
				t.Fatalf("%d of %d elections had two candidates in one term, want 2: this shows nothing", contested, i)
			}
			c, ids := e.Leader(), e.Followers()
			a, b := ids[0], ids[1]
			e.Kill(c)
			e.Network.Cut(a, b)
			for _, id := range ids { // both become candidates before either hears from the other
				e.Network.DelayBy(id, c, tick/20)
			}
			time.Sleep(tick) // they have given the leader up
			e.Boot(c)
			both := false
			e.Wait("a leader", 20*tick, func() bool {
				both = both || e.Disk(a).Votes(a) > 0 && e.Disk(a).Votes(a) == e.Disk(b).Votes(b)
				return len(leaders(e)) > 0
			})
			time.Sleep(tick)
			if both {
				contested++
			}
			for _, id := range ids {
				e.Network.DelayBy(id, c, 0)
			}
			e.Network.Heal(a, b)
			e.Ready()
			client := e.Connect(10 * tick)
			if _, err := client.Create(fmt.Sprint("/n", i), nil, jute.Persistent); err != nil {
				t.Fatal(err)
			}
			client.Abandon()
			e.Equal()
		}
	})
	led := map[uint64]uint32{}
	for _, l := range seen.all() {
		if by, ok := led[l.Term]; ok && by != l.Member {
			t.Errorf("members %d and %d led in term %d", by, l.Member, l.Term)
		}
		led[l.Term] = l.Member
	}
}

// The old leader is writing an entry, and has others waiting, when the first heartbeat of the next leader arrives. It
// replies when it has written. Its entries are replaced, and the transactions in them are done once.
func TestHeartbeatOfANewTermMeetsAnApply(t *testing.T) {
	watched(t, cluster.Options{}, func(t *testing.T, e *cluster.Ensemble, seen *terms) {
		old := e.Leader()
		ids := e.Followers()
		writers := startWriters(t, e, rand.New(rand.NewPCG(1, 7)), sessions, 100, sessionTimeout, 20*time.Millisecond)
		for told(writers) < 20 {
			time.Sleep(time.Millisecond)
		}
		first := len(seen.all())
		for _, id := range ids {
			e.Network.Hang(old, id) // everything that it sends: entries and heartbeats
		}
		e.Disk(old).SetLatency(tick / 5)
		e.Wait("another leader", 5*tick, func() bool { return len(seen.all()) > first })
		for _, id := range ids {
			e.Network.EndHang(old, id)
		}
		time.Sleep(3 * tick)
		e.Disk(old).SetLatency(0)
		e.Wait("the writers", writersLimit, func() bool { return finished(writers) })
		if l := leaders(e); len(l) != 1 || l[0] == old {
			t.Errorf("members %v lead, want one, and not %d", l, old)
		}
		e.Equal()
		for _, w := range writers {
			w.check(t)
		}
	})
}

// A leader that is cut off continues to write, at indexes that the others give to other entries meanwhile. When it is
// back, heartbeats, requests and notices report commits far beyond the entries that it shares with the others. No entry
// of its own tail is applied, all of the tail is replaced, and its transactions are sent again.
func TestCommitBeyondAConflictingTail(t *testing.T) {
	watched(t, cluster.Options{}, func(t *testing.T, e *cluster.Ensemble, seen *terms) {
		old := e.Leader()
		ids := e.Followers()
		lone, _ := e.Open(old, longest)
		c := e.Connect(longest, ids...)
		write(t, c, "/common", 3, nil)
		e.Equal()
		e.Isolate(old)
		for i := range int32(30) {
			if err := lone.Send(i+1, jute.OpCreate, &jute.CreateRequest{Path: fmt.Appendf(nil, "/tail%d", i), ACL: jute.OpenACL}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(tick / 200)
		}
		e.Wait("another leader", 5*tick, func() bool { return len(seen.all()) == 2 })
		write(t, c, "/instead", 100, nil)
		tail, instead := termsOf(e, old), termsOf(e, ids[0])
		if slices.Equal(tail, instead[:len(tail)]) {
			t.Fatal("the old leader's log does not contradict the others': this shows nothing")
		}
		e.Rejoin(old)
		write(t, c, "/after", 10, nil)
		e.Equal()
		logs := [][]uint64{termsOf(e, old), termsOf(e, ids[0]), termsOf(e, ids[1])}
		if n := min(len(logs[0]), len(logs[1]), len(logs[2])); !slices.Equal(logs[0][:n], logs[1][:n]) ||
			!slices.Equal(logs[1][:n], logs[2][:n]) {
			t.Errorf("logs differ: %v", logs)
		}
		for i := range int32(30) { // its client has been waiting, because the member has sent them again
			if r, err := lone.Recv(); err != nil || r.Xid != i+1 || r.Err != jute.OK {
				t.Fatalf("write %d of the old leader's client: %v, %v", i, r, err)
			}
		}
	})
}

// termsOf returns the terms of a member's log entries.
func termsOf(e *cluster.Ensemble, member uint32) (terms []uint64) {
	for _, l := range e.Disk(member).Log() {
		terms = append(terms, l.Term)
	}
	return terms
}

// A live leader seems to be dead, again and again: its connections for the log are reset, its port rejects new ones, or
// both. Nothing is lost. Only both together cost it its leadership, and each member stands only once in ten election
// timeouts.
func TestForgedEvidence(t *testing.T) {
	t.Parallel()
	const (
		members  = 3
		election = tick / 4
		window   = 10 * election
	)
	for seed := range uint64(8) {
		for what, ways := range map[string]cluster.Ways{"reset": cluster.Out, "refused": cluster.In, "both": cluster.In | cluster.Out} {
			t.Run(fmt.Sprintf("%s/seed=%d", what, seed), func(t *testing.T) {
				watched(t, cluster.Options{Write: 2 * time.Millisecond}, func(t *testing.T, e *cluster.Ensemble, seen *terms) {
					rng := rand.New(rand.NewPCG(seed, 12))
					writers := startWriters(t, e, rng, sessions, 200, sessionTimeout, 60*time.Millisecond)
					first, begin := len(seen.all()), time.Now()
					for !finished(writers) {
						if l := leaders(e); len(l) == 1 {
							e.Shut(l[0], cluster.RaftPort, ways)
							time.Sleep(20*time.Millisecond + time.Duration(rng.Int64N(int64(60*time.Millisecond))))
							e.Unshut(l[0], cluster.RaftPort, ways)
						}
						// A heartbeat comes at most 50 ms after the one before, and 20 ms later after a few that failed. So
						// one passes between two faults, and no member misses the leader for as long as an election timeout.
						time.Sleep(100*time.Millisecond + time.Duration(rng.Int64N(int64(120*time.Millisecond))))
					}
					changes, windows := len(seen.all())-first, int(time.Since(begin)/window)
					switch {
					case what != "both" && changes > 0:
						t.Errorf("%d changes of leader, want none", changes)
					case what == "both" && (changes == 0 || changes > members*(windows+1)):
						t.Errorf("%d changes of leader in %v, want 1 to %d", changes, time.Since(begin), members*(windows+1))
					}
					e.Ready()
					e.Equal()
					for _, w := range writers {
						w.check(t)
					}
				})
			})
		}
	}
}

// A leader that is silent for 200 ms continues to lead. A leader that is cut off, or hangs, is replaced within three
// times the time for which it may be silent, as a rule, and always within five times.
func TestSilentLeader(t *testing.T) {
	const silence = config.DefaultHeartbeatTimeout
	opts := cluster.Options{Adjust: func(cfg *member.Config) { cfg.HeartbeatTimeout = silence }}
	watched(t, opts, func(t *testing.T, e *cluster.Ensemble, seen *terms) {
		for range 20 {
			lead := e.Leader()
			e.Pause(lead)
			time.Sleep(200 * time.Millisecond)
			e.Resume(lead)
			time.Sleep(tick)
		}
		if n := len(seen.all()); n != 1 {
			t.Errorf("%d leaders, want the first one", n)
		}
		var took []time.Duration
		for i := range 20 {
			old, n, begin := e.Leader(), len(seen.all()), time.Now()
			silent, end := e.Isolate, e.Rejoin
			if i%2 == 0 {
				silent, end = e.Pause, e.Resume
			}
			silent(old)
			e.Wait("another leader", 5*silence, func() bool { return len(seen.all()) > n })
			took = append(took, time.Since(begin))
			end(old)
			e.Ready()
			time.Sleep(2 * tick)
		}
		if slices.Sort(took); took[len(took)/2] > 3*silence {
			t.Errorf("replaced after %v, want %v for most of them", took, 3*silence)
		}
	})
}
