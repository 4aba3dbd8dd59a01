package cli

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/cli/nodes"
)

// A walk through a subtree that never ends is an error, and so is one that the user interrupts, but another one.
func TestEndlessWalk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		work := withinWalkTime(func(ctx context.Context, _ nodes.Space, _ []string) error {
			<-ctx.Done()
			return ctx.Err()
		})
		began := time.Now()
		if err := work(t.Context(), nodes.Space{}, nil); !errors.Is(err, errEndlessWalk) || StatusOf(err) != Unavailable || time.Since(began) != maxWalkTime {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		ctx, interrupt := context.WithCancel(t.Context())
		interrupt()
		if err := work(ctx, nodes.Space{}, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("interrupted: %v", err)
		}
	})
}

// A reply to a four-letter word that never ends, though something comes again and again, is an error.
func TestEndlessWord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _, _ := testWorld()
		ours, theirs := net.Pipe()
		var serving sync.WaitGroup
		defer serving.Wait()
		serving.Go(func() {
			_, _ = io.ReadFull(theirs, make([]byte, 4))
			for {
				if _, err := theirs.Write([]byte("line\n")); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		})
		dial := func(context.Context, string) (net.Conn, error) { return ours, nil }
		limited, stop := context.WithTimeout(t.Context(), 2*fourLetterMaxTime)
		defer stop()
		began := time.Now()
		err := sendToClientPort(limited, w, dial, "member:2181", "mntr", func(reply *bufio.Reader) error { return copyVisible(io.Discard, reply) })
		if !errors.Is(err, errEndlessWord) || time.Since(began) != fourLetterMaxTime {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}
