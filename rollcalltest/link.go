package rollcalltest

import (
	"net"
	"sync/atomic"

	"rollcall/lab/proxy/tap"
	"rollcall/zk/jute"
)

// link is one connection of a client, and its connection to the server. What it keeps of a request is the verdict.
type link struct {
	*tap.Link[Verdict]
	proxy   *proxy
	session atomic.Int64 // 0 before the reply to the connect
}

// forwardAll forwards requests and replies until one side closes its connection or a fault breaks it.
func (l *link) forwardAll() {
	defer func() { _ = l.Client.Close() }()
	server, err := l.proxy.network.Dial(l.proxy.ctx, clientsHost, l.proxy.address)
	if err != nil {
		return
	}
	l.Run(server, tap.MaxLength, l)
}

// Request implements tap.Handler, as the next methods do.
func (l *link) Request(server net.Conn, frame []byte, first bool) (last bool) {
	verdict, xid := l.judgeRequest(frame, first)
	if verdict.LoseRequest {
		l.AwaitReplies()
		return true
	}
	l.Expect(xid, verdict)
	if jute.WriteFrame(server, frame) != nil {
		return true
	}
	if verdict.LoseReply {
		<-l.Ended() // no later request may be carried out
	}
	return verdict.LoseReply
}

func (l *link) Reply(frame []byte, first bool, verdict Verdict) tap.Fate {
	if first && !verdict.LoseReply {
		var connect jute.ConnectResponse
		d := jute.NewDecoder(frame)
		connect.Decode(&d)
		l.session.Store(int64(connect.SessionID))
	}
	return tap.Fate{Delay: verdict.Delay, Lose: verdict.LoseReply}
}

func (*link) NoMore(bool, error) {}

// judgeRequest returns the verdict on a request, and its xid.
func (l *link) judgeRequest(frame []byte, first bool) (Verdict, int32) {
	r := Request{Server: l.proxy.server}
	var header jute.RequestHeader
	if first {
		var connect jute.ConnectRequest
		d := jute.NewDecoder(frame)
		connect.Decode(&d) // a broken one is the server's to reject
		r.Session, r.Op = int64(connect.SessionID), OpConnect
	} else {
		header, r.Path = tap.ParseRequest(frame)
		r.Session, r.Op = l.session.Load(), header.Op.String()
	}
	return l.proxy.judge.decide(r), header.Xid
}
