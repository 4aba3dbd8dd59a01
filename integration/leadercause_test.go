package integration

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/cluster"
	"rollcall/member"
	"rollcall/operator/api"
	"rollcall/operator/logs/logtest"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// causeHooks records the cause of each term by the hooks of one member.
type causeHooks struct {
	hanging
	mu  sync.Mutex
	why map[uint64]znode.LeaderCause // the last one of each term
}

func (h *causeHooks) TermStarted(t znode.Term, why znode.LeaderCause) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.why[t.Term] = why
}

// causes are the places in which members show why the leader has changed.
type causes struct {
	*cluster.Ensemble
	t     *testing.T
	hooks map[uint32]*causeHooks // by member
	logs  map[uint32]*logtest.Buffer
	terms *terms
}

func withCauses(t *testing.T, members int, run func(t *testing.T, c *causes)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &causes{t: t, hooks: map[uint32]*causeHooks{}, logs: map[uint32]*logtest.Buffer{}, terms: &terms{}}
		for id := range uint32(members) {
			c.logs[id+1] = &logtest.Buffer{}
		}
		c.Ensemble = cluster.Start(t, members, cluster.Options{
			HTTP: true, Events: c.terms.hear,
			Logger: func(id uint32) *slog.Logger { return slog.New(slog.NewTextHandler(c.logs[id], nil)) },
			Adjust: func(cfg *member.Config) {
				h := &causeHooks{why: map[uint64]znode.LeaderCause{}}
				c.hooks[cfg.ID], cfg.Hooks = h, h
			},
		})
		c.Ready()
		if members > 1 {
			c.Joined()
		}
		run(t, c)
	})
}

// lastLeader returns the last change of the leader with which a member's stream of events begins.
func (c *causes) lastLeader(id uint32) (last api.LeaderEvent) {
	c.t.Helper()
	enough := errors.New("the last changes come first")
	err := c.Operator(id).GetStream(c.t.Context(), "events", nil, func(r io.Reader) error {
		event := ""
		for lines := bufio.NewScanner(r); lines.Scan(); {
			switch field, value, _ := strings.Cut(lines.Text(), ": "); {
			case field == "event" && value != "leader":
				return enough
			case field == "event":
				event = value
			case field == "data" && event == "leader":
				if err := json.Unmarshal([]byte(value), &last); err != nil {
					return err
				}
			}
		}
		return io.ErrUnexpectedEOF
	})
	if !errors.Is(err, enough) {
		c.t.Fatalf("the events of member %d: %v", id, err)
	}
	return last
}

// shown checks that all running members show one cause of the last change of the leader, in every place. It returns the
// cause without the time of a silence, and that time.
func (c *causes) shown() (znode.LeaderCause, time.Duration) {
	c.t.Helper()
	leader := c.Leader()
	c.Equal()
	opened := c.terms.all()
	last := opened[len(opened)-1]
	why := last.Cause
	if last.Member != leader {
		c.t.Errorf("the last event is about member %d, and member %d leads", last.Member, leader)
	}
	for _, id := range c.IDs() {
		if !c.Running(id) {
			continue
		}
		h := c.hooks[id]
		h.mu.Lock()
		heard := h.why[last.Term]
		h.mu.Unlock()
		if heard != why {
			c.t.Errorf("the hook of member %d has %q, want %q", id, heard, why)
		}
		want := api.LeaderEvent{LeaderID: leader, Term: last.Term, Cause: why.Kind.String(), FormerID: why.Former, SilentMs: why.Silent.Milliseconds()}
		got := c.lastLeader(id)
		if got.At = (time.Time{}); got != want {
			c.t.Errorf("the events of member %d end with %+v, want %+v", id, got, want)
		}
		if line := fmt.Sprintf("leader=%d term=%d cause=%q", leader, last.Term, why); id != leader &&
			!strings.Contains(c.logs[id].String(), line) {
			c.t.Errorf("the log of member %d lacks %s:\n%s", id, line, c.logs[id])
		}
	}
	silent := why.Silent
	why.Silent = 0
	return why, silent
}

// want checks what shown returns.
func (c *causes) want(want znode.LeaderCause) {
	c.t.Helper()
	if got, silent := c.shown(); got != want || (silent > 0) != (want.Kind == znode.LeaderSilent) {
		c.t.Errorf("the cause is %q, silent for %v, want %q", got, silent, want)
	}
}

// replaced waits until another member than old leads.
func (c *causes) replaced(old uint32) {
	c.t.Helper()
	c.Wait("another leader", 20*tick, func() bool {
		for _, id := range c.IDs() {
			if id != old && c.Running(id) && c.Member(id).Role() == "leader" {
				return true
			}
		}
		return false
	})
}

// An operator, a stop and a drain hand leadership over.
func TestLeaderCauseHandOver(t *testing.T) {
	withCauses(t, 3, func(t *testing.T, c *causes) {
		old, next := c.Leader(), c.Followers()[0]
		if _, err := api.Post[map[string]any](t.Context(), c.Operator(c.Followers()[1]), "members/lead", map[string]uint32{"member": next}); err != nil {
			t.Fatal(err)
		}
		c.replaced(old)
		c.want(znode.LeaderCause{Kind: znode.LeaderHandedOver, Former: old})
		c.Stop(next)
		c.replaced(next)
		c.want(znode.LeaderCause{Kind: znode.LeaderHandedOver, Former: next})
		c.Boot(next)
		c.Ready()
		c.Joined()
		drained := c.Leader()
		if _, err := api.Post[map[string]any](t.Context(), c.Operator(drained), "drain", map[string]int{"over_ms": 0}); err != nil {
			t.Fatal(err)
		}
		c.replaced(drained)
		c.want(znode.LeaderCause{Kind: znode.LeaderHandedOver, Former: drained})
	})
}

// A leader's process ends, in an ensemble of three, and in one of two, which has no leader until it is back.
func TestLeaderCauseDeath(t *testing.T) {
	withCauses(t, 3, func(t *testing.T, c *causes) {
		old := c.Leader()
		c.Kill(old)
		c.replaced(old)
		c.want(znode.LeaderCause{Kind: znode.LeaderDied, Former: old})
		c.Boot(old)
		c.Ready()
		c.want(znode.LeaderCause{Kind: znode.LeaderDied, Former: old}) // the log says so, at any later time
	})
	withCauses(t, 2, func(t *testing.T, c *causes) {
		old := c.Leader()
		c.Kill(old)
		time.Sleep(10 * tick)
		c.Boot(old)
		c.Ready()
		want := znode.LeaderCause{Kind: znode.LeaderDied, Former: old}
		if c.Leader() == old {
			want = znode.LeaderCause{Kind: znode.LeaderStarted}
		}
		c.want(want)
	})
}

// The cause for a leader that is out of reach is silence, not death.
func TestLeaderCauseSilence(t *testing.T) {
	for name, fault := range map[string]func(c *causes, id uint32){
		"paused":  func(c *causes, id uint32) { c.Pause(id) },
		"cut off": func(c *causes, id uint32) { c.Isolate(id) },
	} {
		t.Run(name, func(t *testing.T) {
			withCauses(t, 3, func(t *testing.T, c *causes) {
				old, begun := c.Leader(), time.Now()
				fault(c, old)
				c.replaced(old)
				took := time.Since(begun)
				if name == "paused" {
					c.Resume(old)
				} else {
					c.Rejoin(old)
				}
				c.Ready()
				why, silent := c.shown()
				if want := (znode.LeaderCause{Kind: znode.LeaderSilent, Former: old}); why != want || silent < tick/4 || silent > took+tick/4 {
					t.Errorf("the cause is %q, silent for %v, want %q, from %v to %v", why, silent, want, tick/4, took)
				}
			})
		})
	}
}

// A leader without a majority steps down. Only it can be elected again, because the others lack its last entry.
func TestLeaderCauseElectedAgain(t *testing.T) {
	withCauses(t, 3, func(t *testing.T, c *causes) {
		old, others := c.Leader(), c.Followers()
		client := c.Connect(20*time.Second, old)
		for i, a := range c.IDs() {
			for _, b := range c.IDs()[i+1:] {
				c.Network.Cut(a, b)
			}
		}
		client.Go(jute.OpCreate, &jute.CreateRequest{Path: []byte("/long"), ACL: jute.OpenACL})
		c.Wait("the leader to step down", 20*tick, func() bool { return c.Member(old).Role() != "leader" })
		time.Sleep(10 * tick) // a request that still tries to connect would carry the entry to a follower after the link is healed
		c.Network.Heal(old, others[0])
		c.Wait("the leader to lead again", 60*tick, func() bool { return c.Member(old).Role() == "leader" })
		c.Network.Heal(old, others[1])
		c.Network.Heal(others[0], others[1])
		c.Ready()
		c.want(znode.LeaderCause{Kind: znode.LeaderElectedAgain, Former: old})
	})
}

// A term that a leader begins once more, because raft has rejected an entry, has a cause of its own. No hook or event of the
// former cause comes again.
func TestLeaderCauseResumed(t *testing.T) {
	withCauses(t, 3, func(t *testing.T, c *causes) {
		leader := c.Leader()
		c.want(znode.LeaderCause{Kind: znode.LeaderStarted})
		client := c.Connect(20*time.Second, leader)
		c.Gate(leader).Refuse(1)
		client.Go(jute.OpCreate, &jute.CreateRequest{Path: []byte("/refused"), ACL: jute.OpenACL})
		c.Wait("another term", 5*tick, func() bool { return len(c.terms.all()) == 2 })
		c.Gate(leader).Release()
		c.want(znode.LeaderCause{Kind: znode.LeaderResumed, Former: leader})
	})
}

// The only member of an ensemble has no leader before it.
func TestLeaderCauseOfOne(t *testing.T) {
	withCauses(t, 1, func(t *testing.T, c *causes) {
		c.want(znode.LeaderCause{Kind: znode.LeaderStarted})
	})
}
