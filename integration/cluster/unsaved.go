package cluster

import (
	"math/rand/v2"
	"slices"
	"time"
)

// Hardship is what a member meets while its disk hangs.
type Hardship int

// These are the values of Fault.N of an Unsaved.
const (
	NoHardship Hardship = iota
	CutOff              // it is cut off from the other members
	Paused              // it is paused
	Drained             // an operator drains it, so it hands over if it leads
	hardships
)

// These are the members that crash in an Unsaved, by Fault.Seed.
const (
	crashHit       = iota // Who
	crashHung             // Who and Far
	crashEveryone         // all members
	crashSpareHit         // all but Who, whose disk hangs until they are back
	crashNobody           // no member, and the disks come back
	crashSelection        // the number of these
)

// SparesOthers reports whether an Unsaved in an ensemble of so many members leaves a majority of them alone.
func (p Played) SparesOthers(members int) bool {
	crash := p.Seed % crashSelection
	return crash != crashEveryone && crash != crashSpareHit && (p.Far == 0 || members > 4)
}

// UnsavedCount returns the number of crashes of members that had applied entries which their disks lacked.
func (e *Ensemble) UnsavedCount() int { return e.unsaved }

// playUnsaved makes the disks of Who and Far hang for By, halfway with the hardship N for Who. Then some members crash, with
// the entries that wait for their disks, and come back after For.
func (pl *planPlayer) playUnsaved(p Played, wait func(time.Duration)) {
	e, rng := pl.e, rand.New(rand.NewPCG(p.Seed, 2))
	hung := []uint32{p.Hit}
	if p.Far != 0 && p.Far != p.Hit {
		hung = append(hung, p.Far)
	}
	from := e.record.sinceStart()
	for _, id := range hung {
		e.Disk(id).Stall()
	}
	wait(p.By / 2)
	endHardship := pl.beginHardship(p)
	wait(p.By - p.By/2)
	crashing := pl.whoCrashes(p, hung)
	for _, id := range crashing {
		if e.hasAppliedUnsaved(id) {
			e.unsaved++
		}
		var torn *rand.Rand // draws what is left of writes in progress; nil: nothing
		if rng.IntN(2) > 0 {
			torn = rng
		}
		e.crashMember(id, torn)
	}
	endHardship()
	wait(p.For)
	for _, id := range crashing {
		if e.Disk(id).ID() == 0 { // another fault has emptied the disk, which gets an id before the member starts
			e.Disk(id).Release()
		}
		e.startMember(id)
	}
	if len(crashing) > 0 && !slices.Contains(crashing, p.Hit) {
		wait(p.For)
	}
	for _, id := range hung {
		e.Disk(id).Release()
	}
	if Hardship(p.N) == Drained {
		e.restartDrained(p.Hit)
	}
	for _, id := range append(crashing, hung...) {
		e.record.noteHampered(from, id, e.IDs())
	}
}

// whoCrashes returns the members that crash in an Unsaved.
func (pl *planPlayer) whoCrashes(p Played, hung []uint32) []uint32 {
	switch p.Seed % crashSelection {
	case crashHit:
		return []uint32{p.Hit}
	case crashHung:
		return slices.Clone(hung)
	case crashEveryone:
		return pl.e.IDs()
	case crashSpareHit:
		return slices.DeleteFunc(pl.e.IDs(), func(id uint32) bool { return id == p.Hit })
	default:
		return nil
	}
}

// beginHardship begins the hardship of an Unsaved, and returns the function that ends it.
func (pl *planPlayer) beginHardship(p Played) (end func()) {
	e, id := pl.e, p.Hit
	switch Hardship(p.N) {
	case CutOff:
		e.Isolate(id)
		return func() { e.Rejoin(id) }
	case Paused:
		e.Pause(id)
		return func() { e.Resume(id) }
	case Drained:
		if e.Running(id) {
			e.drainSoon(id, p.By/4)
		}
	}
	return func() {}
}

// hasAppliedUnsaved reports whether a member has applied entries that its disk lacks.
func (e *Ensemble) hasAppliedUnsaved(id uint32) bool {
	last := e.Disk(id).LastIndex()
	return last > 0 && e.Running(id) && index(e.Member(id).State()) > last
}
