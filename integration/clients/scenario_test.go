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

	"rollcall/integration/process"
)

// settings are what every scenario is played on.
var settings = []struct {
	name       string
	members    int
	killLeader bool
}{
	{name: "standalone", members: 1},
	{name: "three-leader-killed", members: 3, killLeader: true},
}

const (
	// scenarioLimit bounds one scenario on one ensemble.
	scenarioLimit = 90 * time.Second
	// stagings is how often a scenario is set up anew because another member was
	// elected before the kill: then the one killed would not have led.
	stagings = 3
)

// errNotLeading: the member to be killed leads no more.
var errNotLeading = errors.New("the leader changed before it was killed")

// seat is where one client of a scenario sits.
type seat struct {
	name  string   // unique in the scenario, fit for a path
	hosts []string // in the order to be tried
	moves bool     // the member at hosts[0] is killed in the middle: the session goes on elsewhere
}

// stage is one scenario on one ensemble: clients act at the same time and meet.
type stage struct {
	root  string // znode of the scenario
	seats []seat
	alive []string // addresses of the members that outlive the fault
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

// meet waits until every seat is here.
func (s *stage) meet(ctx context.Context) error { return s.bar.wait(ctx, nil) }

// disturb waits until every seat is here, and for the fault. Whoever goes on then meets
// an ensemble without a leader, if the fault is to kill it.
func (s *stage) disturb(ctx context.Context) error { return s.bar.wait(ctx, s.fault) }

// act is what the client of one seat does; it calls disturb once.
type act func(ctx context.Context, s *stage, at seat) error

// play plays a scenario on every setting. filter leaves out seats, nil keeps all.
func play(t *testing.T, name string, filter func(seat) bool, act act) {
	for _, setting := range settings {
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
	e := startEnsemble(t, members)
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

// seats puts one client on each member that lives on, and one with all addresses on the
// leader that is to be killed; two on a member that is alone.
func seats(e *process.Ensemble, leader *process.Member, killLeader bool) []seat {
	if !killLeader {
		return []seat{
			{name: "a", hosts: []string{leader.Clients}},
			{name: "b", hosts: []string{leader.Clients}},
		}
	}
	all := []seat{{name: "moves", hosts: e.Addresses(leader), moves: true}}
	for _, m := range e.Members {
		if m != leader {
			all = append(all, seat{name: fmt.Sprintf("on%d", m.ID), hosts: []string{m.Clients}})
		}
	}
	return all
}

// barrier lets size goroutines go on together, again and again.
type barrier struct {
	size int

	mu      sync.Mutex
	waiting int
	open    chan struct{} // closed when the last one has come; nil when nobody waits
	err     error         // of the last one's action
}

// wait returns when all are here, and after the last one has done its action, if any,
// with the action's error.
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
