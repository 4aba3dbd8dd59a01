package load

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"rollcall/operator/drill/judge"
	"rollcall/operator/drill/result"
	"rollcall/zk/jute"
)

// silent is the connection of a client that sends nothing.
type silent struct{ conn net.Conn }

// Silence opens n sessions with an ephemeral node each, whose clients then send nothing, not even pings. Their
// connections stay open until the servers close them, or the load stops. Silence returns when they are open. The error
// says how many are; ctx should have a deadline. There is no TLS in them.
func (l *Load) Silence(ctx context.Context, n int) error {
	for i := range n {
		l.mu.Lock()
		number := len(l.silent) + 1
		l.mu.Unlock()
		if number > maxSilent {
			return fmt.Errorf("load: %d of %d silent clients: a load has at most %d", i, n, maxSilent)
		}
		server := l.cfg.Servers[number%len(l.cfg.Servers)]
		if err := l.silence(ctx, server, number); err != nil {
			return fmt.Errorf("load: %d of %d silent clients: member %s: %w", i, n, server.Name, err)
		}
	}
	return nil
}

func (l *Load) silence(ctx context.Context, server result.Member, number int) (err error) {
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
	sent := l.rec.now()
	if err := exchange(conn, request.Append(nil), granted.Decode); err != nil {
		return err
	}
	if granted.SessionID == 0 {
		return errors.New("the server refused the session")
	}
	node := fmt.Sprintf("%s/silent-%d", holdFolder, number)
	create := jute.RequestHeader{Xid: 1, Op: jute.OpCreate}.Append(nil)
	create = jute.CreateRequest{
		Path: []byte(l.cfg.Chroot + node), Flags: jute.Ephemeral, ACL: jute.OpenACL,
	}.Append(create)
	var reply jute.ReplyHeader
	if err := exchange(conn, create, reply.Decode); err != nil {
		return err
	}
	if reply.Err != jute.OK {
		return fmt.Errorf("create of %s: %w", node, reply.Err)
	}
	_ = conn.SetDeadline(time.Time{})
	l.rec.silenced(granted, server.Name, node, sent)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.silent = append(l.silent, &silent{conn})
	return nil
}

// exchange sends a frame and decodes the reply.
func exchange(conn net.Conn, request []byte, decode func(*jute.Decoder)) error {
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

// silenced notes a session whose client sends nothing from now on.
func (r *recorder) silenced(granted jute.ConnectResponse, member, node string, sent result.Millis) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	s := judge.Session{
		ID: granted.SessionID.String(), Client: nameOf(node), Timeout: result.Millis(granted.TimeOut), Opened: sent,
		Answers: []judge.Answer{{Sent: sent, At: now, Ask: judge.Connect, Member: member}},
		Ended:   judge.Abandoned, EndedAt: now, Node: &judge.Ephemeral{Path: node, Created: now},
	}
	r.nodes[nameOf(node)] = s.Node
	r.e.Load.Sessions++
	keep(r, &r.e.Sessions, maxSessions, judge.KindSessions, s)
}

func (l *Load) closeSilent() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.silent {
		_ = s.conn.Close()
	}
}
