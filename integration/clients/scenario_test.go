package clients

import (
	"context"
	"errors"
	"fmt"
	"path"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"golang.org/x/sync/errgroup"

	"rollcall/lab/process"
)

// settings are the ensembles on which every scenario runs.
var settings = []struct {
	name       string
	members    int
	killLeader bool
}{
	{name: "standalone", members: 1},
	{name: "three-leader-killed", members: 3, killLeader: true},
}

const (
	// scenarioLimit is the limit for one scenario on one ensemble.
	scenarioLimit = 3 * time.Minute
	// stagings is the number of times that a scenario may be set up again because another member was elected before the
	// kill, so that the killed member would not have been the leader.
	stagings = 3
)

// errNotLeading says that the member to be killed no longer leads.
var errNotLeading = errors.New("the leader changed before it was killed")

// seat is the place of one client in a scenario.
type seat struct {
	name  string   // unique in the scenario, fit for a path
	hosts []string // in the order in which to try them
	moves bool     // the member at hosts[0] is killed in the middle, and the session goes on elsewhere
}

// stage is one scenario on one ensemble. Its clients act at the same time and wait for each other.
type stage struct {
	root  string // znode of the scenario
	seats []seat
	alive []string // addresses of the members that survive the fault
	fault func() error
	bar   barrier
}

// names returns the names of all seats.
func (s *stage) names() []string {
	var names []string
	for _, seat := range s.seats {
		names = append(names, seat.name)
	}
	return names
}

// path returns a path below the scenario's znode.
func (s *stage) path(parts ...string) string {
	return path.Join(append([]string{s.root}, parts...)...)
}

// meet waits until every client has called it.
func (s *stage) meet(ctx context.Context) error { return s.bar.wait(ctx, nil) }

// disturb waits until every client has called it, and for the fault. If the fault kills the leader,
// the clients then find an ensemble without one.
func (s *stage) disturb(ctx context.Context) error { return s.bar.wait(ctx, s.fault) }

// act is the part of the client of one seat; it calls disturb once.
type act func(ctx context.Context, s *stage, at seat) error

// play runs a scenario on every setting. filter selects seats; nil keeps all.
func play(t *testing.T, name string, filter func(seat) bool, act act) {
	for _, setting := range settings {
		if testing.Short() && !setting.killLeader {
			continue
		}
		t.Run(setting.name, func(t *testing.T) {
			var err error
			for range stagings {
				if err = playOnce(t, name, setting.members, setting.killLeader, filter, act); !errors.Is(err, errNotLeading) {
					break
				}
				t.Log(err)
			}
			if err != nil {
				t.Fatal(err)
			}
			fmt.Printf("client scenario: %s %s ok\n", name, setting.name)
		})
	}
}

func playOnce(t *testing.T, name string, members int, killLeader bool, filter func(seat) bool, act act) error {
	e := process.StartEnsemble(t, process.Config{Binary: rollcall, Size: members, Tick: tick, Lines: fewElections})
	defer e.KillAll() // another staging needs the machine
	leader := e.Settle()
	s := &stage{root: "/" + name, fault: func() error { return nil }}
	if killLeader {
		s.fault = func() error {
			if leader.Mode() != "leader" {
				return errNotLeading
			}
			leader.Process.Kill()
			return nil
		}
	}
	for _, seat := range seats(e, leader, killLeader) {
		if filter == nil || filter(seat) {
			s.seats = append(s.seats, seat)
		}
	}
	for _, m := range e.Members {
		if m != leader || !killLeader {
			s.alive = append(s.alive, m.Clients)
		}
	}
	s.bar.size = len(s.seats)

	ctx, cancel := context.WithTimeout(t.Context(), scenarioLimit)
	defer cancel()
	setup := client(ctx, t, e)
	if _, err := setup.Create(s.root, nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
		return fmt.Errorf("create %s: %w", s.root, err)
	}
	setup.Close()
	g, ctx := errgroup.WithContext(ctx)
	for _, at := range s.seats {
		g.Go(func() error {
			if err := act(ctx, s, at); err != nil {
				return fmt.Errorf("client %s of %v: %w", at.name, at.hosts, err)
			}
			return nil
		})
	}
	return g.Wait()
}

// seats returns one client for each surviving member, and one with all addresses that begins at the
// leader that is to be killed. If killLeader is false, it returns two clients of a single member.
func seats(e *process.Ensemble, leader *process.Member, killLeader bool) []seat {
	if !killLeader {
		return []seat{
			{name: "a", hosts: []string{leader.Clients}},
			{name: "b", hosts: []string{leader.Clients}},
		}
	}
	all := []seat{{name: "moves", hosts: e.ClientAddresses(leader), moves: true}}
	for _, m := range e.Members {
		if m != leader {
			all = append(all, seat{name: fmt.Sprintf("on%d", m.ID), hosts: []string{m.Clients}})
		}
	}
	return all
}

// barrier lets size goroutines continue together, again and again.
type barrier struct {
	size int

	mu      sync.Mutex
	waiting int
	open    chan struct{} // closed when the last one has arrived; nil while none waits
	err     error         // of the last one's action
}

// wait returns when all goroutines have called it and the last one has run its action, if any, with
// the action's error.
func (b *barrier) wait(ctx context.Context, action func() error) error {
	b.mu.Lock()
	if b.waiting == 0 {
		b.open = make(chan struct{})
	}
	open := b.open
	if b.waiting++; b.waiting == b.size {
		if b.waiting = 0; action != nil {
			b.err = action()
		}
		close(open)
	}
	b.mu.Unlock()
	select {
	case <-open:
	case <-ctx.Done():
		return fmt.Errorf("wait for the other clients: %w", ctx.Err())
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}
