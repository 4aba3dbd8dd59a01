package integration

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/cluster"
	"rollcall/member"
	"rollcall/operator/api"
)

// deadTick and deadTimeout are for clients that fall silent while leaders change, and lookEvery for looking whether a member leads.
const (
	deadTick    = 2 * time.Second
	deadTimeout = 20 * deadTick
	lookEvery   = deadTick / 200
)

// A client falls silent, and the leader is killed three times. Its session ends when its timeout is over, the times
// without a leader apart, and at most a tick later. If its member is killed, too, no member knows when the client was
// heard, and the timeout counts from the loss of the member: also when that member runs again, and when others lead.
// Clients that ping keep their sessions.
func TestSilentSessionOutlivesNoKills(t *testing.T) {
	for place := range 3 {
		for down := range 3 {
			t.Run(fmt.Sprintf("member %d, down for %d ticks", place+1, 2*down), func(t *testing.T) {
				ensembleWith(t, cluster.Options{Tick: deadTick}, func(t *testing.T, e *cluster.Ensemble, _, _, _ uint32) {
					changeLeaders(t, e, uint32(place+1), sincePing(down), func(leader uint32) (next uint32, led time.Time) {
						elected := watchForLeader(e, leader)
						e.Kill(leader) // takes a tick
						next, led = elected()
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
		for phase := range 4 {
			t.Run(fmt.Sprintf("member %d, %v after a ping", place+1, sincePing(phase)), func(t *testing.T) {
				ensembleWith(t, cluster.Options{Tick: deadTick, HTTP: true}, func(t *testing.T, e *cluster.Ensemble, _, _, _ uint32) {
					changeLeaders(t, e, uint32(place+1), sincePing(phase), func(leader uint32) (next uint32, led time.Time) {
						ctx, cancel := context.WithTimeout(t.Context(), deadTimeout/4)
						defer cancel()
						elected := watchForLeader(e, leader)
						if _, err := api.Post[api.MembersLed](ctx, e.Operator(leader), "members/lead", api.MembersLead{Member: leader%3 + 1}); err != nil {
							t.Fatal(err)
						}
						return elected()
					})
				})
			})
		}
	}
}

// The same among five members, with leaders that are killed, that pause, and that are cut off, at different times after a ping.
func TestSilentSessionEndsOnTime(t *testing.T) {
	faults := map[string]struct {
		begin, end func(e *cluster.Ensemble, leader uint32)
	}{
		"killed":  {(*cluster.Ensemble).Kill, (*cluster.Ensemble).Boot},
		"paused":  {(*cluster.Ensemble).Pause, (*cluster.Ensemble).Resume},
		"cut off": {(*cluster.Ensemble).Isolate, (*cluster.Ensemble).Rejoin},
	}
	for name, fault := range faults {
		for phase := range 4 {
			t.Run(fmt.Sprintf("%s, %v after a ping", name, sincePing(phase)), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					e := cluster.Start(t, 5, cluster.Options{Tick: deadTick})
					place := (e.Ready()+uint32(phase))%5 + 1
					changeLeaders(t, e, place, sincePing(phase), func(leader uint32) (next uint32, led time.Time) {
						elected := watchForLeader(e, leader)
						fault.begin(e, leader)
						next, led = elected()
						fault.end(e, leader)
						return next, led
					})
				})
			})
		}
	}
}

// sincePing is one of four times between two pings.
func sincePing(phase int) time.Duration { return time.Duration(phase) * deadTick / 2 / 4 }

// untilPing bounds the rest of a time without a leader: from when a member has its role until its first ping has reached the others.
const untilPing = deadTick / 16

// watchForLeader polls from now on for another leader than former. The function that it returns waits for one, and
// returns it and the time when it was found.
func watchForLeader(e *cluster.Ensemble, former uint32) (elected func() (next uint32, led time.Time)) {
	others := map[uint32]*member.Member{}
	for _, id := range e.IDs() {
		if id != former && e.Running(id) {
			others[id] = e.Member(id)
		}
	}
	var next uint32
	var led time.Time
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for begun := time.Now(); next == 0 && time.Since(begun) < deadTimeout/2; time.Sleep(lookEvery) {
			for id, m := range others {
				if m.Role() == "leader" {
					next, led = id, time.Now()
				}
			}
		}
	}()
	return func() (uint32, time.Time) {
		<-ended
		return next, led
	}
}

// changeLeaders lets a client of a member fall silent, and changes the leader three times, each time when the members have been ready for a
// sixth of the client's timeout and for another time. change returns the next leader.
func changeLeaders(t *testing.T, e *cluster.Ensemble, place uint32, after time.Duration,
	change func(leader uint32) (next uint32, led time.Time),
) {
	e.Joined()
	var present []*cluster.Client
	for _, id := range e.IDs() {
		present = append(present, e.Connect(deadTimeout/4, append([]uint32{id}, e.IDs()...)...))
	}
	silent := e.Connect(deadTimeout, place)
	id := silent.Session()
	silent.Abandon()
	from, begun := time.Now(), time.Now()
	var gaps, away, unseen time.Duration
	var led time.Time
	leader := e.Ready()
	for range 3 {
		time.Sleep(deadTimeout/6 + after)
		lost, former, boot := time.Now(), leader, e.Booted(place)
		leader, led = change(leader)
		if leader == 0 {
			t.Fatalf("nobody leads after member %d", former)
		}
		if e.Booted(place) != boot && from == begun {
			from, gaps = lost, 0 // its member was lost, and with it what it knew
		}
		gaps += led.Sub(lost)
		unseen += untilPing
		if former == place && led.Sub(lost) > deadTick/4 {
			away = deadTick / 2 // it was paused or cut off itself, and until the next leader reaches it
		}
		t.Logf("%v: member %d leads after %d, and nobody for %v", led.Sub(begun), leader, former, led.Sub(lost))
		leader = e.Ready()
	}
	for owner(e, leader, id) != 0 && time.Since(begun) < 3*deadTimeout {
		time.Sleep(deadTick / 20)
	}
	least := deadTimeout + gaps
	limit := max(least, led.Sub(from)+deadTimeout/3) + deadTick + away + unseen // a third of the timeout is always left
	if from != begun {
		least = 0 // the member may have been lost when the session had ended
	}
	if lived := time.Since(from); lived < least-lookEvery || time.Since(begun) < deadTimeout || lived > limit {
		t.Errorf("the silent session ended after %v, %v after its member was last known to have heard it, want %v to %v",
			time.Since(begun), lived, least, limit)
	}
	for _, c := range present {
		if owner(e, leader, c.Session()) == 0 {
			t.Errorf("session %v, whose client pings, has ended", c.Session())
		}
	}
	e.Equal()
}
