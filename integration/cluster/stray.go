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
	// strayEntries is how many entries a member must miss to need a snapshot: more than a leader keeps in memory, see quorum.
	strayEntries = 70
	// strayPatience is how long each step of a stray waits. Other faults may prevent it.
	strayPatience = 4 * time.Second
)

// straying makes the log of a member begin, after a snapshot, with an entry that is lost on all other disks.
type straying struct {
	*player
	played Played
	lead   uint32
	done   chan struct{} // closed when a goroutine of the present step has ended
}

// Strays returns how many times a Stray has made all members crash.
func (e *Ensemble) Strays() int { return e.strays }

// stray makes a member miss entries.
func (pl *player) stray(p Played) {
	s := &straying{player: pl, played: p, lead: pl.leader}
	if p.Hit == s.lead || !pl.e.Running(s.lead) {
		s.again()
		return
	}
	pl.e.crash(p.Hit, rand.New(rand.NewPCG(p.Seed, 2)))
	s.begin(func() { pl.e.write(s.lead, strayEntries) })
	s.step(s.ended, s.snap)
}

// begin runs a part of a step beside the plan.
func (s *straying) begin(f func()) {
	s.done = make(chan struct{})
	go func() {
		defer close(s.done)
		f()
	}()
}

func (s *straying) ended() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// step waits for a condition, and then does what comes next. If the leader is lost or the condition takes too long, the stray ends.
func (s *straying) step(ok func() bool, next func()) {
	giveUp := time.Now().Add(strayPatience)
	var look func()
	look = func() {
		switch e := s.e; {
		case !e.Running(s.lead) || e.Member(s.lead).Role() != "leader" || time.Now().After(giveUp):
			e.Gate(s.lead).Release()
			e.start(s.played.Hit)
			s.again()
		case ok():
			next()
		default:
			s.at(time.Now().Add(blackoutStep), look)
		}
	}
	look()
}

// again tries again a little later, N times in all.
func (s *straying) again() {
	f := s.played.Fault
	if f.N--; f.N > 0 {
		s.at(time.Now().Add(s.e.opts.Tick), func() { s.player.begin(f, time.Now().Add(patience)) })
	}
}

// snap makes the leader take a snapshot that ends with its log, and forget the log before that.
func (s *straying) snap() {
	s.e.Gate(s.lead).Hold()
	s.at(time.Now().Add(s.e.opts.Tick/10), func() {
		s.e.Disk(s.lead).KeepLog(1)
		s.begin(func() { _ = s.e.snap(s.lead) })
		s.step(s.ended, s.catchUp)
	})
}

// catchUp lets the member come back and waits until the snapshot has taken the place of its log.
func (s *straying) catchUp() {
	installs := s.e.Disk(s.played.Hit).Installs()
	s.e.start(s.played.Hit)
	s.step(func() bool { return s.e.Disk(s.played.Hit).Installs() > installs && s.e.Disk(s.played.Hit).Last() == 0 }, s.diverge)
}

// diverge makes all other disks hang, lets an entry pass, and cuts the power when the member has stored it.
func (s *straying) diverge() {
	for _, id := range s.others() {
		s.e.Disk(id).Stall()
	}
	s.e.Gate(s.lead).Release()
	giveUp := time.Now().Add(strayPatience / 8)
	var look func()
	look = func() {
		switch stored := s.e.Disk(s.played.Hit).Last() > 0; {
		case stored:
			s.e.strays++
			s.blackout(Played{Fault: Fault{For: s.played.For, Seed: s.played.Seed}, Hit: s.played.Hit})
		case time.Now().After(giveUp):
			for _, id := range s.others() {
				s.e.Disk(id).Release()
			}
			s.again()
		default:
			s.at(time.Now().Add(blackoutStep), look)
		}
	}
	look()
}

func (s *straying) others() []uint32 {
	return slices.DeleteFunc(s.e.IDs(), func(id uint32) bool { return id == s.played.Hit })
}

// write sends a member so many writes, one after the other.
func (e *Ensemble) write(id uint32, count int) {
	ctx, cancel := context.WithTimeout(e.ctx, strayPatience)
	defer cancel()
	c, err := e.dial(ctx, id)
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

// snap makes a member take a snapshot.
func (e *Ensemble) snap(id uint32) error {
	ctx, cancel := context.WithTimeout(e.ctx, strayPatience)
	defer cancel()
	_, err := api.Post[api.Snapshot](ctx, e.Operator(id), "snapshot", struct{}{})
	return err
}
