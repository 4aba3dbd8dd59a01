package cluster

import (
	"math/rand/v2"
	"slices"
	"time"
)

const (
	// outrunStep is the interval at which an outrun checks the disks. It is far less than a write takes there.
	outrunStep = time.Millisecond
	// outrunPatience bounds the wait for the followers, and then the wait for a leader among those without
	// the entry. Other faults may prevent both.
	outrunPatience = 4 * time.Second
)

// outrunFault is a crash of a leader and of the followers that are ahead of its disk. The leader and all others are
// a majority, which continues without the entry. So no client may have seen the entry before.
type outrunFault struct {
	*planPlayer
	played  Played
	ahead   []uint32 // the followers that get the entry, and crash
	behind  []uint32 // those that the leader's log does not reach meanwhile
	latency time.Duration
	since   time.Time // since when they have been ahead; zero: they are not
}

// OutrunCount returns the number of Outruns that found a leader whose disk lacked an entry, while the leader
// and the other followers without it were a majority.
func (e *Ensemble) OutrunCount() int { return e.outruns }

// beginOutrun makes the leader's disk slow, and waits until its followers are ahead.
func (pl *planPlayer) beginOutrun(p Played) {
	e := pl.e
	others := slices.DeleteFunc(e.Members(), func(id uint32) bool { return id == p.Hit })
	if p.Seed%2 == 1 {
		slices.Reverse(others)
	}
	o := &outrunFault{planPlayer: pl, played: p, latency: e.Disk(p.Hit).Latency()}
	half := (len(others) + 1) / 2
	o.ahead, o.behind = others[:half], others[half:]
	for _, id := range o.behind {
		e.BlockLog(p.Hit, id)
	}
	e.Disk(p.Hit).SetLatency(p.By)
	o.awaitAhead(time.Now().Add(outrunPatience))
}

// awaitAhead waits until the followers have been ahead for half the time that a write takes on the leader's disk, or
// until giveUp. Meanwhile a member that learns of the commit too early shows it to its clients.
func (o *outrunFault) awaitAhead(giveUp time.Time) {
	leads := o.e.Disk(o.played.Hit).LastIndex()
	switch {
	case slices.ContainsFunc(o.ahead, func(id uint32) bool { return o.e.Disk(id).LastIndex() <= leads }):
		o.since = time.Time{}
	case o.since.IsZero():
		o.since = time.Now()
	case time.Since(o.since) >= o.played.By/2:
		o.e.outruns++
		o.crashAhead()
		return
	}
	if time.Now().After(giveUp) {
		o.restoreLinks()
		return
	}
	o.schedule(time.Now().Add(outrunStep), func() { o.awaitAhead(giveUp) })
}

// restoreLinks undoes what outrun has done before the crash.
func (o *outrunFault) restoreLinks() {
	for _, id := range o.behind {
		o.e.UnblockLog(o.played.Hit, id)
	}
	o.e.Disk(o.played.Hit).SetLatency(o.latency)
}

// crashAhead ends the leader and those ahead of it. The leader comes back first.
func (o *outrunFault) crashAhead() {
	rng := rand.New(rand.NewPCG(o.played.Seed, 2))
	from := o.e.record.sinceStart()
	for _, id := range append([]uint32{o.played.Hit}, o.ahead...) {
		o.e.crashMember(id, rng)
	}
	o.restoreLinks()
	o.schedule(time.Now().Add(o.played.For), func() {
		o.e.startMember(o.played.Hit)
		o.e.record.noteHampered(from, o.played.Hit, o.e.IDs())
		o.startAhead(from, time.Now().Add(outrunPatience))
	})
}

// startAhead starts the followers once there is a leader without them, or at giveUp.
func (o *outrunFault) startAhead(from time.Duration, giveUp time.Time) {
	leads := func(id uint32) bool { return o.e.Running(id) && o.e.Member(id).Role() == "leader" }
	o.poll(o.step(), func() bool {
		if !slices.ContainsFunc(o.e.IDs(), leads) && time.Now().Before(giveUp) {
			return false
		}
		for _, id := range o.ahead {
			o.e.startMember(id)
			o.e.record.noteHampered(from, id, o.e.IDs())
		}
		return true
	})
}
