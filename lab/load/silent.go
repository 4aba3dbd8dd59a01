package load

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"rollcall/lab/judge"
	"rollcall/lab/result"
	"rollcall/zk/jute"
)

// silentConn is the connection of a client that sends nothing.
type silentConn struct{ conn net.Conn }

// Silence opens n sessions with an ephemeral node each, whose clients then send nothing, not even pings. Their
// connections stay open until the servers close them, or the load stops. Silence returns when they are open. The error
// has the number that are; ctx should have a deadline. The connections do not use TLS.
func (l *Load) Silence(ctx context.Context, n int) error {
	for i := range n {
		l.mu.Lock()
		number := len(l.silentConns) + 1
		l.mu.Unlock()
		if number > maxSilent {
			return fmt.Errorf("load: %d of %d silent clients: a load has at most %d", i, n, maxSilent)
		}
		server := l.cfg.Servers[number%len(l.cfg.Servers)]
		if err := l.openSilent(ctx, server, number); err != nil {
			return fmt.Errorf("load: %d of %d silent clients: member %s: %w", i, n, server.Name, err)
		}
	}
	return nil
}

func (l *Load) openSilent(ctx context.Context, server result.Member, number int) (err error) {
	conn, err := l.cfg.DialConn(ctx, "tcp", server.Clients)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = conn.Close()
		}
	}()
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline)
	}
	request := jute.ConnectRequest{
		TimeOut: int32(l.cfg.Timeout.Milliseconds()), Passwd: make([]byte, 16),
		HasReadOnly: true,
	}
	var granted jute.ConnectResponse
	sent := l.recorder.sinceStartMillis()
	if err := exchangeFrames(conn, request.Append(nil), granted.Decode); err != nil {
		return err
	}
	if granted.SessionID == 0 {
		return errors.New("the server refused the session")
	}
	node := fmt.Sprintf("%s/silent-%d", sessionsParent, number)
	create := jute.RequestHeader{Xid: 1, Op: jute.OpCreate}.Append(nil)
	create = jute.CreateRequest{
		Path: []byte(l.cfg.Chroot + node), Flags: jute.Ephemeral, ACL: jute.OpenACL,
	}.Append(create)
	var reply jute.ReplyHeader
	if err := exchangeFrames(conn, create, reply.Decode); err != nil {
		return err
	}
	if reply.Err != jute.OK {
		return fmt.Errorf("create of %s: %w", node, reply.Err)
	}
	_ = conn.SetDeadline(time.Time{})
	l.recorder.noteSilent(granted, server.Name, node, sent)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.silentConns = append(l.silentConns, &silentConn{conn})
	return nil
}

// exchangeFrames sends a frame and decodes the reply.
func exchangeFrames(conn net.Conn, request []byte, decode func(*jute.Decoder)) error {
	if err := jute.WriteFrame(conn, request); err != nil {
		return err
	}
	frame, err := jute.ReadFrame(conn, nil, jute.DefaultMaxBuffer)
	if err != nil {
		return err
	}
	d := jute.NewDecoder(frame)
	decode(&d)
	return d.Err()
}

// noteSilent notes a session whose client sends nothing from now on.
func (r *evidenceRecorder) noteSilent(granted jute.ConnectResponse, member, node string, sent result.Millis) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.sinceStartMillis()
	s := judge.Session{
		ID: granted.SessionID.String(), Client: nameOf(node), Timeout: result.Millis(granted.TimeOut), Opened: sent,
		Answers: []judge.Answer{{Sent: sent, At: now, Ask: judge.Connect, Member: member}},
		Ended:   judge.Abandoned, EndedAt: now, Node: &judge.Ephemeral{Path: node, Created: now},
	}
	r.nodesByName[nameOf(node)] = s.Node
	r.evidence.Load.Sessions++
	keepRecord(r, &r.evidence.Sessions, maxSessions, judge.KindSessions, s)
}

func (l *Load) closeSilent() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.silentConns {
		_ = s.conn.Close()
	}
}
