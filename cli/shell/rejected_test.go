package shell

import (
	"bufio"
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"

	"rollcall/client"
	"rollcall/zk/jute"
)

// rejectingServer accepts a session and rejects the identity that follows.
func rejectingServer(conn net.Conn) {
	in := bufio.NewReader(conn)
	for _, answer := range [][]byte{
		jute.ConnectResponse{TimeOut: 10000, SessionID: 7, Passwd: make([]byte, 16)}.Append(nil),
		jute.ReplyHeader{Xid: jute.XidAuth, Err: jute.AuthFailed}.Append(nil),
	} {
		if _, err := jute.ReadFrame(in, nil, 1<<20); err != nil {
			return
		}
		_, _ = conn.Write(jute.AppendBytes(nil, answer))
	}
}

// When addauth returns after a rejection, the end of the session is known, however late the client reports it.
// So the next verb finds no session.
func TestRefusedIdentityEndsTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &session{
			target: &target{servers: []string{"a:1"}}, watches: newWatchTable(), onEvent: func(jute.EventType, jute.KeeperState, string) {}, onHint: func(string) {},
			state: connected, changed: make(chan struct{}),
		}
		report := make(chan struct{})
		dial := func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			go rejectingServer(theirs)
			return ours, nil
		}
		c, err := client.Dial(t.Context(), "a:1", client.Config{DialConn: dial, OnState: func(change client.StateChange) {
			if errors.Is(change.Err, client.ErrAuthFailed) {
				<-report
			}
			s.handleState(change)
		}})
		if err != nil {
			t.Fatal(err)
		}
		s.client = c
		returned := make(chan error, 1)
		go func() { returned <- s.addAuth(t.Context(), client.Auth{Scheme: "nonsense", Proof: []byte("z")}) }()
		synctest.Wait()
		if len(returned) > 0 {
			t.Error("addauth returns before the end of the session is known")
		}
		close(report)
		if f, ok := errors.AsType[*requestError](<-returned); !ok || f.code != jute.AuthFailed || s.isAlive() {
			t.Errorf("%+v, want %v; the session counts as alive: %t", f, jute.AuthFailed, s.isAlive())
		}
		c.Abandon()
	})
}
