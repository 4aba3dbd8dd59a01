package proxy

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"time"

	"rollcall/zk/jute"
)

// endTimeout limits the time in which a session is ended by closeSession, and that for all sessions that a run leaves.
const endTimeout = 10 * time.Second

// unendedSessions are the sessions of programs that could not be ended. They expire.
type unendedSessions struct {
	sessions int
	err      error // of the first one
}

// addFrom adds those of another run.
func (u *unendedSessions) addFrom(other unendedSessions) {
	u.sessions += other.sessions
	u.err = cmp.Or(u.err, other.err)
}

// unendedOf returns the sessions that the relay could not keep until the end of the run.
func (r *runRecord) unendedOf() unendedSessions {
	if r.dropped == 0 {
		return unendedSessions{}
	}
	return unendedSessions{r.dropped, fmt.Errorf("the program left more than %d sessions, and the proxy keeps no more of them", maxSessions)}
}

// endAll ends the sessions that a program has left. It blocks for endTimeout at most.
func endAll(ctx context.Context, servers Servers, left []*session) (failed unendedSessions) {
	ctx, cancel := context.WithTimeout(ctx, endTimeout)
	defer cancel()
	n := len(servers.Addresses)
	at := 0 // the server that has answered last
	for _, s := range left {
		var err error
		for range n {
			limited, stop := context.WithTimeout(ctx, endTimeout/time.Duration(n))
			err = endSession(limited, servers, servers.Addresses[at], *s)
			if stop(); err == nil {
				break
			}
			at = (at + 1) % n
		}
		if err != nil {
			failed.addFrom(unendedSessions{1, err})
		}
	}
	return failed
}

// endSession ends a session on behalf of its client, as every server of ZooKeeper's protocol lets a client do that
// knows the id and the password. It blocks until ctx ends at most. A session that has ended before is no error.
func endSession(ctx context.Context, servers Servers, address string, s session) error {
	conn, err := servers.dialServer(ctx, address)
	if err != nil {
		return fmt.Errorf("end session %s: %w", s.id, err)
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if err := closeSession(conn, s); err != nil {
		return fmt.Errorf("end session %s: %w", s.id, err)
	}
	return nil
}

// closeSession resumes a session on a connection and closes it.
func closeSession(conn net.Conn, s session) error {
	const xid = 1
	connect := jute.ConnectRequest{
		TimeOut: int32(s.timeout.Milliseconds()), SessionID: s.id, Passwd: s.password, HasReadOnly: true,
	}
	if err := jute.WriteFrame(conn, connect.Append(nil)); err != nil {
		return err
	}
	frame, err := jute.ReadFrame(conn, nil, maxFrame)
	if err != nil {
		return err
	}
	var reply jute.ConnectResponse
	d := jute.NewDecoder(frame)
	if reply.Decode(&d); d.Err() != nil {
		return d.Err()
	}
	if reply.SessionID == 0 {
		return nil
	}
	if err := jute.WriteFrame(conn, jute.RequestHeader{Xid: xid, Op: jute.OpCloseSession}.Append(nil)); err != nil {
		return err
	}
	for {
		frame, err := jute.ReadFrame(conn, frame, maxFrame)
		if err != nil {
			return err
		}
		var header jute.ReplyHeader
		d := jute.NewDecoder(frame)
		switch header.Decode(&d); {
		case d.Err() != nil:
			return d.Err()
		case header.Xid == xid:
			return header.Err.Err()
		}
	}
}
