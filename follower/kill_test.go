package follower

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	pb "google.golang.org/protobuf/proto"

	"rollcall/proto"
)

// A kill is asked for again after an error, until it is answered or cannot succeed. It is in doubt
// after an error that does not say that nothing was done.
func TestKillIsAskedForAgain(t *testing.T) {
	for _, tt := range []struct {
		name  string
		codes []codes.Code // the answers, in turn
		want  codes.Code
		doubt bool
	}{
		{"answered", []codes.Code{codes.OK}, codes.OK, false},
		{"after a change of leader", []codes.Code{codes.FailedPrecondition, codes.OK}, codes.OK, false},
		{"after a queue was full", []codes.Code{codes.ResourceExhausted, codes.OK}, codes.OK, false},
		{"after a lost answer", []codes.Code{codes.Unavailable, codes.OK}, codes.OK, true},
		{"after the end of a term", []codes.Code{codes.Aborted, codes.FailedPrecondition, codes.OK}, codes.OK, true},
		{"wrong", []codes.Code{codes.InvalidArgument}, codes.InvalidArgument, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, nil, func(t *testing.T, r *rig) {
				l := r.announced()
				tries := 0
				l.kill = func(_ context.Context, req *proto.KillRequest) (*proto.KillReply, error) {
					if want := (&proto.KillRequest{Nonce: l.nonce, Session: 7, Since: 5, By: "alice"}); !pb.Equal(req, want) {
						t.Errorf("%v, want %v", req, want)
					}
					tries++
					if code := tt.codes[tries-1]; code != codes.OK {
						return nil, status.Error(code, "no")
					}
					return &proto.KillReply{Outcome: proto.KillReply_MOVED}, nil
				}
				k, err := r.f.Kill(t.Context(), 7, 5, "alice")
				if status.Code(err) != tt.want || k.Doubtful != tt.doubt || tries != len(tt.codes) {
					t.Errorf("%+v, %v after %d tries", k, err, tries)
				}
				if err == nil && k.Outcome != proto.KillReply_MOVED {
					t.Errorf("outcome %v", k.Outcome)
				}
			})
		})
	}
}

// A kill waits for a leader, and leaves one that a newer term has followed. When its caller gives up,
// it says whether the session may have ended.
func TestKillWaits(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		l := r.announced()
		l.kill = func(ctx context.Context, _ *proto.KillRequest) (*proto.KillReply, error) {
			<-ctx.Done()
			return nil, status.FromContextError(ctx.Err()).Err()
		}
		r.raftTerm.Store(2) // an election is under way
		ctx, cancel := context.WithTimeout(t.Context(), tick)
		defer cancel()
		if k, err := r.f.Kill(ctx, 7, 5, ""); err == nil || k.Doubtful {
			t.Errorf("without a leader: %+v, %v", k, err)
		}
		r.raftTerm.Store(1)
		ctx, cancel = context.WithTimeout(t.Context(), tick)
		defer cancel()
		if k, err := r.f.Kill(ctx, 7, 5, ""); err == nil || !k.Doubtful {
			t.Errorf("without an answer: %+v, %v", k, err)
		}
		next := &fakeLeader{nonce: 1002, kill: func(context.Context, *proto.KillRequest) (*proto.KillReply, error) {
			return &proto.KillReply{Outcome: proto.KillReply_CLOSED}, nil
		}}
		r.mu.Lock()
		r.leaders[2] = next
		r.mu.Unlock()
		ctx, cancel = context.WithTimeout(t.Context(), 10*tick)
		defer cancel()
		answered := make(chan error, 1)
		go func() {
			_, err := r.f.Kill(ctx, 7, 5, "")
			answered <- err
		}()
		synctest.Wait() // the old leader is asked
		began := time.Now()
		r.start(2, 2, next.nonce)
		if err := <-answered; err != nil || time.Since(began) != 0 {
			t.Errorf("by the next leader: %v after %v", err, time.Since(began))
		}
	})
}

// AwaitSync returns when what was committed is applied here, and forgets a sync whose caller gives up.
func TestAwaitSync(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		l := r.announced()
		l.sync = func(context.Context) (uint64, error) { return r.state.index, nil }
		if err := r.f.AwaitSync(t.Context()); err != nil {
			t.Error(err)
		}
		next := r.state.index + 1
		l.sync = func(context.Context) (uint64, error) { return next, nil }
		ctx, cancel := context.WithTimeout(t.Context(), tick)
		defer cancel()
		if err := r.f.AwaitSync(ctx); err == nil {
			t.Error("it returned before the entry was applied")
		}
		for _, round := range r.f.syncs.rounds {
			if len(round.waiters) > 0 {
				t.Error("the sync is not forgotten")
			}
		}
		done := make(chan error, 1)
		go func() { done <- r.f.AwaitSync(t.Context()) }()
		synctest.Wait()
		r.apply()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
