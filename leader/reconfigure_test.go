package leader

import (
	"context"
	"slices"
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

// reconfigured is the answer to a change of the list of servers.
type reconfigured struct {
	reply *proto.ReconfigureReply
	err   error
}

// change asks for a change in a goroutine of its own.
func (e *ensemble) change(ctx context.Context, request *proto.ReconfigureRequest) <-chan reconfigured {
	request.Nonce = nonce
	answer := make(chan reconfigured, 1)
	e.streams.Go(func() {
		reply, err := e.Reconfigure(ctx, request)
		answer <- reconfigured{reply, err}
	})
	synctest.Wait()
	return answer
}

// lists makes the log apply changes. Each has the next version, and one that names member 9 is refused.
func (e *ensemble) lists(t *testing.T) {
	version := int64(0)
	e.log.changed = func(txn *proto.Txn) {
		var request proto.ReconfigureRequest
		if err := pb.Unmarshal(txn.Body, &request); err != nil {
			t.Error(err)
		}
		if request.Leaving == "9" {
			e.Reconfigured(&znode.Result{Code: jute.BadArguments, Why: "there is no server 9"}, version)
			return
		}
		version++
		e.Reconfigured(&znode.Result{Data: []byte("without " + request.Leaving)}, version)
	}
}

// A change is in the log as the operator asked for it, with the servers that answer the leader then. When
// it is applied, it is answered with what became of it. Each takes an entry.
func TestReconfigure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t)
		e.lists(t)
		e.run()
		e.answering.Store(&[]uint32{1, 3})
		requests := []*proto.ReconfigureRequest{
			{Leaving: "2", Version: 5, Force: true, By: "alice"},
			{Leaving: "9", Version: -1},
			{Joining: "server.4=h:1:2", Leaving: "3", Version: -1},
		}
		want := []*proto.ReconfigureReply{
			{Text: "without 2", Version: 1},
			{Code: int32(jute.BadArguments), Text: "there is no server 9", Version: 1},
			{Text: "without 3", Version: 2},
		}
		var answers []<-chan reconfigured
		for _, r := range requests {
			answers = append(answers, e.change(t.Context(), r))
		}
		for i, answer := range answers {
			if a := <-answer; a.err != nil || !pb.Equal(a.reply, want[i]) {
				t.Errorf("change %d: %v, %v, want %v", i+1, a.reply, a.err, want[i])
			}
		}
		got := e.log.proposedOf(jute.OpReconfig)
		if len(got) != len(requests) || len(e.log.proposed) != len(requests) {
			t.Fatalf("%d changes in %d entries", len(got), len(e.log.proposed))
		}
		for i, txn := range got {
			var body proto.ReconfigureRequest
			if err := pb.Unmarshal(txn.Body, &body); err != nil || !pb.Equal(&body, requests[i]) {
				t.Errorf("change %d: the body is %v, %v", i+1, &body, err)
			}
			if txn.Member != 0 || txn.Session != 0 || !slices.Equal(txn.Reached, []uint32{1, 3}) {
				t.Errorf("change %d: %v", i+1, txn)
			}
		}
		e.end()
	})
}

// A transaction that changes the list says in the log which servers the leader reaches, whatever the sender wrote there.
// No other transaction says that.
func TestReachedIsTheLeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t)
		e.run()
		e.answering.Store(&[]uint32{1, 2})
		f := writes(2, 10, 1, 2)
		f.Txns[1].Op, f.Txns[1].Reached = int32(jute.OpReconfig), []uint32{1, 2, 3, 4}
		o := e.own()
		own := writes(1, 10, 1)
		own.Txns[0].Op = int32(jute.OpReconfig)
		stream, _, hangUp := e.forward(1)
		stream.in <- f
		if err := o.Send(own); err != nil {
			t.Fatal(err)
		}
		e.at(time.Second)
		got := e.log.proposedOf(jute.OpReconfig)
		if len(got) != 2 {
			t.Fatalf("%d changes in the log", len(got))
		}
		for _, txn := range got {
			if !slices.Equal(txn.Reached, []uint32{1, 2}) || txn.Boot != 77 || len(txn.Body) != 10 {
				t.Errorf("in the log: %v", txn)
			}
		}
		if got := e.log.proposedOf(jute.OpSetData); len(got) != 1 || got[0].Reached != nil {
			t.Errorf("another write: %v", got)
		}
		if own.Txns[0].Reached != nil {
			t.Error("the transaction that the own member may send again was changed")
		}
		hangUp()
		o.hangUp(nil)
		e.end()
	})
}

// A change that this leader cannot make is refused with a code that says whether to try again, and has no
// effect.
func TestReconfigureRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t)
		e.lists(t)
		e.run()
		refused := func(what string, request *proto.ReconfigureRequest, want codes.Code) {
			t.Helper()
			if a := <-e.change(t.Context(), request); status.Code(a.err) != want {
				t.Errorf("%s: %v, want %v", what, a.err, want)
			}
		}
		refused("with a long name", &proto.ReconfigureRequest{Leaving: "2", By: strings.Repeat("x", znode.MaxBy+1)}, codes.InvalidArgument)
		refused("too long", &proto.ReconfigureRequest{Members: strings.Repeat("x", maxReconfigureBytes)}, codes.InvalidArgument)
		refused("not UTF-8", &proto.ReconfigureRequest{Members: "\xff"}, codes.InvalidArgument)
		if _, err := e.Reconfigure(t.Context(), &proto.ReconfigureRequest{Nonce: nonce + 1, Leaving: "2"}); status.Code(err) != codes.FailedPrecondition {
			t.Errorf("for another term: %v", err)
		}
		if a := <-e.change(t.Context(), &proto.ReconfigureRequest{Leaving: "2"}); a.err != nil {
			t.Error(a.err)
		}
		e.end()
		refused("after the term", &proto.ReconfigureRequest{Leaving: "2"}, codes.FailedPrecondition)
		e.streams.Wait()
		if n := len(e.log.proposedOf(jute.OpReconfig)); n != 1 {
			t.Errorf("%d changes in the log, want the one that was made", n)
		}
	})
}

// While the log hangs, a limited number of changes wait. One whose caller gives up is forgotten. At the end
// of the term, those that wait were not made, and of the one in an entry that is unknown.
func TestChangesWaitForLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t)
		e.lists(t)
		e.log.hang = true
		e.run()
		request := func() *proto.ReconfigureRequest { return &proto.ReconfigureRequest{Leaving: "2"} }
		sealed := e.change(t.Context(), request())
		ctx, giveUp := context.WithCancel(t.Context())
		impatient := e.change(ctx, request())
		var waiting []<-chan reconfigured
		for range maxReconfigures - 1 {
			waiting = append(waiting, e.change(t.Context(), request()))
		}
		brief, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if a := <-e.change(brief, request()); status.Code(a.err) != codes.ResourceExhausted {
			t.Errorf("above the limit: %v", a.err)
		}
		giveUp()
		if a := <-impatient; status.Code(a.err) != codes.Canceled {
			t.Errorf("given up: %v", a.err)
		}
		waiting = append(waiting, e.change(t.Context(), request())) // has the place
		if n := len(e.log.proposedOf(jute.OpReconfig)); n != 1 {
			t.Errorf("%d changes in the log", n)
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
