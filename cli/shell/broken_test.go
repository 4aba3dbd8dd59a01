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

	"rollcall/cli/subtree"
	client "rollcall/client/before"
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
		s.dialServer = func(context.Context, string) (net.Conn, error) {
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
		c, err := client.Open(t.Context(), client.Config{Servers: s.servers, Timeout: 100 * time.Second, Dial: s.dial, OnState: s.handleState})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Abandon()
		s.client = c
		synctest.Wait()
		for _, want := range []string{"", "connection refused"} {
			begun := time.Now()
			err := s.sendWhenConnected(t.Context(), "/", func(sp subtree.Space) error {
				_, _, err := sp.Get(t.Context(), "/")
				return err
			})
			failure, ok := errors.AsType[*requestError](err)
			if took := time.Since(begun); !ok || !strings.Contains(fmt.Sprint(failure.reason), want) || took > connectWait {
				t.Errorf("after %v: %+v, want an error within %v whose reason has %q", took, failure, connectWait, want)
			}
		}
	})
}
