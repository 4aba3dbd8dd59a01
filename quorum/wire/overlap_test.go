package wire

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// pipeEnd is a connection whose end can be seen.
type pipeEnd struct {
	net.Conn
	closed atomic.Bool
}

func (p *pipeEnd) Close() error {
	p.closed.Store(true)
	return p.Conn.Close()
}

// If an attempt to connect takes long, others begin beside it. The first connection counts, and the others are closed.
func TestDialOverlapping(t *testing.T) {
	for winner, takes := range [][]time.Duration{
		{2 * attemptPause, time.Hour},
		{time.Hour, attemptPause / 2},
		{time.Hour, time.Hour, attemptPause / 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			var mu sync.Mutex
			var ends []*pipeEnd
			add := func(end *pipeEnd) (number int) {
				mu.Lock()
				defer mu.Unlock()
				ends = append(ends, end)
				return len(ends) - 1
			}
			conn, err := dialOverlapping(t.Context(), func(context.Context) (net.Conn, error) {
				ours, theirs := net.Pipe()
				end := &pipeEnd{Conn: ours}
				time.Sleep(takes[add(end)]) // it does not heed the context
				_ = theirs.Close()
				return end, nil
			})
			mu.Lock()
			defer mu.Unlock()
			if err != nil || len(ends) != len(takes) || conn != net.Conn(ends[winner]) {
				t.Fatalf("connected %v with %d attempts, want number %d of %d: %v", conn, len(ends), winner, len(takes), err)
			}
			time.Sleep(2 * time.Hour)
			for i, end := range ends {
				if end.closed.Load() != (i != winner) {
					t.Errorf("connection %d is closed: %t", i, end.closed.Load())
				}
			}
		})
	}
}

// A member that is slow, and not only unlucky, gets few handshakes beside the first one, which is never cancelled.
func TestDialOverlappingWaitsForASlowMember(t *testing.T) {
	for takes, attempts := range map[time.Duration]int{
		attemptPause / 2: 1, 1700 * time.Millisecond: 3, 1900 * time.Millisecond: 3, 3 * time.Second: 4,
		helloTimeout - 1: 4, time.Minute: 4, // while four are under way
	} {
		synctest.Test(t, func(t *testing.T) {
			var begun atomic.Int64
			began := time.Now()
			_, err := dialOverlapping(t.Context(), func(ctx context.Context) (net.Conn, error) {
				begun.Add(1)
				select {
				case <-time.After(takes):
					ours, _ := net.Pipe()
					return ours, nil
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			})
			if err != nil || time.Since(began) != takes || int(begun.Load()) != attempts {
				t.Errorf("a handshake of %v: %v after %v, and %d attempts, want %d", takes, err, time.Since(began), begun.Load(), attempts)
			}
			synctest.Wait()
		})
	}
}

// An error counts only if no other attempt is under way. The member may have rejected the others because they are so
// many.
func TestDialOverlappingOutlivesErrors(t *testing.T) {
	stalled, refused := errors.New("stalled"), errors.New("refused")
	for _, want := range []error{nil, stalled} {
		synctest.Test(t, func(t *testing.T) {
			var begun atomic.Int64
			conn, err := dialOverlapping(t.Context(), func(context.Context) (net.Conn, error) {
				if begun.Add(1) > 1 {
					return nil, refused
				}
				time.Sleep(3 * time.Second)
				ours, _ := net.Pipe()
				return ours, want
			})
			if !errors.Is(err, want) || (conn == nil) != (want != nil) || begun.Load() != 4 {
				t.Errorf("%v, %v with %d attempts; want %v", conn, err, begun.Load(), want)
			}
		})
	}
}

// At most maxAttempts are under way, until the context ends.
func TestDialOverlappingHasALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, most atomic.Int64
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		_, err := dialOverlapping(ctx, func(ctx context.Context) (net.Conn, error) {
			most.Store(max(most.Load(), running.Add(1)))
			<-ctx.Done()
			running.Add(-1)
			return nil, ctx.Err()
		})
		synctest.Wait()
		if !errors.Is(err, context.DeadlineExceeded) || running.Load() != 0 || most.Load() != maxAttempts {
			t.Errorf("%v; %d attempts at once, want %d; %d left", err, most.Load(), maxAttempts, running.Load())
		}
	})
}

// The error of a dial names the member and its address.
func TestErrorOfADialNamesTheMember(t *testing.T) {
	refused := errors.New("refused")
	_, err := NewHello(testBook(2, testPeers)).Dial(t.Context(), func(context.Context, string) (net.Conn, error) {
		return nil, refused
	}, "m1:2888", 1)
	if !errors.Is(err, refused) || !strings.Contains(err.Error(), "member 1 at m1:2888") {
		t.Errorf("%v", err)
	}
}
