package cluster

import (
	"math/rand/v2"
	"slices"
	"time"
)

const (
	// outrunStep is how often an outrun looks at the disks. It is far less than a write takes there.
	outrunStep = time.Millisecond
	// outrunPatience is how long an outrun waits for that, and afterwards for a leader among those that do not
	// have the entry. Other faults may prevent both.
	outrunPatience = 4 * time.Second
)

// outrunning is a crash of a leader and of the followers that are ahead of its disk. The leader and all others are
// a majority, which goes on without the entry. So nobody may have heard of it before.
type outrunning struct {
	*player
	played  Played
	ahead   []uint32 // the followers that get the entry, and crash
	behind  []uint32 // those that the leader's log does not reach meanwhile
	latency time.Duration
	since   time.Time // since when they have been ahead; zero: they are not
}

// Outruns returns how many times an Outrun has found a leader whose disk lacked an entry that just so many
// followers had that the others, with the leader, are a majority.
func (e *Ensemble) Outruns() int { return e.outruns }

// outrun makes the leader's disk slow, and waits until its followers are ahead.
func (pl *player) outrun(p Played) {
	e := pl.e
	others := slices.DeleteFunc(e.Members(), func(id uint32) bool { return id == p.Hit })
	if p.Seed%2 == 1 {
		slices.Reverse(others)
	}
	o := &outrunning{player: pl, played: p, latency: e.Disk(p.Hit).Latency()}
	half := (len(others) + 1) / 2
	o.ahead, o.behind = others[:half], others[half:]
	for _, id := range o.behind {
		e.BlockLog(p.Hit, id)
	}
	e.Disk(p.Hit).SetLatency(p.By)
	o.look(time.Now().Add(outrunPatience))
}

// look waits until the followers have been ahead for half the time that a write takes on the leader's disk, or until
// giveUp. Meanwhile whoever learns of the entry too early tells its clients.
func (o *outrunning) look(giveUp time.Time) {
	leads := o.e.Disk(o.played.Hit).Last()
	switch {
	case slices.ContainsFunc(o.ahead, func(id uint32) bool { return o.e.Disk(id).Last() <= leads }):
		o.since = time.Time{}
	case o.since.IsZero():
		o.since = time.Now()
	case time.Since(o.since) >= o.played.By/2:
		o.e.outruns++
		o.crash()
		return
	}
	if time.Now().After(giveUp) {
		o.restore()
		return
	}
	o.at(time.Now().Add(outrunStep), func() { o.look(giveUp) })
}

// restore undoes what outrun has done before the crash.
func (o *outrunning) restore() {
	for _, id := range o.behind {
		o.e.UnblockLog(o.played.Hit, id)
	}
	o.e.Disk(o.played.Hit).SetLatency(o.latency)
}

// crash ends the leader and those ahead of it. The leader comes back first.
func (o *outrunning) crash() {
	rng := rand.New(rand.NewPCG(o.played.Seed, 2))
	from := o.e.record.now()
	for _, id := range append([]uint32{o.played.Hit}, o.ahead...) {
		o.e.crash(id, rng)
	}
	o.restore()
	o.at(time.Now().Add(o.played.For), func() {
		o.e.start(o.played.Hit)
		o.e.record.hampered(from, o.played.Hit, o.e.IDs())
		o.follow(from, time.Now().Add(outrunPatience))
	})
}

// follow starts the followers once there is a leader without them, or at giveUp.
func (o *outrunning) follow(from time.Duration, giveUp time.Time) {
	leads := func(id uint32) bool { return o.e.Running(id) && o.e.Member(id).Role() == "leader" }
	if !slices.ContainsFunc(o.e.IDs(), leads) && time.Now().Before(giveUp) {
		o.at(time.Now().Add(o.e.opts.Tick/20), func() { o.follow(from, giveUp) })
		return
	}
	for _, id := range o.ahead {
		o.e.start(id)
		o.e.record.hampered(from, id, o.e.IDs())
	}
}
