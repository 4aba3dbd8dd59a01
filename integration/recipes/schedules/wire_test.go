package schedules

import (
	"context"
	"net"
	"time"

	"rollcall/lab/checker"
	"rollcall/lab/proxy/tap"
	"rollcall/zk/jute"
)

// maxFrame is far more than any request or reply of these schedules.
const maxFrame = 1 << 24

// verdict is the fate of a request. The zero value lets it pass.
type verdict struct {
	loseRequest bool          // the connection breaks, and the request is not carried out
	loseReply   bool          // the request is carried out, and the connection breaks in place of the reply
	delay       time.Duration // holds the reply back, and everything after it
	late        time.Duration // holds the request back, and everything after it
}

// wire is a connection of an actor. While the actor is paused, nothing passes, and while it is slow, it gets nothing.
type wire struct {
	*tap.Link[verdict]
	actor *actor
}

// startWire returns the actor's end of a connection to a server.
func startWire(server net.Conn, a *actor) (client net.Conn, w *wire) {
	client, end := net.Pipe()
	w = &wire{tap.New[verdict](end), a}
	go w.Run(server, maxFrame, w)
	return client, w
}

// Request implements tap.Handler, as the next methods do.
func (w *wire) Request(server net.Conn, frame []byte, first bool) (last bool) {
	if !w.waitOpen(&w.actor.paused) {
		return true
	}
	var v verdict
	var header jute.RequestHeader
	if !first {
		d := jute.NewDecoder(frame)
		header.Decode(&d)
		v = w.actor.judge(header.Op)
	}
	if v.loseRequest {
		return true
	}
	w.Expect(header.Xid, v)
	if v.late > 0 && !w.Hold(v.late) || !w.waitOpen(&w.actor.paused) || jute.WriteFrame(server, frame) != nil {
		return true
	}
	if v.loseReply {
		<-w.Ended() // nothing more is sent
	}
	return v.loseReply
}

func (w *wire) Reply(frame []byte, first bool, v verdict) tap.Fate {
	d := jute.NewDecoder(frame)
	var header jute.ReplyHeader
	if first {
		var reply jute.ConnectResponse
		reply.Decode(&d)
		w.actor.opened(int64(reply.SessionID), append([]byte(nil), reply.Passwd...))
	} else if header.Decode(&d); header.Xid == jute.XidNotification {
		var e jute.WatcherEvent
		e.Decode(&d)
		w.actor.recordEvent(checker.Event{Client: w.actor.number, Kind: checker.Woken, Text: string(e.Path)})
	}
	return tap.Fate{Delay: v.delay, Await: w.waitReadable, Lose: v.loseReply}
}

func (*wire) NoMore(bool, error) {}

// waitReadable waits until the actor may get a frame. It returns false if the wire ends first.
func (w *wire) waitReadable() bool { return w.waitOpen(&w.actor.paused) && w.waitOpen(&w.actor.slow) }

// waitOpen waits until a gate is open. It returns false if the wire ends first.
func (w *wire) waitOpen(g *gate) bool { return g.waitOpen(context.Background(), w.Ended()) }
