package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// A connection is lost if its other end was closed or reset, and for no other reason.
func TestBrokenOff(t *testing.T) {
	for _, err := range []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE} {
		if wrapped := fmt.Errorf("read: %w", &net.OpError{Err: err}); !isClosedByPeer(wrapped) {
			t.Errorf("%v: not lost", wrapped)
		}
	}
	for _, err := range []error{nil, net.ErrClosed, os.ErrDeadlineExceeded, syscall.ETIMEDOUT, syscall.ECONNREFUSED, fmt.Errorf("%w: %w", errNotRaftRequest, io.EOF)} {
		if isClosedByPeer(err) {
			t.Errorf("%v: lost", err)
		}
	}
}

// The end of a member's last connection is reported, if the member has ended it, and if one of its connections has carried a
// request. The end of a probe is not.
func TestLastConnectionIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lost []raft.ServerID
		p := newPipes(nil)
		tr := New(Config{
			StreamLayer: p, ElectionTimeout: time.Second, Logger: slog.New(slog.DiscardHandler),
			Raft: func() *raft.Raft { return nil }, Elections: fixedElections{lost: func(server raft.ServerID) { lost = append(lost, server) }},
		})
		tr.Start()
		probe := func() {
			conn := p.connect(2)
			synctest.Wait() // this member waits for a request
			conn.Close()
			synctest.Wait()
		}
		probe()
		first, second, stranger := p.connect(2), p.connect(2), p.connect(0)
		other, kept := p.connect(3), p.connect(4)
		expect := func(what string, want ...raft.ServerID) {
			t.Helper()
			if synctest.Wait(); !slices.Equal(lost, want) {
				t.Errorf("%s: lost %v, want %v", what, lost, want)
			}
		}
		expect("a probe")
		beginRequest := func(conn net.Conn) { _, _ = conn.Write([]byte{frameEntries}) }
		beginRequest(first)
		first.Close()
		beginRequest(stranger)
		stranger.Close()
		if expect("one of two"); !tr.HasConnectionFrom(named(2)) {
			t.Error("member 2 has no connection")
		}
		second.Close()
		if expect("the last one", named(2)); tr.HasConnectionFrom(named(2)) {
			t.Error("member 2 has a connection")
		}
		probe()
		expect("a probe after a loss", named(2))
		_, _ = other.Write([]byte{200}) // no request begins so
		expect("one that this member has closed", named(2))
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
		expect("at the end", named(2))
		kept.Close()
	})
}

// A port at which nothing listens rejects a connection. A port that listens does not, and neither does one that does not
// reply. A port may also accept a connection and end it.
func TestProbe(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	book := testBook(1, []Peer{{ID: 1, Addr: "127.0.0.1:1"}, {ID: 2, Addr: addr}})
	dials := map[string]DialFunc{
		"unanswered": func(ctx context.Context, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		},
		"unreachable": func(context.Context, string) (net.Conn, error) { return nil, syscall.EHOSTUNREACH },
		"listening":   DialTCP,
		"dying": func(context.Context, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			go func() {
				_, _ = theirs.Read(make([]byte, 16<<10)) // all of the hello, or of the first message of TLS
				_ = theirs.Close()
			}()
			return ours, nil
		},
		"refused": DialTCP,
	}
	there := NewListener(l, NewHello(testBook(2, []Peer{{ID: 1, Addr: "127.0.0.1:1"}, {ID: 2, Addr: addr}})), nil)
	want := map[string]ProbeResult{"refused": ProbeRefused, "dying": ProbeClosed, "dying, with a secret": ProbeClosed}
	dials["dying, with a secret"] = dials["dying"]
	for _, name := range []string{"unanswered", "unreachable", "listening", "dying", "dying, with a secret", "refused"} {
		if name == "refused" {
			if err := there.Close(); err != nil {
				t.Fatal(err)
			}
		}
		hello := NewHello(book)
		if name == "dying, with a secret" {
			hello = hello.WithGuard(guarded(t, 1, "the secret of the members", false).trustGuard)
		}
		s := NewStream(NewListener(newPipes(nil), hello, nil), hello, dials[name])
		limit := time.Minute
		if name == "unanswered" { // the only probe that no event ends
			limit = 50 * time.Millisecond
		}
		tr := New(Config{StreamLayer: s, ElectionTimeout: limit, Logger: slog.New(slog.DiscardHandler), Raft: func() *raft.Raft { return nil }})
		if got := tr.probeAddress(server(2, addr).ServerAddress()); got != want[name] {
			t.Errorf("%s: %d, want %d", name, got, want[name])
		}
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
	}
	if tr := newTestTransport(t, newPipes(nil)); tr.Probe(named(2)) != ProbeNotDead {
		t.Error("a member of which no address is known does not answer")
	}
}

// A port that takes the connection and says nothing holds up a knock for an election timeout, and no longer.
func TestProbeIsLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := func(context.Context, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			go func() { _, _ = io.Copy(io.Discard, theirs) }()
			return ours, nil
		}
		book := testBook(1, []Peer{{ID: 1, Addr: "a"}, {ID: 2, Addr: "b"}})
		const election = 50 * time.Millisecond
		tr := New(Config{
			StreamLayer: NewStream(NewListener(newPipes(nil), NewHello(book), nil), NewHello(book), silent), ElectionTimeout: election,
			Logger: slog.New(slog.DiscardHandler), Raft: func() *raft.Raft { return nil },
		})
		begun := time.Now()
		if k := tr.probeAddress(server(2, "b").ServerAddress()); k != ProbeNotDead || time.Since(begun) != election {
			t.Errorf("%d after %v, want an answer after %v", k, time.Since(begun), election)
		}
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A term that raft does not store in time is not waited for: the disk may hang. A term that raft has is not requested.
func TestEnterTermIsLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := new(raft.Raft)
		tr := newTestTransport(t, newPipes(nil))
		tr.cfg.Raft = func() *raft.Raft { return r }
		taken := make(chan any, 1)
		go func() { taken <- (<-tr.Consumer()).Command }() // and never answers
		begun := time.Now()
		if err := tr.EnterTerm(5, time.Second); !errors.Is(err, errInterrupted) || time.Since(begun) != time.Second {
			t.Errorf("%v after %v, want an error after a second", err, time.Since(begun))
		}
		if req, ok := (<-taken).(*raft.RequestVoteRequest); !ok || req.Term != 5 || req.LastLogIndex != 0 || req.LastLogTerm != 0 {
			t.Errorf("raft is asked %+v, want a vote for an empty log in term 5", req)
		}
		if err := tr.EnterTerm(0, time.Second); err != nil {
			t.Errorf("the present term: %v", err)
		}
	})
}

// raft stands for election at once, or gets no further request.
func TestStand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTestTransport(t, newPipes(nil))
		begin := time.Now()
		for i, ask := range []func(time.Duration) error{tr.AwaitMainLoop, tr.StandForElection} {
			if err := ask(time.Second); !errors.Is(err, errInterrupted) || time.Since(begin) != time.Duration(i+1)*time.Second {
				t.Errorf("a busy raft: %v after %v", err, time.Since(begin))
			}
		}
		asked := make(chan any, 1)
		go func() {
			rpc := <-tr.Consumer()
			asked <- rpc.Command
			rpc.Respond(&raft.TimeoutNowResponse{}, nil)
		}()
		if err := tr.StandForElection(time.Second); err != nil {
			t.Error(err)
		}
		if _, ok := (<-asked).(*raft.TimeoutNowRequest); !ok {
			t.Error("raft is not asked to stand")
		}
	})
}
