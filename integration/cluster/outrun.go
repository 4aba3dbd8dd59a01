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

// OutrunCount returns the number of Outruns that found a leader whose disk lacked an entry, while the leader
// and the other followers without it were a majority.
func (e *Ensemble) OutrunCount() int { return e.outruns }

// playOutrun makes a leader crash with the followers that are ahead of its disk. The leader and all others are a majority,
// which continues without the entry. So no client may have seen the entry before.
func (pl *planPlayer) playOutrun(p Played, wait func(time.Duration)) {
	e := pl.e
	others := slices.DeleteFunc(e.Members(), func(id uint32) bool { return id == p.Hit })
	if p.Seed%2 == 1 {
		slices.Reverse(others)
	}
	half := (len(others) + 1) / 2
	ahead, behind := others[:half], others[half:]
	latency := e.Disk(p.Hit).Latency()
	for _, id := range behind {
		e.BlockLog(p.Hit, id)
	}
	e.Disk(p.Hit).SetLatency(p.By)
	found := e.awaitAhead(p, ahead, wait)
	from := e.record.sinceStart()
	if found {
		e.outruns++
		rng := rand.New(rand.NewPCG(p.Seed, 2))
		for _, id := range append([]uint32{p.Hit}, ahead...) {
			e.crashMember(id, rng)
		}
	}
	for _, id := range behind {
		e.UnblockLog(p.Hit, id)
	}
	e.Disk(p.Hit).SetLatency(latency)
	if !found {
		return
	}
	wait(p.For)
	e.startMember(p.Hit) // before those ahead of it, so that there may be a leader without them
	e.record.noteHampered(from, p.Hit, e.IDs())
	leads := func(id uint32) bool { return e.Running(id) && e.Member(id).Role() == "leader" }
	for giveUp := time.Now().Add(outrunPatience); !slices.ContainsFunc(e.IDs(), leads) && time.Now().Before(giveUp); {
		wait(pl.stepTime())
	}
	for _, id := range ahead {
		e.startMember(id)
		e.record.noteHampered(from, id, e.IDs())
	}
}

// awaitAhead waits until followers have been ahead of the disk of a leader for half the time that a write takes there.
// Meanwhile a member that learns of the commit too early shows it to its clients. It returns false if it gives up.
func (e *Ensemble) awaitAhead(p Played, ahead []uint32, wait func(time.Duration)) bool {
	var since time.Time // since when they have been ahead; zero: they are not
	for giveUp := time.Now().Add(outrunPatience); ; wait(outrunStep) {
		leads := e.Disk(p.Hit).LastIndex()
		switch {
		case slices.ContainsFunc(ahead, func(id uint32) bool { return e.Disk(id).LastIndex() <= leads }):
			since = time.Time{}
		case since.IsZero():
			since = time.Now()
		case time.Since(since) >= p.By/2:
			return true
		}
		if time.Now().After(giveUp) {
			return false
		}
	}
}
