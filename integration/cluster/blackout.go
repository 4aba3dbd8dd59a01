package cluster

import (
	"math/rand/v2"
	"slices"
	"time"

	"rollcall/lab/simulated"
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

// blackout is a power failure of all members, some of which stay away for longer.
type blackout struct {
	*planPlayer
	played  Played
	away    []uint32
	changes int               // of the configuration that are still to come
	last    []quorumwire.Peer // the configuration of the leader's disk at the last check
	from    time.Duration     // when the power failed
	over    time.Time         // when those that are away may come back
	enough  time.Time         // since when the others are enough, and have no leader; zero: they are not
	hanging *simulated.Disk   // of a server that the configuration is about
	rng     *rand.Rand
}

// beginBlackout waits for N changes of the configuration, and makes all members crash By after the last one. Before the last change, the disk
// of a server hangs: of one that has no vote, if there is one.
func (pl *planPlayer) beginBlackout(p Played) {
	b := &blackout{planPlayer: pl, played: p, away: []uint32{p.Hit}, changes: p.N, rng: rand.New(rand.NewPCG(p.Seed, 2))}
	if p.Far != 0 && p.Far != p.Hit && 2*(len(pl.e.Members())-2) > len(pl.e.Members()) {
		b.away = append(b.away, p.Far)
	}
	b.countChanges(time.Now().Add(blackoutPatience))
}

// countChanges counts changes of the configuration on the leader's disk, until the power fails.
func (b *blackout) countChanges(giveUp time.Time) {
	b.planPlayer.noteLeader()
	if b.changes > 0 && b.e.members[b.leader] != nil {
		now := b.e.Disk(b.leader).Configuration()
		if b.last != nil && len(now) > 0 && !slices.Equal(now, b.last) {
			b.changes--
		}
		if len(now) > 0 {
			b.last = now
		}
	}
	if b.changes == 1 && b.hanging == nil && b.last != nil {
		b.hangDisk()
	}
	switch {
	case b.changes == 0 || time.Now().After(giveUp):
		b.schedule(time.Now().Add(b.played.By), func() { b.crashAll() })
	default:
		b.schedule(time.Now().Add(blackoutStep), func() { b.countChanges(giveUp) })
	}
}

// hangDisk makes the disk of a server hang. A crash ends that.
func (b *blackout) hangDisk() {
	who := b.last[b.rng.IntN(len(b.last))].ID
	for _, p := range b.last {
		if p.Observer {
			who = p.ID
		}
	}
	if m := b.e.members[who]; m != nil && who != b.leader {
		b.hanging = m.disk
		b.hanging.Stall()
	}
}

// crashAll ends all members. Those that do not stay away come back one by one.
func (b *blackout) crashAll() {
	b.from, b.over = b.e.record.sinceStart(), time.Now().Add(b.played.For)
	for _, id := range b.e.IDs() {
		m := b.e.members[id]
		if m.done == nil { // it was down already, and a disk without a process is not released by a crash
			m.disk.Release()
			continue
		}
		var torn *rand.Rand // draws what is left of writes in progress; nil: nothing
		if b.rng.IntN(2) > 0 {
			torn = b.rng
		}
		b.e.crashMember(id, torn)
		if slices.Contains(b.away, id) {
			m.away = true
			continue
		}
		b.schedule(time.Now().Add(time.Duration(b.rng.Int64N(int64(blackoutBoot)))), func() { b.e.startMember(id) })
	}
	b.e.blackouts++
	b.awaitLeader(time.Now().Add(blackoutBoot))
}

// awaitLeader lets those that are away come back when the others have a leader, or cannot have one.
func (b *blackout) awaitLeader(from time.Time) {
	leads := slices.ContainsFunc(b.e.IDs(), func(id uint32) bool {
		return b.e.Running(id) && slices.Contains([]string{"leader", "standalone"}, b.e.Member(id).Role())
	})
	switch {
	case leads || !b.e.mustElect():
		b.enough = time.Time{}
	case b.enough.IsZero():
		b.enough = time.Now()
	}
	waits := time.Now().Before(b.over) || time.Now().Before(from) || !b.enough.IsZero()
	if waits && !b.enough.IsZero() && time.Since(b.enough) > blackoutLimit {
		b.e.report()
		b.e.t.Errorf("cluster: after a blackout members are enough without %v, and nobody leads for %v", b.away, blackoutLimit)
		waits = false
	}
	if waits {
		b.schedule(time.Now().Add(b.e.opts.Tick/20), func() { b.awaitLeader(from) })
		return
	}
	for _, id := range b.away {
		if b.e.members[id].away {
			b.e.members[id].away = false
			b.e.startMember(id)
		}
	}
	for _, id := range b.e.IDs() {
		b.e.record.noteHampered(b.from, id, b.e.IDs())
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
