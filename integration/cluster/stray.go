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

// strayFault makes the log of a member begin, after a snapshot, with an entry that is lost on all other disks.
type strayFault struct {
	*planPlayer
	played Played
	lead   uint32
	held   time.Duration // when the leader's entries were held, since the record began; 0: they are not held
	done   chan struct{} // closed when a goroutine of the present step has ended
}

// StrayCount returns the number of Strays that have made all members crash.
func (e *Ensemble) StrayCount() int { return e.strays }

// beginStray makes a member miss entries.
func (pl *planPlayer) beginStray(p Played) {
	s := &strayFault{planPlayer: pl, played: p, lead: pl.leader}
	if p.Hit == s.lead || !pl.e.Running(s.lead) {
		s.tryAgain()
		return
	}
	pl.e.crashMember(p.Hit, rand.New(rand.NewPCG(p.Seed, 2)))
	s.startTask(func() { pl.e.sendWrites(s.lead, strayEntries) })
	s.awaitThen(s.taskEnded, s.snapLeader)
}

// startTask runs a part of a step beside the plan.
func (s *strayFault) startTask(f func()) {
	s.done = make(chan struct{})
	go func() {
		defer close(s.done)
		f()
	}()
}

func (s *strayFault) taskEnded() bool { return isClosed(s.done) }

// awaitThen waits for a condition, and then does what comes next. If the leader is lost or the condition takes too long, the stray ends.
func (s *strayFault) awaitThen(ok func() bool, next func()) {
	giveUp := time.Now().Add(strayPatience)
	s.poll(blackoutStep, func() bool {
		switch e := s.e; {
		case !e.Running(s.lead) || e.Member(s.lead).Role() != "leader" || time.Now().After(giveUp):
			s.releaseLeader()
			e.startMember(s.played.Hit)
			s.tryAgain()
		case ok():
			next()
		default:
			return false
		}
		return true
	})
}

// tryAgain tries again a little later, N times in all.
func (s *strayFault) tryAgain() {
	f := s.played.Fault
	if f.N--; f.N > 0 {
		s.schedule(time.Now().Add(s.e.opts.Tick), func() { s.planPlayer.beginFault(f, time.Now().Add(patience)) })
	}
}

// snapLeader makes the leader take a snapshot that ends with its log, and forget the log before that.
func (s *strayFault) snapLeader() {
	s.held = s.e.record.sinceStart()
	s.e.Gate(s.lead).Hold()
	s.schedule(time.Now().Add(s.e.opts.Tick/10), func() {
		s.e.Disk(s.lead).KeepLog(1)
		s.startTask(func() { _ = s.e.takeSnapshotOf(s.lead) })
		s.awaitThen(s.taskEnded, s.awaitInstall)
	})
}

// releaseLeader lets the leader's entries pass, and records that none could take effect meanwhile.
func (s *strayFault) releaseLeader() {
	s.e.Gate(s.lead).Release()
	if s.held > 0 {
		s.e.record.noteHampered(s.held, s.lead, s.e.IDs())
	}
}

// awaitInstall lets the member come back and waits until the snapshot has taken the place of its log.
func (s *strayFault) awaitInstall() {
	installs := s.e.Disk(s.played.Hit).Installs()
	s.e.startMember(s.played.Hit)
	s.awaitThen(func() bool {
		return s.e.Disk(s.played.Hit).Installs() > installs && s.e.Disk(s.played.Hit).LastIndex() == 0
	}, s.divergeLogs)
}

// divergeLogs makes all other disks hang, lets an entry pass, and cuts the power when the member has stored it.
func (s *strayFault) divergeLogs() {
	for _, id := range s.otherMembers() {
		s.e.Disk(id).Stall()
	}
	s.releaseLeader()
	giveUp := time.Now().Add(strayPatience / 8)
	s.poll(blackoutStep, func() bool {
		switch stored := s.e.Disk(s.played.Hit).LastIndex() > 0; {
		case stored:
			s.e.strays++
			s.beginBlackout(Played{Fault: Fault{For: s.played.For, Seed: s.played.Seed}, Hit: s.played.Hit})
		case time.Now().After(giveUp):
			for _, id := range s.otherMembers() {
				s.e.Disk(id).Release()
			}
			s.releaseLeader()
			s.tryAgain()
		default:
			return false
		}
		return true
	})
}

func (s *strayFault) otherMembers() []uint32 {
	return slices.DeleteFunc(s.e.IDs(), func(id uint32) bool { return id == s.played.Hit })
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
