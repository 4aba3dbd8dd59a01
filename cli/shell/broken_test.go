package shell

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/cli/nodes"
	"rollcall/client"
	"rollcall/zk/jute"
)

// A read whose connection breaks fails at once. The next command fails as soon as no server can be reached, and names the reason.
func TestReadWhoseConnectionBreaks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &session{
			target: &target{servers: []string{"a:1"}}, watches: newWatchTable(),
			onEvent: func(jute.EventType, jute.KeeperState, string) {}, onHint: func(string) {},
			state: connecting, changed: make(chan struct{}),
		}
		dials := 0
		s.dialServer = func(context.Context, string, string) (net.Conn, error) {
			if dials++; dials > 1 {
				return nil, errors.New("connection refused")
			}
			ours, theirs := net.Pipe()
			go func() {
				defer theirs.Close()
				in := bufio.NewReader(theirs)
				if _, err := jute.ReadFrame(in, nil, 1<<20); err != nil {
					return
				}
				reply := jute.ConnectResponse{TimeOut: 100_000, SessionID: 7, Passwd: make([]byte, 16)}
				_, _ = theirs.Write(jute.AppendBytes(nil, reply.Append(nil)))
				_, _ = jute.ReadFrame(in, nil, 1<<20) // the read
			}()
			return ours, nil
		}
		c, err := client.Dial(t.Context(), s.servers[0], s.clientConfig(&Config{Timeout: 100 * time.Second}))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Abandon()
		s.client = c
		synctest.Wait()
		for _, want := range []string{"", "connection refused"} {
			begun := time.Now()
			err := s.sendWhenConnected(t.Context(), "/", func(_ context.Context, sp nodes.Space) error {
				_, _, err := sp.Get(t.Context(), "/")
				return err
			})
			failure, ok := errors.AsType[*requestError](err)
			if took := time.Since(begun); !ok || !strings.Contains(fmt.Sprint(failure.reason), want) || took > connectWait {
				t.Errorf("after %v: %+v, want an error within %v whose reason has %q", took, failure, connectWait, want)
			}
		}
		// The state of the shell follows that of the connection. A command in between is sent to nobody, and waits for it.
		s.updateState(func() { s.state = connected })
		begun, failed := time.Now(), make(chan error)
		go func() {
			failed <- s.sendWhenConnected(t.Context(), "/", func(_ context.Context, sp nodes.Space) error {
				_, _, err := sp.Get(t.Context(), "/")
				return err
			})
		}()
		synctest.Wait()
		s.updateState(func() { s.state = connecting })
		failure, _ := errors.AsType[*requestError](<-failed)
		if took := time.Since(begun); failure == nil || !strings.Contains(fmt.Sprint(failure.reason), "refused") || took > connectWait {
			t.Errorf("after %v: %+v, want an error within %v for a refused connection", took, failure, connectWait)
		}
	})
}

// The prompt below an event has the state after it. Commands go by that state once the event is printed.
func TestPromptBelowEvent(t *testing.T) {
	s := &session{state: connecting, promptState: connecting, changed: make(chan struct{})}
	var shown, state string
	s.onEvent = func(jute.EventType, jute.KeeperState, string) { shown, state = s.shownState(), s.currentState() }
	s.handleState(client.StateChange{State: client.Connected})
	if shown != connected || state != connecting || s.currentState() != connected {
		t.Errorf("at the event the prompt has %s, and commands go by %s; afterwards by %s", shown, state, s.currentState())
	}
}
