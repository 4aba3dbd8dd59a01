package schedules

import (
	"time"

	"rollcall/client"
	"rollcall/lab/checker"
)

// strike makes a fault happen. What concerns the request itself goes into v.
func (a *actor) strike(f fault, v *verdict) {
	switch f.kind {
	case loseRequest:
		v.loseRequest = true
	case loseReply:
		v.loseReply = true
	case loseAndExpire:
		v.loseReply = true
		a.inBackground(a.expire)
	case loseAndGiveUp:
		v.loseReply = true
		a.stopWaiting()
	case delayReply:
		v.delay = max(v.delay, f.length)
	case delayRequest:
		v.late = max(v.late, f.length)
	case lateDelete:
		v.late = max(v.late, f.length)
		a.inBackground(func() { a.deleteOne(f) })
	case pauseClient:
		a.paused.closeFor(f.length)
	case suspendClient:
		a.clock.step(f.length)
	case slowReader:
		a.slow.closeFor(f.length)
	case giveUp:
		a.stopWaiting()
	case expireSession:
		a.inBackground(a.expire)
	case deleteNode:
		a.inBackground(func() { a.deleteOne(f) })
	case killLeader:
		a.inBackground(func() { a.disturb(a.servers.Crash, f) })
	case pauseServer:
		a.inBackground(func() { a.disturb(a.servers.Pause, f) })
	case dropAll:
		for _, other := range a.actors {
			if other != a {
				other.drop()
			}
		}
		v.loseReply = true
	}
}

// inBackground runs a fault that takes time.
func (w *world) inBackground(do func()) { w.background.Go(do) }

// expire ends the session that the client has at the moment. It is no failure if that has ended.
func (a *actor) expire() {
	session, password := a.lastSession()
	a.record(event{Client: a.number, Kind: checker.Ousted, Session: session})
	_ = a.servers.Expire(session, password)
}

// deleteOne deletes an ephemeral node of the recipe. The length of the fault selects one.
func (a *actor) deleteOne(f fault) {
	if paths, err := a.ephemerals(root); err == nil && len(paths) > 0 {
		path := paths[int(f.length/time.Millisecond)%len(paths)]
		stat, _, _ := a.operator.Exists(a.ctx, path) // without a reply, the path must do
		a.record(event{Kind: checker.Ousted, Node: path, Token: int64(stat.Created)})
		_ = a.operator.Delete(a.ctx, path, client.AnyVersion) // it may be gone already
	}
}

// disturb does something to a server, and undoes it when the fault is over. It does nothing if there is no such server.
func (a *actor) disturb(do func() (undo func() error, err error), f fault) {
	undo, err := do()
	if err != nil {
		return
	}
	sleep(a.ctx, f.length)
	if err := undo(); err != nil {
		a.surprise(string(f.kind), err)
	}
}
