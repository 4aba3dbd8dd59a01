package leader

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	pb "google.golang.org/protobuf/proto"

	"rollcall/proto"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// killed is the answer to a kill.
type killed struct {
	reply *proto.KillReply
	err   error
}

// kill asks for the end of a session in a goroutine of its own.
func (e *ensemble) kill(ctx context.Context, request *proto.KillRequest) <-chan killed {
	request.Nonce = nonce
	answer := make(chan killed, 1)
	e.streams.Go(func() {
		reply, err := e.Kill(ctx, request)
		answer <- killed{reply, err}
	})
	synctest.Wait()
	return answer
}

// proposedOf returns the transactions of op that were proposed.
func (f *fakeLog) proposedOf(op jute.Op) (txns []*proto.Txn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, entry := range f.proposed {
		for _, txn := range entry.Txns {
			if txn.Op == int32(op) {
				txns = append(txns, txn)
			}
		}
	}
	return txns
}

// A kill is in the log with the owner that the operator saw, the silence and the name. When it is
// applied it is answered by what became of it.
func TestKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, session(10, 3), session(11, 3))
		e.run()
		e.at(3 * time.Second)
		for _, tt := range []struct {
			name    string
			request *proto.KillRequest
			want    proto.KillReply_Outcome
		}{
			{"a session", &proto.KillRequest{Session: 10, Since: 10, By: "alice"}, proto.KillReply_CLOSED},
			{"one that has ended", &proto.KillRequest{Session: 10, Since: 10, By: "alice"}, proto.KillReply_GONE},
			{"one that has moved", &proto.KillRequest{Session: 11, Since: 9, By: "alice"}, proto.KillReply_MOVED},
		} {
			a := <-e.kill(t.Context(), tt.request)
			if a.err != nil || a.reply.Outcome != tt.want {
				t.Errorf("%s: %v, %v, want %v", tt.name, a.reply, a.err, tt.want)
			}
		}
		got := e.log.proposedOf(jute.OpKill)
		if len(got) != 3 {
			t.Fatalf("%d kills in the log", len(got))
		}
		var body proto.Kill
		if err := pb.Unmarshal(got[0].Body, &body); err != nil {
			t.Fatal(err)
		}
		if want := (&proto.Kill{Since: 10, SilentMs: 3000, By: "alice"}); !pb.Equal(&body, want) || got[0].Session != 10 || got[0].Member != 0 {
			t.Errorf("%v with %v, want %v", got[0], &body, want)
		}
		if _, lives := e.table.Heard(11, time.Now()); !lives {
			t.Error("the session that has moved is gone")
		}
		e.end()
	})
}

// Of two kills of one session in one entry, the second one finds it gone.
func TestTwoKillsOfOneSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, session(10, 3))
		stream, _, hangUp := e.forward(1)
		e.run()
		stream.in <- writes(2, 1, 1)
		synctest.Wait() // the log takes a millisecond
		first := e.kill(t.Context(), &proto.KillRequest{Session: 10, Since: 10, By: "alice"})
		second := e.kill(t.Context(), &proto.KillRequest{Session: 10, Since: 10, By: "bob"})
		a, b := <-first, <-second
		if a.reply.GetOutcome() != proto.KillReply_CLOSED || b.reply.GetOutcome() != proto.KillReply_GONE {
			t.Errorf("%v and %v", a, b)
		}
		hangUp()
		e.end()
	})
}

// A kill that this leader cannot carry out is refused with a code that says whether to try again, and
// has no effect.
func TestKillRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, session(10, 3))
		e.run()
		refused := func(what string, request *proto.KillRequest, want codes.Code) {
			t.Helper()
			if a := <-e.kill(t.Context(), request); status.Code(a.err) != want {
				t.Errorf("%s: %v, want %v", what, a.err, want)
			}
		}
		refused("with a long name", &proto.KillRequest{Session: 10, Since: 10, By: strings.Repeat("x", znode.MaxBy+1)}, codes.InvalidArgument)
		if _, err := e.Kill(t.Context(), &proto.KillRequest{Nonce: nonce + 1, Session: 10, Since: 10}); status.Code(err) != codes.FailedPrecondition {
			t.Errorf("for another term: %v", err)
		}
		e.end()
		refused("after the term", &proto.KillRequest{Session: 10, Since: 10}, codes.FailedPrecondition)
		e.streams.Wait()
		if n := len(e.log.proposedOf(jute.OpKill)); n != 0 {
			t.Errorf("%d kills in the log", n)
		}
	})
}

// While the log hangs, a limited number of kills wait. One whose caller gives up is forgotten. At the
// end of the term, those that wait were not carried out, and of the one in an entry that is unknown.
func TestKillsWaitForLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, session(10, 3))
		e.log.hang = true
		e.run()
		request := func() *proto.KillRequest { return &proto.KillRequest{Session: 10, Since: 10} }
		sealed := e.kill(t.Context(), request())
		ctx, giveUp := context.WithCancel(t.Context())
		impatient := e.kill(ctx, request())
		var waiting []<-chan killed
		for range maxKills - 1 {
			waiting = append(waiting, e.kill(t.Context(), request()))
		}
		brief, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if a := <-e.kill(brief, request()); status.Code(a.err) != codes.ResourceExhausted {
			t.Errorf("above the limit: %v", a.err)
		}
		giveUp()
		if a := <-impatient; status.Code(a.err) != codes.Canceled {
			t.Errorf("given up: %v", a.err)
		}
		waiting = append(waiting, e.kill(t.Context(), request())) // has the place
		if n := len(e.log.proposedOf(jute.OpKill)); n != 1 {
			t.Errorf("%d kills in the log", n)
		}
		e.end()
		if a := <-sealed; status.Code(a.err) != codes.Aborted {
			t.Errorf("in an entry: %v", a.err)
		}
		for _, w := range waiting {
			if a := <-w; status.Code(a.err) != codes.FailedPrecondition {
				t.Errorf("waiting: %v", a.err)
			}
		}
	})
}
