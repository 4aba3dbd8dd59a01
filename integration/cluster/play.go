package cluster

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"rollcall/internal/serverlist"
	"rollcall/lab/simulated"
	"rollcall/member"
)

// Played is a fault that has begun, with the members that it hit.
type Played struct {
	Fault
	Hit, Far uint32 // 0: none, so nothing was done
}

// patience bounds a fault's wait for its target. Another fault may have taken the target down for
// longer than an election.
const patience = 10 * time.Second

// planPlayer plays a plan. The target of a fault is resolved when the fault begins.
type planPlayer struct {
	e        *Ensemble
	began    func(Played)
	changing bool        // the plan changes the list of members
	due      []dueAction // ordered by time
	leader   uint32      // the last known leader
}

type dueAction struct {
	at time.Time
	do func()
}

// Play plays a plan and restarts members that end by themselves, until all faults are over and done
// returns true. A disk that has not failed by then will not fail. A fault whose target is down
// waits until the target is up or another member leads. began, if not nil, is called with each
// fault before it is done.
func (e *Ensemble) Play(p Plan, began func(Played), done func() bool) {
	e.t.Helper()
	pl := &planPlayer{e: e, began: began, changing: p.Changes() > 0}
	start := time.Now()
	for _, f := range p {
		pl.schedule(start.Add(f.At), func() {
			pl.playSteps(func(wait func(time.Duration)) { pl.playFault(f, start.Add(f.At+patience), wait) })
		})
	}
	for len(pl.due) > 0 || !done() {
		wait := e.opts.Tick / 20
		if len(pl.due) > 0 {
			wait = min(wait, time.Until(pl.due[0].at))
		}
		time.Sleep(wait)
		e.Restart()
		e.changeLinks()
		pl.noteLeader()
		for len(pl.due) > 0 && !time.Now().Before(pl.due[0].at) {
			next := pl.due[0]
			pl.due = pl.due[1:]
			next.do()
		}
	}
	for _, id := range e.IDs() {
		e.Disk(id).FailAt(0)
		e.Disk(id).FailReadAt(0, simulated.OfLog)
		e.Disk(id).FailReadAt(0, simulated.OfSnapshot)
	}
	e.Restart()
}

func (pl *planPlayer) schedule(t time.Time, do func()) {
	i := 0
	for i < len(pl.due) && !pl.due[i].at.After(t) {
		i++
	}
	pl.due = slices.Insert(pl.due, i, dueAction{t, do})
}

// playSteps plays a part of a plan that calls wait to let the others go on for a time. It is a coroutine, so none of them
// runs meanwhile.
func (pl *planPlayer) playSteps(steps func(wait func(time.Duration))) {
	next, stop := pullSteps(steps)
	pl.e.t.Cleanup(stop)
	pl.resumeSteps(next)
}

// stopped is the panic that ends waiting steps when the test ends. runtime.Goexit would also end the goroutine that stops
// them, and hide the panic of another fault.
type stopped struct{}

// pullSteps makes a coroutine of steps. next runs them until they call wait, and returns the time to wait, or false once they
// have returned. stop ends them while they wait. If they panic, next panics with the value and the stack of the steps.
func pullSteps(steps func(wait func(time.Duration))) (next func() (time.Duration, bool), stop func()) {
	return iter.Pull(func(yield func(time.Duration) bool) {
		defer func() {
			switch cause := recover(); cause {
			case nil, stopped{}:
			default:
				panic(fmt.Sprintf("%v\n\n%s", cause, debug.Stack()))
			}
		}()
		steps(func(d time.Duration) {
			if !yield(d) {
				panic(stopped{}) // the test has failed meanwhile
			}
		})
	})
}

func (pl *planPlayer) resumeSteps(next func() (time.Duration, bool)) {
	if d, more := next(); more {
		pl.schedule(time.Now().Add(d), func() { pl.resumeSteps(next) })
	}
}

// stepTime is the interval at which the player looks at the members.
func (pl *planPlayer) stepTime() time.Duration { return pl.e.opts.Tick / 20 }

// noteLeader records the member that leads.
func (pl *planPlayer) noteLeader() {
	pl.e.recordConfigurations()
	for _, id := range pl.e.IDs() {
		if pl.e.Running(id) && pl.e.Member(id).Role() == "leader" && id != pl.leader {
			pl.leader = id
			return
		}
	}
}

// resolveTarget returns the member that t names, or 0 if there is none.
func (pl *planPlayer) resolveTarget(t Target) uint32 {
	switch t {
	case Leader:
		return pl.leader
	case Observer:
		if i := slices.IndexFunc(pl.e.List(), func(s serverlist.Server) bool { return s.Observer }); i >= 0 {
			return pl.e.List()[i].ID
		}
		return 0
	}
	if name, ok := strings.CutPrefix(string(t), "m"); ok {
		n, _ := strconv.Atoi(name)
		return uint32(n)
	}
	name, _ := strings.CutPrefix(string(t), "follower")
	n, _ := strconv.Atoi(name)
	followers := slices.DeleteFunc(pl.e.Members(), func(id uint32) bool { return id == pl.leader })
	if n < 1 || n > len(followers) {
		return 0
	}
	return followers[n-1]
}

// playFault does a fault to its target, and ends it. If there is no target, it tries again after a moment, until giveUp.
func (pl *planPlayer) playFault(f Fault, giveUp time.Time, wait func(time.Duration)) {
	p := Played{Fault: f}
	for ; ; wait(pl.stepTime()) {
		pl.noteLeader()
		if p.Hit, p.Far = pl.resolveTarget(f.Who), pl.resolveTarget(f.Far); pl.hasTargets(p) {
			break
		}
		p.Hit = 0
		if !time.Now().Add(pl.stepTime()).Before(giveUp) {
			break
		}
	}
	if pl.began != nil {
		pl.began(p)
	}
	if p.Hit == 0 {
		return
	}
	pl.e.record.noteFault(p, pl.e.IDs())
	if end := pl.doFault(p, wait); end != nil {
		wait(f.For)
		end()
	}
}

// hasTargets reports whether a fault has its targets. A disk is wiped only when the ensemble promises to survive that.
func (pl *planPlayer) hasTargets(p Played) bool {
	switch {
	case p.Fault.Far != "" && p.Far == 0:
		return false
	case p.Kind == Add:
		return true
	case p.Hit == 0 || !pl.e.Running(p.Hit):
		return false
	}
	return p.Kind != Wipe || pl.e.survivesDiskLoss(p.Hit)
}

// doFault does a fault, and returns the function that ends it after its time. It returns nil for a fault that happens once,
// or has ended.
func (pl *planPlayer) doFault(p Played, wait func(time.Duration)) (end func()) {
	e, n, id := pl.e, pl.e.Network, p.Hit
	switch p.Kind {
	case Kill, Wipe:
		e.crashMember(id, rand.New(rand.NewPCG(p.Seed, 2)))
		if p.Kind == Wipe {
			e.Wipe(id)
			if pl.changing { // the members that it knew may all have left, and one that began alone knew no other
				e.SetServerList(id)
			}
			pl.awaitJoined(id, e.record.sinceStart(), time.Now().Add(p.For+joinPatience))
		}
		return func() {
			for p.Kind == Wipe && e.Disk(id).IsStalled() { // an empty disk gets an id first, and the player ends the stall
				wait(pl.stepTime())
			}
			e.startMember(id)
		}
	case Stop:
		if e.Disk(id).IsStalled() { // a member with a stalled disk would not stop, and Stop would give up
			e.crashMember(id, nil)
			return func() { e.startMember(id) }
		}
		e.stopSoon(id)
		return func() {
			e.awaitStopped(id)
			e.startMember(id)
		}
	case Pause:
		e.Pause(id)
		return func() { e.Resume(id) }
	case Isolate, Forsake:
		e.Isolate(id)
		return func() { e.Rejoin(id) }
	case Cut:
		n.Cut(id, p.Far)
		return func() { n.Heal(id, p.Far) }
	case Hang:
		n.Hang(id, p.Far)
		return func() { n.EndHang(id, p.Far) }
	case Slow:
		e.slowLink(id, p.Far, p.By)
		return func() { e.slowLink(id, p.Far, -p.By) }
	case Narrow:
		n.LimitRate(id, p.Far, p.N<<10)
		n.LimitRate(p.Far, id, p.N<<10)
		return func() {
			n.LimitRate(id, p.Far, 0)
			n.LimitRate(p.Far, id, 0)
		}
	case Reset:
		n.Cut(id, p.Far)
		n.Heal(id, p.Far)
	case Orphan:
		for _, other := range e.IDs() {
			e.OrphanForwarding(id, other, p.By)
		}
	case Lag:
		leader := pl.leader
		e.BlockLog(leader, id)
		pl.schedule(time.Now().Add(p.For/4), func() { e.ResetForwarding(id, leader) })
		return func() { e.UnblockLog(leader, id) }
	case Stall:
		e.Disk(id).Stall()
		return func() { e.Disk(id).Release() }
	case Outrun:
		pl.playOutrun(p, wait)
	case Blackout:
		pl.playBlackout(p, wait)
	case Stray:
		pl.playStray(p, wait)
	case Unsaved:
		pl.playUnsaved(p, wait)
	case Snap:
		e.Disk(id).KeepLog(uint64(p.N))
		go func() { _ = e.takeSnapshotOf(id) }() // the member may end meanwhile
	case Fail:
		e.Disk(id).FailAt(p.N)
	case Full, Rot, Flip, Drain, Expel, Backup:
		return pl.doOperated(p)
	case Step:
		e.Clock(id).Step(p.By)
		if p.For > 0 {
			return func() { e.Clock(id).Step(-p.By) }
		}
	case Drift:
		e.Clock(id).Drift(p.By)
	case Shut, ShutLog:
		port := GRPCPort
		if p.Kind == ShutLog {
			port = RaftPort
		}
		e.Shut(id, port, Ways(p.N))
		return func() { e.Unshut(id, port, Ways(p.N)) }
	case Forget:
		e.ForgetFlows(id, p.Far, Port(p.N))
	case Strand:
		n.Cut(0, id)
		return func() { n.Heal(0, id) }
	case Add, Remove, Replace, Demote, Promote, Move:
		pl.changeList(p, wait)
	default:
		e.t.Errorf("cluster: fault %s is not played", p.Kind)
	}
	return nil
}

// doOperated does a fault of those that Operated adds, and returns the function that ends it. An Expel and a Backup are done by the
// caller of Play.
func (pl *planPlayer) doOperated(p Played) (end func()) {
	e, id := pl.e, p.Hit
	switch p.Kind {
	case Full:
		e.Disk(id).FillUp()
		return func() { e.Disk(id).FreeSpace() }
	case Rot:
		e.Disk(id).FailReadAt(p.N, simulated.Reads(p.Seed%2))
	case Flip:
		e.Network.FlipBit(id, p.Far, p.N)
	case Drain:
		e.drainSoon(id, p.By)
		return func() { e.restartDrained(id) }
	}
	return nil
}

// joinPatience bounds the time from a wiped member's restart until it takes part again. Other
// faults may keep it from members whose replies it needs.
const joinPatience = 30 * time.Second

// awaitJoined waits until a wiped member has caught up, and then records that it was unreachable since
// from, as far as a majority of the log is concerned. Pings reach it long before.
func (pl *planPlayer) awaitJoined(id uint32, from time.Duration, giveUp time.Time) {
	pl.schedule(time.Now().Add(pl.stepTime()), func() {
		listed := slices.Contains(pl.e.Members(), id) // it may have been removed meanwhile
		if listed && !time.Now().After(giveUp) && (!pl.e.Running(id) || pl.e.Member(id).Role() == "" || pl.e.Member(id).IsJoining()) {
			pl.awaitJoined(id, from, giveUp)
			return
		}
		pl.e.record.noteHampered(from, id, pl.e.IDs())
	})
}

// changeList requests a change of the list, and starts and stops processes as an operator would. It waits until the change
// has been made, or the retries end.
func (pl *planPlayer) changeList(p Played, wait func(time.Duration)) {
	e, id, odd := pl.e, p.Hit, p.Seed%2 == 1
	c := serverlist.Change{}
	switch p.Kind {
	case Add:
		e.startJoining(id, odd)
		c.Joining = e.ServerLine(id, false)
	case Remove, Replace:
		c.Leaving = strconv.Itoa(int(id))
		if p.Kind == Replace {
			e.startJoining(p.Far, odd)
			c.Joining = e.ServerLine(p.Far, false)
		}
	case Demote, Promote:
		c.Joining = e.ServerLine(id, p.Kind == Demote)
	case Move:
		e.crashMember(id, rand.New(rand.NewPCG(p.Seed, 2)))
		e.Move(id)
		c.Joining = e.ServerLine(id, e.isObserver(id))
		if odd {
			wait(p.For)
			e.startMember(id)
		}
	}
	request := e.Insist(c, p.By)
	if p.Kind == Move && !odd {
		wait(p.For)
		e.startMember(id)
	}
	for !request.Done() {
		wait(pl.stepTime())
	}
	if request.Wait() == nil && odd && (p.Kind == Remove || p.Kind == Replace) {
		pl.stopRemoved(id, wait)
	}
}

// stopRemoved stops a member that has been removed once raft's configuration has followed: it may need that vote until
// then. If it comes back before, it stays.
func (pl *planPlayer) stopRemoved(id uint32, wait func(time.Duration)) {
	e := pl.e
	for giveUp := time.Now().Add(joinPatience); e.Running(id) && time.Now().Before(giveUp) && !slices.Contains(e.Members(), id); wait(pl.stepTime()) {
		if e.hasLeftConfiguration(id) {
			e.stopSoon(id)
			wait(e.opts.Tick)
			e.awaitStopped(id)
			return
		}
	}
}

// awaitStopped waits until a member has stopped after stopSoon. One whose disk is stalled would not stop, and would
// hold up the plan that ends the stall, so it crashes.
func (e *Ensemble) awaitStopped(id uint32) {
	switch {
	case !e.members[id].leaves:
	case e.Disk(id).IsStalled():
		e.crashMember(id, nil)
	default:
		_ = e.stopMember(id) // its error, if any, shows in what it left
	}
}

// startMember boots a member unless another fault has done so, or its machine is away. If its disk keeps it from starting, Restart tries again.
func (e *Ensemble) startMember(id uint32) {
	if e.members[id].done == nil && !e.members[id].away {
		e.bootOrRetry(id)
	}
}

// drainSoon begins to drain a member that runs.
func (e *Ensemble) drainSoon(id uint32, over time.Duration) {
	r := e.members[id]
	go e.drainMember(id, r, r.member, r.boots.Load(), over)
}

// restartDrained stops a member that was drained, and starts it again. It may have been stopped meanwhile.
func (e *Ensemble) restartDrained(id uint32) {
	if e.Running(id) {
		e.stopSoon(id)
		e.awaitStopped(id)
		e.startMember(id)
	}
}

// drainMember drains a member, which must open no session after that, until it starts again.
func (e *Ensemble) drainMember(id uint32, r *memberRun, m *member.Member, boots int64, over time.Duration) {
	ctx, cancel := context.WithTimeout(e.ctx, time.Minute)
	defer cancel()
	closed, _ := m.Drain(ctx, over)
	e.drained.Add(uint64(closed))
	if session := e.tryOpen(ctx, id, e.opts.Tick/20); session != 0 && r.boots.Load() == boots {
		e.t.Errorf("cluster: member %d, which is drained, has opened session %v", id, session)
	}
}
