package schedules

import (
	"time"

	"rollcall/client"
	"rollcall/lab/checker"
)

// causeFault makes a fault happen. What concerns the request itself goes into v.
func (a *actor) causeFault(f fault, v *verdict) {
	switch f.kind {
	case loseRequest:
		v.loseRequest = true
	case loseReply:
		v.loseReply = true
	case loseAndExpire:
		v.loseReply = true
		a.inBackground(a.expireSession)
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
		a.clock.stepForward(f.length)
	case slowReader:
		a.slow.closeFor(f.length)
	case giveUp:
		a.stopWaiting()
	case expireSession:
		a.inBackground(a.expireSession)
	case deleteNode:
		a.inBackground(func() { a.deleteOne(f) })
	case killLeader:
		a.inBackground(func() { a.disturbServer(a.servers.Crash, f) })
	case pauseServer:
		a.inBackground(func() { a.disturbServer(a.servers.Pause, f) })
	case dropAll:
		for _, other := range a.actors {
			if other != a {
				other.dropConnection()
			}
		}
		v.loseReply = true
	}
}

// inBackground runs a fault that takes time.
func (w *world) inBackground(do func()) { w.background.Go(do) }

// expireSession ends the session that the client has at the moment. It is no failure if that has ended.
func (a *actor) expireSession() {
	session, password := a.lastSession()
	a.recordEvent(event{Client: a.number, Kind: checker.Ousted, Session: session})
	_ = a.servers.Expire(session, password)
}

// deleteOne deletes an ephemeral node of the recipe. The length of the fault selects one.
func (a *actor) deleteOne(f fault) {
	if paths, err := a.ephemeralsBelow(root); err == nil && len(paths) > 0 {
		path := paths[int(f.length/time.Millisecond)%len(paths)]
		stat, _, _ := a.operator.Exists(a.ctx, path) // without a reply, the path must do
		a.recordEvent(event{Kind: checker.Ousted, Node: path, Token: int64(stat.Created)})
		_ = a.operator.Delete(a.ctx, path, client.AnyVersion) // it may be gone already
	}
}

// disturbServer does something to a server, and undoes it when the fault is over. It does nothing if there is no such server.
func (a *actor) disturbServer(do func() (undo func() error, err error), f fault) {
	undo, err := do()
	if err != nil {
		return
	}
	sleepFor(a.ctx, f.length)
	if err := undo(); err != nil {
		a.recordSurprise(string(f.kind), err)
	}
}
