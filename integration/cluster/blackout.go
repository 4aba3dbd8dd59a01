package cluster

import (
	"math/rand/v2"
	"slices"
	"time"

	quorumwire "rollcall/quorum/wire"
)

const (
	// blackoutStep is the interval at which a blackout checks the disks. It is far less than a write takes there.
	blackoutStep = time.Millisecond
	// blackoutPatience bounds the wait for changes of the configuration. Then the power fails anyway.
	blackoutPatience = 4 * time.Second
	// blackoutBoot is the longest time that a member takes to come back.
	blackoutBoot = 300 * time.Millisecond
	// blackoutLimit bounds the election among the members that are back, once they are enough. It is longer than
	// any other fault lasts.
	blackoutLimit = 30 * time.Second
)

// playBlackout makes the power of all members fail, By after N changes of the configuration. Before the last change, the disk
// of a server hangs: of one that has no vote, if there is one. Who and Far stay away for longer, until the others have a
// leader.
func (pl *planPlayer) playBlackout(p Played, wait func(time.Duration)) {
	e, rng := pl.e, rand.New(rand.NewPCG(p.Seed, 2))
	away := []uint32{p.Hit}
	if p.Far != 0 && p.Far != p.Hit && 2*(len(e.Members())-2) > len(e.Members()) {
		away = append(away, p.Far)
	}
	pl.awaitChanges(p.N, rng, wait)
	wait(p.By)
	from, over := e.record.sinceStart(), time.Now().Add(p.For)
	pl.crashAll(away, rng)
	e.blackouts++
	wait(blackoutBoot)
	pl.awaitElection(away, over, wait)
	for _, id := range away {
		if e.members[id].away {
			e.members[id].away = false
			e.startMember(id)
		}
	}
	for _, id := range e.IDs() {
		e.record.noteHampered(from, id, e.IDs())
	}
}

// awaitChanges counts changes of the configuration on the leader's disk until there have been n, and makes the disk of a
// server hang before the last one. A crash ends that.
func (pl *planPlayer) awaitChanges(n int, rng *rand.Rand, wait func(time.Duration)) {
	var last []quorumwire.Peer // the configuration of the leader's disk at the last check
	hangs := false
	for giveUp := time.Now().Add(blackoutPatience); ; wait(blackoutStep) {
		pl.noteLeader()
		if n > 0 && pl.e.members[pl.leader] != nil {
			now := pl.e.Disk(pl.leader).Configuration()
			if last != nil && len(now) > 0 && !slices.Equal(now, last) {
				n--
			}
			if len(now) > 0 {
				last = now
			}
		}
		if n == 1 && !hangs && last != nil {
			hangs = pl.hangDisk(last, rng)
		}
		if n == 0 || time.Now().After(giveUp) {
			return
		}
	}
}

// hangDisk makes the disk of an observer hang, or of a random server if there is none. It returns false, and does nothing, if that server leads.
func (pl *planPlayer) hangDisk(configuration []quorumwire.Peer, rng *rand.Rand) bool {
	who := configuration[rng.IntN(len(configuration))].ID
	for _, p := range configuration {
		if p.Observer {
			who = p.ID
		}
	}
	m := pl.e.members[who]
	if m == nil || who == pl.leader {
		return false
	}
	m.disk.Stall()
	return true
}

// crashAll ends all members. Those that do not stay away come back one by one.
func (pl *planPlayer) crashAll(away []uint32, rng *rand.Rand) {
	for _, id := range pl.e.IDs() {
		m := pl.e.members[id]
		if m.done == nil { // it was down already, and a disk without a process is not released by a crash
			m.disk.Release()
			continue
		}
		var torn *rand.Rand // draws what is left of writes in progress; nil: nothing
		if rng.IntN(2) > 0 {
			torn = rng
		}
		pl.e.crashMember(id, torn)
		if slices.Contains(away, id) {
			m.away = true
			continue
		}
		pl.schedule(time.Now().Add(time.Duration(rng.Int64N(int64(blackoutBoot)))), func() { pl.e.startMember(id) })
	}
}

// awaitElection waits until the members that are not away have a leader, or cannot have one, and until over.
func (pl *planPlayer) awaitElection(away []uint32, over time.Time, wait func(time.Duration)) {
	var enough time.Time // since when the others are enough, and have no leader; zero: they are not
	for ; ; wait(pl.stepTime()) {
		leads := slices.ContainsFunc(pl.e.IDs(), func(id uint32) bool {
			return pl.e.Running(id) && slices.Contains([]string{"leader", "standalone"}, pl.e.Member(id).Role())
		})
		switch {
		case leads || !pl.e.mustElect():
			enough = time.Time{}
		case enough.IsZero():
			enough = time.Now()
		case time.Since(enough) > blackoutLimit:
			pl.e.report()
			pl.e.t.Errorf("cluster: after a blackout members are enough without %v, and nobody leads for %v", away, blackoutLimit)
			return
		}
		if enough.IsZero() && !time.Now().Before(over) {
			return
		}
	}
}

// mustElect reports whether the running members must be able to elect a leader: the one with the longest log votes in
// its own newest configuration, and most of the voters there run. All of them vote for it, and its log has all that is
// committed.
func (e *Ensemble) mustElect() bool {
	var longest uint32
	for _, id := range e.IDs() {
		if e.Running(id) && (longest == 0 || e.Disk(id).IsLonger(e.Disk(longest))) {
			longest = id
		}
	}
	if longest == 0 || e.Member(longest).DamageReason() != "" {
		return false
	}
	voters, running, votes := 0, 0, false
	for _, p := range e.Disk(longest).Configuration() {
		if p.Observer {
			continue
		}
		voters++
		if e.members[p.ID] != nil && e.Running(p.ID) && e.Disk(p.ID).ID() == p.DiskID {
			running++
			votes = votes || p.ID == longest
		}
	}
	return votes && running > voters/2
}

// Blackouts returns the number of power failures of all members.
func (e *Ensemble) Blackouts() int { return e.blackouts }
