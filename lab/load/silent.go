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

const (
	// silentRetryInterval is the pause before the next try to open a silent client. It is short beside an election.
	silentRetryInterval = 100 * time.Millisecond
	// maxSilentTries limits the tries for one client: to a minute if each of them fails at once.
	maxSilentTries = 600
)

var (
	errSessionRefused = errors.New("the server refused the session")
	errTooManySilent  = fmt.Errorf("a load has at most %d", maxSilent)
)

// Silence opens n sessions with an ephemeral node each, whose clients then send nothing, not even pings. Their
// connections stay open until the servers close them, or the load stops. Silence returns when they are open. If a connection
// breaks before, as in an election, or if a server does not reply within the sessions' timeout, the client tries the next server.
// The error has the number of clients that are open. ctx should have a deadline. The connections do not use TLS.
func (l *Load) Silence(ctx context.Context, n int) error {
	for i := range n {
		if err := l.silenceOne(ctx); err != nil {
			return fmt.Errorf("load: %d of %d silent clients: %w", i, n, err)
		}
	}
	return nil
}

// silenceOne opens one silent client. If no try succeeds, it returns the error of the first connection that broke.
func (l *Load) silenceOne(ctx context.Context) error {
	var broken error
	for range maxSilentTries {
		err := l.trySilence(ctx)
		if code := jute.Code(0); err == nil || errors.Is(err, errTooManySilent) || errors.Is(err, errSessionRefused) || errors.As(err, &code) {
			return err
		}
		if broken == nil {
			broken = err
		}
		select {
		case <-time.After(silentRetryInterval):
		case <-ctx.Done():
			return broken
		}
	}
	return broken
}

// trySilence opens a silent client at the next server. Each try has a node of its own, because the node of a session whose
// connection broke exists until that session expires.
func (l *Load) trySilence(ctx context.Context) error {
	l.mu.Lock()
	l.silentTries++
	try, open := l.silentTries, len(l.silentConns)
	l.mu.Unlock()
	if open == maxSilent {
		return errTooManySilent
	}
	ctx, stop := context.WithTimeout(ctx, l.cfg.Timeout)
	defer stop()
	server := l.cfg.Servers[try%len(l.cfg.Servers)]
	if err := l.openSilent(ctx, server, fmt.Sprintf("%s/silent-%d", sessionsParent, try)); err != nil {
		return fmt.Errorf("member %s: %w", server.Name, err)
	}
	return nil
}

// openSilent opens a session with an ephemeral node at a server. ctx has a deadline.
func (l *Load) openSilent(ctx context.Context, server result.Member, node string) (err error) {
	conn, err := l.cfg.DialConn(ctx, "tcp", server.Clients)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = conn.Close()
		}
	}()
	deadline, _ := ctx.Deadline()
	_ = conn.SetDeadline(deadline)
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
		return errSessionRefused
	}
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
	l.silentConns = append(l.silentConns, conn)
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
	for _, conn := range l.silentConns {
		_ = conn.Close()
	}
}
