package trouble

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"rollcall/client"
	"rollcall/lab/process"
)

// writeInterval is the pause after each write of a client. The figures of the table have it in them: a client that notices nothing
// has a gap of a little more.
const writeInterval = 100 * time.Millisecond

// retryPause is the pause after a write that failed.
const retryPause = 10 * time.Millisecond

// writer is a client that writes a node of its own all the time. Its first server is one member, and it may use the others.
type writer struct {
	member string

	mu      sync.Mutex
	acks    []ack // one every writeInterval at most, for as long as a row takes
	losses  int   // writes without a reply
	expired bool
}

// ack is a write that was acknowledged.
type ack struct{ sent, at time.Time }

func (w *writer) noteAck(a ack) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.acks = append(w.acks, a)
}

func (w *writer) noteFailure(expired bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.losses++
	w.expired = w.expired || expired
}

// servedSince reports whether a write that was sent after a time was acknowledged.
func (w *writer) servedSince(since time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.acks) > 0 && w.acks[len(w.acks)-1].sent.After(since)
}

// hasExpired reports whether the session has ended.
func (w *writer) hasExpired() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.expired
}

// longestGap returns the longest time between two acknowledged writes from begin to end.
func (w *writer) longestGap(begin, end time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return longestGap(w.acks, begin, end)
}

// longestGap counts the last acknowledgement before begin as the beginning of the first gap, and end as the end of the last one.
func longestGap(acks []ack, begin, end time.Time) time.Duration {
	last, longest := begin, time.Duration(0)
	for _, a := range acks {
		switch {
		case a.at.Before(begin):
			last = a.at
		case a.at.After(end):
			return max(longest, end.Sub(last))
		default:
			longest, last = max(longest, a.at.Sub(last)), a.at
		}
	}
	return max(longest, end.Sub(last))
}

// percentile returns the time that a share of the writes from begin to end took at most.
func (w *writer) percentile(share float64, begin, end time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	var took []time.Duration
	for _, a := range w.acks {
		if a.sent.After(begin) && a.at.Before(end) {
			took = append(took, a.at.Sub(a.sent))
		}
	}
	if len(took) == 0 {
		return 0
	}
	slices.Sort(took)
	return took[int(share*float64(len(took)-1))]
}

// startGo starts a writer with our own client. It ends with the test. If its session ends, it opens another one, as kazoo does.
func startGo(t *testing.T, w *writer, servers string, timeout time.Duration) {
	t.Helper()
	dial := func(ctx context.Context) (*client.Client, error) {
		return client.Dial(ctx, servers, client.Config{Timeout: timeout, InOrder: true, GiveUpAfter: client.NeverGiveUp})
	}
	path := "/trouble-" + w.member
	c, err := dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := c.CreateAll(t.Context(), path, client.Persistent); err != nil {
		t.Fatal(err)
	}
	if _, got := c.Session(); got != timeout {
		t.Fatalf("the session's timeout is %v, want %v", got, timeout)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan struct{})
	t.Cleanup(func() {
		cancel()
		<-ended
		c.Abandon()
	})
	go func() {
		defer close(ended)
		for pause := time.Duration(0); sleep(ctx, pause); {
			pause = retryPause
			sent := time.Now()
			_, err := c.Set(ctx, path, nil, client.AnyVersion)
			switch {
			case err == nil:
				w.noteAck(ack{sent, time.Now()})
				pause = writeInterval
			case ctx.Err() != nil:
			case errors.Is(err, client.ErrExpired):
				w.noteFailure(true)
				if next, err := dial(ctx); err == nil {
					c.Abandon()
					c = next
				}
			default:
				w.noteFailure(false)
			}
		}
	}()
}

// startKazoo starts a writer with kazoo. It ends with the test.
func startKazoo(t *testing.T, w *writer, servers string, timeout time.Duration) {
	t.Helper()
	cmd := exec.Command("/usr/bin/python3", "testdata/writer.py", servers, fmt.Sprint(timeout.Seconds()),
		"/trouble-"+w.member, fmt.Sprint(writeInterval.Seconds()), fmt.Sprint(retryPause.Seconds()))
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	cmd.Stderr = &said
	p := process.Start(t, "kazoo", cmd, said.String)
	began := make(chan struct{})
	go func() { // ends with the process
		begin := sync.OnceFunc(func() { close(began) })
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			word, seconds, _ := strings.Cut(lines.Text(), " ")
			took, _ := strconv.ParseFloat(seconds, 64)
			switch now := time.Now(); word {
			case "ack":
				w.noteAck(ack{now.Add(-time.Duration(took * float64(time.Second))), now})
				begin()
			default:
				w.noteFailure(word == "expired")
			}
		}
	}()
	select {
	case <-began:
	case <-time.After(process.Patience):
		t.Fatalf("kazoo does not write: %s", said.String())
	}
	t.Cleanup(p.Kill)
}

// sleep reports whether the pause has passed before ctx ended.
func sleep(ctx context.Context, pause time.Duration) bool {
	select {
	case <-time.After(pause):
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
