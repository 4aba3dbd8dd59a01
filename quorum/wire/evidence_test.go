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
		if wrapped := fmt.Errorf("read: %w", &net.OpError{Err: err}); !brokenOff(wrapped) {
			t.Errorf("%v: not lost", wrapped)
		}
	}
	for _, err := range []error{nil, net.ErrClosed, os.ErrDeadlineExceeded, syscall.ETIMEDOUT, syscall.ECONNREFUSED, fmt.Errorf("%w: %w", errBounds, io.EOF)} {
		if brokenOff(err) {
			t.Errorf("%v: lost", err)
		}
	}
}

// The end of a member's last connection is reported, if the member has ended it.
func TestLastConnectionIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lost []uint32
		p := newPipes(nil)
		tr := New(Config{
			Stream: p, Election: time.Second, Logger: slog.New(slog.DiscardHandler),
			Raft: func() *raft.Raft { return nil }, Lost: func(member uint32) { lost = append(lost, member) },
		})
		tr.Start()
		first, second, stranger := p.connect(2), p.connect(2), p.connect(0)
		other, kept := p.connect(3), p.connect(4)
		expect := func(what string, want ...uint32) {
			t.Helper()
			if synctest.Wait(); !slices.Equal(lost, want) {
				t.Errorf("%s: lost %v, want %v", what, lost, want)
			}
		}
		first.Close()
		stranger.Close()
		if expect("one of two"); !tr.Connected(2) {
			t.Error("member 2 has no connection")
		}
		second.Close()
		if expect("the last one", 2); tr.Connected(2) {
			t.Error("member 2 has a connection")
		}
		_, _ = other.Write([]byte{200}) // no request begins so
		expect("one that this member has closed", 2)
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
		expect("at the end", 2)
		kept.Close()
	})
}

// A port at which nothing listens refuses. One that listens does not, and neither does one that does not answer. A port
// may also take a connection and end it.
func TestKnock(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	book := NewBook(1, []Peer{{ID: 1, Addr: "127.0.0.1:1"}, {ID: 2, Addr: addr}})
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
				_, _ = theirs.Read(make([]byte, helloSize))
				_ = theirs.Close()
			}()
			return ours, nil
		},
		"refused": DialTCP,
	}
	there := NewListener(l, NewHello(NewBook(2, []Peer{{ID: 1, Addr: "127.0.0.1:1"}, {ID: 2, Addr: addr}})), nil)
	want := map[string]Knock{"refused": Refused, "dying": BrokenOff}
	for _, name := range []string{"unanswered", "unreachable", "listening", "dying", "refused"} {
		if name == "refused" {
			if err := there.Close(); err != nil {
				t.Fatal(err)
			}
		}
		s := NewStream(NewListener(newPipes(nil), NewHello(book), nil), NewHello(book), dials[name])
		tr := New(Config{Stream: s, Election: 50 * time.Millisecond, Logger: slog.New(slog.DiscardHandler), Raft: func() *raft.Raft { return nil }})
		if got := tr.knock(raft.ServerAddress(addr)); got != want[name] {
			t.Errorf("%s: %d, want %d", name, got, want[name])
		}
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
	}
	if tr := newTestTransport(t, newPipes(nil)); tr.Knock(2) != Answered {
		t.Error("a member of which no address is known does not answer")
	}
}

// raft stands for election at once, or is not asked any more.
func TestStand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTestTransport(t, newPipes(nil))
		begin := time.Now()
		for i, ask := range []func(time.Duration) error{tr.Settle, tr.Stand} {
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
		if err := tr.Stand(time.Second); err != nil {
			t.Error(err)
		}
		if _, ok := (<-asked).(*raft.TimeoutNowRequest); !ok {
			t.Error("raft is not asked to stand")
		}
	})
}
