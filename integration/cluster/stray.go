package cluster

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"rollcall/operator/api"
	"rollcall/zk/jute"
)

const (
	// strayEntries is the number of entries that a member must miss to need a snapshot: more than a leader keeps in
	// memory, see quorum.
	strayEntries = 70
	// strayPatience bounds the wait of each step of a stray. Other faults may prevent the step.
	strayPatience = 4 * time.Second
)

// StrayCount returns the number of Strays that have made all members crash.
func (e *Ensemble) StrayCount() int { return e.strays }

// playStray makes the log of a member begin, after a snapshot, with an entry that is lost on all other disks. If that does not
// succeed, it tries again a little later, N times in all.
func (pl *planPlayer) playStray(p Played, wait func(time.Duration)) {
	if pl.strandEntry(p, wait) {
		pl.e.strays++
		pl.playBlackout(Played{Fault: Fault{For: p.For, Seed: p.Seed}, Hit: p.Hit}, wait)
		return
	}
	if p.N--; p.N > 0 {
		wait(pl.e.opts.Tick)
		pl.playFault(p.Fault, time.Now().Add(patience), wait)
	}
}

// strandEntry makes a member get a snapshot and then an entry that only it stores, while all other disks hang. It returns
// false if the leader is lost or a step takes too long.
func (pl *planPlayer) strandEntry(p Played, wait func(time.Duration)) bool {
	e, lead := pl.e, pl.leader
	if p.Hit == lead || !e.Running(lead) {
		return false
	}
	awaits := func(ok func() bool) bool {
		for giveUp := time.Now().Add(strayPatience); e.Running(lead) && e.Member(lead).Role() == "leader" && time.Now().Before(giveUp); wait(blackoutStep) {
			if ok() {
				return true
			}
		}
		return false
	}
	defer e.startMember(p.Hit)
	e.crashMember(p.Hit, rand.New(rand.NewPCG(p.Seed, 2)))
	if !awaits(runBeside(func() { e.sendWrites(lead, strayEntries) })) {
		return false
	}
	held := e.record.sinceStart()
	e.Gate(lead).Hold()
	defer e.record.noteHampered(held, lead, e.IDs()) // none of its entries could take effect meanwhile
	defer e.Gate(lead).Release()
	wait(e.opts.Tick / 10)
	e.Disk(lead).KeepLog(1) // the leader forgets the log before its snapshot
	if !awaits(runBeside(func() { _ = e.takeSnapshotOf(lead) })) {
		return false
	}
	installs := e.Disk(p.Hit).Installs()
	e.startMember(p.Hit)
	if !awaits(func() bool { return e.Disk(p.Hit).Installs() > installs && e.Disk(p.Hit).LastIndex() == 0 }) {
		return false
	}
	others := slices.DeleteFunc(e.IDs(), func(id uint32) bool { return id == p.Hit })
	for _, id := range others {
		e.Disk(id).Stall()
	}
	e.Gate(lead).Release()
	for giveUp := time.Now().Add(strayPatience / 8); e.Disk(p.Hit).LastIndex() == 0; wait(blackoutStep) {
		if time.Now().After(giveUp) {
			for _, id := range others {
				e.Disk(id).Release()
			}
			return false
		}
	}
	return true
}

// runBeside starts f beside the plan, and returns a function that reports whether it has ended.
func runBeside(f func()) (ended func() bool) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	return func() bool { return isClosed(done) }
}

// sendWrites sends a member so many writes, one after the other.
func (e *Ensemble) sendWrites(id uint32, count int) {
	ctx, cancel := context.WithTimeout(e.ctx, strayPatience)
	defer cancel()
	c, err := e.dialMember(ctx, id)
	if err != nil {
		return
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	if resp, err := c.Open(4 * e.opts.Tick); err != nil || resp.SessionID == 0 {
		return
	}
	for range count {
		if _, _, err := c.Call(1, jute.OpSetData, &jute.SetDataRequest{Path: []byte("/"), Version: -1}); err != nil {
			return
		}
	}
	closeSession(c)
}

// takeSnapshotOf makes a member take a snapshot.
func (e *Ensemble) takeSnapshotOf(id uint32) error {
	ctx, cancel := context.WithTimeout(e.ctx, strayPatience)
	defer cancel()
	_, err := api.Post[api.Snapshot](ctx, e.Operator(id), "snapshot", struct{}{})
	return err
}
