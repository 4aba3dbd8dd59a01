package leader

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"rollcall/proto"
)

// ownLink is the link of the leader's own member on its stream: what it sends, and why the stream
// ended.
type ownLink struct {
	proto.Leader_ForwardClient
	hangUp context.CancelCauseFunc
	sent   chan error // the error that the last Send returned
	ended  chan error
}

func (e *ensemble) openOwnLink() *ownLink {
	ctx, hangUp := context.WithCancelCause(context.Background())
	o := &ownLink{Leader_ForwardClient: e.OpenOwnStream(ctx), hangUp: hangUp, sent: make(chan error, 1), ended: make(chan error, 1)}
	e.t.Cleanup(func() { hangUp(nil) })
	e.streams.Go(func() {
		err := o.RecvMsg(new(proto.ForwardEnd))
		hangUp(nil) // as a link does
		o.ended <- err
	})
	return o
}

// soon returns the next value, which must come within a minute.
func soon(t *testing.T, outcome <-chan error) error {
	t.Helper()
	select {
	case err := <-outcome:
		return err
	case <-time.After(time.Minute):
		t.Fatal("it does not end")
		return nil
	}
}

// fillQueue sends more than the queue takes, and leaves a Send that waits. It returns the number of queued messages.
func (o *ownLink) fillQueue(t *testing.T, size int) (queued int) {
	t.Helper()
	count := make(chan int, 1000)
	go func() {
		for seq := uint64(1); ; seq++ {
			if err := o.Send(writes(1, size, seq)); err != nil {
				o.sent <- err
				return
			}
			count <- 1
		}
	}()
	synctest.Wait()
	if len(o.sent) != 0 || len(count) < maxWaitingBytes/size || len(count) > (maxWaitingBytes+2*maxEntryBytes)/size+2 {
		t.Fatalf("%d messages of %d bytes were queued, Send waits: %t", len(count), size, len(o.sent) == 0)
	}
	return len(count)
}

// The writes of the leader's own member are in the log in the order they were sent, between those
// of other members.
func TestOwnStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t)
		e.run()
		o := e.openOwnLink()
		two, _, hangUp := e.forward(0)
		for seq := uint64(1); seq <= 100; seq++ {
			if err := o.Send(writes(1, 10, 2*seq-1, 2*seq)); err != nil {
				t.Fatal(err)
			}
			two.in <- writes(2, 10, seq)
		}
		e.at(time.Second)
		counted(t, e.log.seqs(1), 200)
		counted(t, e.log.seqs(2), 100)
		hangUp()
		if _, err := o.CloseAndRecv(); err != nil {
			t.Errorf("CloseAndRecv: %v", err)
		}
		if err := soon(t, o.ended); !errors.Is(err, io.EOF) {
			t.Errorf("closed, the stream ended with %v", err)
		}
		e.end()
	})
}

// While the log does not keep up, Send waits; then all writes arrive.
func TestOwnStreamWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t)
		e.log.delay = time.Second
		e.run()
		o := e.openOwnLink()
		const size, n = 100_000, 300
		for seq := uint64(1); seq <= n; seq++ {
			if err := o.Send(writes(1, size, seq)); err != nil {
				t.Fatal(err)
			}
			if most := e.log.countApplied() + (maxWaitingBytes+maxUnderWayBytes+2*maxEntryBytes)/size + 2; int(seq) > most {
				t.Fatalf("%d messages of %d bytes were queued, want %d at most", seq, size, most)
			}
		}
		e.at(time.Minute)
		counted(t, e.log.seqs(1), n)
		e.end()
	})
}

// countApplied returns the number of applied transactions.
func (f *fakeLog) countApplied() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.applied)
}

// However the stream ends, a Send that waits for room ends too, RecvMsg returns the reason, and
// nothing more is taken.
func TestOwnStreamEnds(t *testing.T) {
	hungUp := errors.New("hung up")
	tests := []struct {
		name string
		end  func(e *ensemble, o *ownLink)
		why  func(err error) bool
	}{
		{"by the member", func(_ *ensemble, o *ownLink) { o.hangUp(hungUp) }, func(err error) bool { return errors.Is(err, hungUp) }},
		{"with the term", func(e *ensemble, _ *ownLink) { e.stop() }, func(err error) bool { return status.Code(err) == codes.FailedPrecondition }},
		{"by a newer one", func(e *ensemble, _ *ownLink) { e.intake.replaceStream(&forwarding{member: 1}) }, func(err error) bool { return status.Code(err) == codes.Aborted }},
		{"by silence", func(e *ensemble, _ *ownLink) { e.intake.endStream(1, errMemberSilent) }, func(err error) bool { return errors.Is(err, errMemberSilent) }},
	}
	for _, idle := range []bool{false, true} {
		for _, tt := range tests {
			t.Run(fmt.Sprintf("%s idle=%t", tt.name, idle), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					e := newEnsemble(t)
					e.log.hang = true
					e.run()
					o := e.openOwnLink()
					queued := 0
					if idle {
						if err := o.Send(writes(1, 10)); err != nil {
							t.Fatal(err)
						}
					} else {
						queued = o.fillQueue(t, 100_000)
					}
					tt.end(e, o)
					if err := soon(t, o.ended); !tt.why(err) {
						t.Errorf("the stream ended with %v", err)
					}
					if !idle {
						if err := soon(t, o.sent); !errors.Is(err, io.EOF) {
							t.Errorf("the Send that waited: %v, want EOF", err)
						}
					}
					if err := o.Send(writes(1, 10, 9999)); !errors.Is(err, io.EOF) {
						t.Errorf("a later Send: %v, want EOF", err)
					}
					synctest.Wait()
					e.intake.mu.Lock()
					waiting := len(e.intake.waiting) - e.intake.head
					e.intake.mu.Unlock()
					for _, n := range e.log.lengths() {
						waiting += n
					}
					if waiting != queued {
						t.Errorf("%d transactions were taken, want the %d that were sent", waiting, queued)
					}
					e.end()
				})
			})
		}
	}
}

// A member's stream over gRPC and its stream without gRPC replace each other: the newer one stays.
func TestOwnStreamAndForwardEndEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t)
		e.run()
		remote, ended, _ := e.forward(1)
		remote.in <- writes(1, 10, 1)
		synctest.Wait()
		o := e.openOwnLink()
		synctest.Wait()
		if len(ended) != 0 {
			t.Error("a stream that said nothing ended another")
		}
		if err := o.Send(writes(1, 10, 2)); err != nil {
			t.Fatal(err)
		}
		if err := soon(t, ended); status.Code(err) != codes.Aborted {
			t.Errorf("the older stream ended with %v", err)
		}
		remote, _, hangUp := e.forward(1)
		remote.in <- writes(1, 10, 3)
		if err := soon(t, o.ended); status.Code(err) != codes.Aborted {
			t.Errorf("the own stream ended with %v", err)
		}
		e.at(time.Second)
		counted(t, e.log.seqs(1), 3)
		hangUp()
		e.end()
	})
}

// If a stream ended before it was used, nothing is taken from it.
func TestOwnStreamEndsBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t)
		e.run()
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := e.OpenOwnStream(ctx).Send(writes(1, 10, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("Send: %v, want EOF", err)
		}
		e.at(time.Second)
		counted(t, e.log.seqs(1), 0)
		e.end()
	})
}

// Messages that Forward rejects are rejected on the own stream too.
func TestOwnStreamRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t)
		e.run()
		for name, tt := range map[string]struct {
			change func(f *proto.Forwarded)
			code   codes.Code
		}{
			"another term":         {func(f *proto.Forwarded) { f.Nonce++ }, codes.FailedPrecondition},
			"no member":            {func(f *proto.Forwarded) { f.Member = 9 }, codes.InvalidArgument},
			"the leader's own":     {func(f *proto.Forwarded) { f.Txns[0].Member = 0 }, codes.InvalidArgument},
			"another boot's":       {func(f *proto.Forwarded) { f.Txns[0].Incarnation++ }, codes.InvalidArgument},
			"from nobody":          {func(f *proto.Forwarded) { f.Member = 0 }, codes.InvalidArgument},
			"another member's too": {func(f *proto.Forwarded) { f.Txns = append(f.Txns, writes(2, 1, 1).Txns...) }, codes.InvalidArgument},
		} {
			o := e.openOwnLink()
			f := writes(1, 1, 1)
			tt.change(f)
			if err := o.Send(f); !errors.Is(err, io.EOF) {
				t.Errorf("%s: Send: %v, want EOF", name, err)
			}
			if err := soon(t, o.ended); status.Code(err) != tt.code {
				t.Errorf("%s: %v, want %s", name, err, tt.code)
			}
		}
		if len(e.log.proposed) != 0 {
			t.Errorf("proposed %v", e.log.proposed)
		}
		e.end()
	})
}
