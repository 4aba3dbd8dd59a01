package integration

import (
	"context"
	"fmt"
	"testing"
	"time"

	"rollcall/integration/cluster"
	"rollcall/operator/api"
)

// deadTick and deadTimeout are for clients that fall silent while leaders change.
const (
	deadTick    = 2 * time.Second
	deadTimeout = 20 * deadTick
)

// A client falls silent, and the leader is killed three times. Its session ends when its timeout is over, the times without a leader
// apart, and at most a tick later. If its member is killed, too, nobody knows when the client was heard, and the timeout counts from
// when the member was lost: also when that member runs again, and when others lead. Clients that ping keep their sessions.
func TestSilentSessionOutlivesNoKills(t *testing.T) {
	for place := range 3 {
		for down := range 3 {
			t.Run(fmt.Sprintf("member %d, down for %d ticks", place+1, 2*down), func(t *testing.T) {
				ensembleWith(t, cluster.Options{Tick: deadTick}, func(t *testing.T, e *cluster.Ensemble, _, _, _ uint32) {
					changeLeaders(t, e, uint32(place+1), func(leader uint32) (next uint32, led time.Time) {
						e.Kill(leader)
						e.Wait("another leader", deadTimeout/2, func() bool { next = otherRunningLeader(e, leader); return next != 0 })
						led = time.Now()
						time.Sleep(time.Duration(2*down) * deadTick)
						e.Boot(leader)
						return next, led
					})
				})
			})
		}
	}
}

// The same with leaders that hand over: every member still knows when it heard its clients.
func TestSilentSessionOutlivesNoHandOvers(t *testing.T) {
	for place := range 3 {
		t.Run(fmt.Sprintf("member %d", place+1), func(t *testing.T) {
			ensembleWith(t, cluster.Options{Tick: deadTick, HTTP: true}, func(t *testing.T, e *cluster.Ensemble, _, _, _ uint32) {
				changeLeaders(t, e, uint32(place+1), func(leader uint32) (next uint32, led time.Time) {
					ctx, cancel := context.WithTimeout(t.Context(), deadTimeout/4)
					defer cancel()
					if _, err := api.Post[api.MembersLed](ctx, e.Operator(leader), "members/lead", api.MembersLead{Member: leader%3 + 1}); err != nil {
						t.Fatal(err)
					}
					e.Wait("another leader", deadTimeout/4, func() bool { next = otherRunningLeader(e, leader); return next != 0 })
					return next, time.Now()
				})
			})
		})
	}
}

// otherRunningLeader returns a member that runs, leads and is not former, or 0 if there is none.
func otherRunningLeader(e *cluster.Ensemble, former uint32) uint32 {
	for _, id := range e.IDs() {
		if id != former && e.Running(id) && e.Member(id).Role() == "leader" {
			return id
		}
	}
	return 0
}

// changeLeaders lets a client of a member fall silent, and changes the leader three times. change returns the next leader.
func changeLeaders(t *testing.T, e *cluster.Ensemble, place uint32, change func(leader uint32) (next uint32, led time.Time)) {
	e.Joined()
	var present []*cluster.Client
	for _, id := range e.IDs() {
		present = append(present, e.Connect(deadTimeout/4, append([]uint32{id}, e.IDs()...)...))
	}
	silent := e.Connect(deadTimeout, place)
	id := silent.Session()
	silent.Abandon()
	from, begun := time.Now(), time.Now()
	var gaps time.Duration
	var led time.Time
	leader := e.Ready()
	for range 3 {
		time.Sleep(deadTimeout / 6)
		lost, former, boot := time.Now(), leader, e.Booted(place)
		leader, led = change(leader)
		if e.Booted(place) != boot && from == begun {
			from, gaps = lost, 0 // its member was lost, and with it what it knew
		}
		gaps += led.Sub(lost)
		t.Logf("%v: member %d leads after %d", led.Sub(begun), leader, former)
		leader = e.Ready()
	}
	for owner(e, leader, id) != 0 && time.Since(begun) < 3*deadTimeout {
		time.Sleep(deadTick / 20)
	}
	limit := deadTimeout + gaps + deadTick + 3*deadTick/2 // members count a time without a leader from its last ping
	if lived := time.Since(from); time.Since(begun) < deadTimeout || lived > limit {
		t.Errorf("the silent session ended after %v, %v after its member was last known to have heard it, want %v to %v", time.Since(begun), lived, deadTimeout, limit)
	}
	for _, c := range present {
		if owner(e, leader, c.Session()) == 0 {
			t.Errorf("session %v, whose client pings, has ended", c.Session())
		}
	}
	e.Equal()
}
