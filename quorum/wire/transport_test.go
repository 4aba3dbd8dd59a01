package wire

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// fakeInner records the requests that reach it.
type fakeInner struct {
	inner
	sent     []raft.AppendEntriesRequest
	pipe     raft.AppendPipeline
	handlers int
}

func (f *fakeInner) AppendEntries(_ raft.ServerID, _ raft.ServerAddress, req *raft.AppendEntriesRequest, _ *raft.AppendEntriesResponse) error {
	f.sent = append(f.sent, *req)
	return nil
}

func (f *fakeInner) AppendEntriesPipeline(raft.ServerID, raft.ServerAddress) (raft.AppendPipeline, error) {
	return f.pipe, nil
}

func (f *fakeInner) SetHeartbeatHandler(func(raft.RPC)) { f.handlers++ }

// fakePipeline returns the answers that the test gives it.
type fakePipeline struct {
	sent   []raft.AppendEntriesRequest
	done   chan raft.AppendFuture
	closed chan struct{}
}

func (f *fakePipeline) AppendEntries(req *raft.AppendEntriesRequest, _ *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	f.sent = append(f.sent, *req)
	return nil, nil
}
func (f *fakePipeline) Consumer() <-chan raft.AppendFuture { return f.done }
func (f *fakePipeline) Close() error                       { close(f.closed); return nil }

type fakeFuture struct {
	raft.AppendFuture
	err  error
	resp raft.AppendEntriesResponse
}

func (f *fakeFuture) Error() error                          { return f.err }
func (f *fakeFuture) Response() *raft.AppendEntriesResponse { return &f.resp }

// No request reports a commit beyond what the request proves.
func TestCommitIsClamped(t *testing.T) {
	tests := []struct {
		prev, entries, commit, want uint64
	}{
		{prev: 0, entries: 0, commit: 0, want: 0}, // a heartbeat
		{prev: 10, entries: 0, commit: 12, want: 10},
		{prev: 10, entries: 3, commit: 12, want: 12},
		{prev: 10, entries: 3, commit: 13, want: 13},
		{prev: 10, entries: 3, commit: 14, want: 13},
		{prev: 0, entries: 2, commit: 9, want: 2},
	}
	pipe := &fakePipeline{done: make(chan raft.AppendFuture), closed: make(chan struct{})}
	wire := &fakeInner{pipe: pipe}
	tr := &Transport{inner: wire, cfg: Config{Raft: func() *raft.Raft { return nil }, Stalled: noStall}}
	p, err := tr.AppendEntriesPipeline("2", "m2:1")
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for i, tt := range tests {
		req := &raft.AppendEntriesRequest{PrevLogEntry: tt.prev, LeaderCommitIndex: tt.commit}
		for i := range tt.entries {
			req.Entries = append(req.Entries, &raft.Log{Index: tt.prev + 1 + i})
		}
		if err := tr.AppendEntries("2", "m2:1", req, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := p.AppendEntries(req, nil); err != nil {
			t.Fatal(err)
		}
		if got := wire.sent[i].LeaderCommitIndex; got != tt.want {
			t.Errorf("%+v: sent %d", tt, got)
		}
		if got := pipe.sent[i].LeaderCommitIndex; got != tt.want {
			t.Errorf("%+v: pipelined %d", tt, got)
		}
	}
}

func TestNoHeartbeatHandler(t *testing.T) {
	wire := &fakeInner{}
	(&Transport{inner: wire}).SetHeartbeatHandler(func(raft.RPC) {})
	if wire.handlers != 0 {
		t.Error("raft's heartbeat fast path is on")
	}
}

// A pipeline passes its first bad answer on, and is closed, which frees its sender.
func TestPipelineEndsAtFirstFailure(t *testing.T) {
	for name, bad := range map[string]*fakeFuture{
		"refused": {},
		"failed":  {err: errors.New("broken pipe"), resp: raft.AppendEntriesResponse{Success: true}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fake := &fakePipeline{done: make(chan raft.AppendFuture), closed: make(chan struct{})}
				p := newPipeline(fake, func() (commit, last, term uint64) { return 0, 0, 0 }, noStall)
				good := &fakeFuture{resp: raft.AppendEntriesResponse{Success: true}}
				fake.done <- good
				if got := <-p.Consumer(); got != good {
					t.Error("the good answer is lost")
				}
				synctest.Wait()
				select {
				case <-fake.closed:
					t.Fatal("closed after a good answer")
				default:
				}
				fake.done <- bad
				if got := <-p.Consumer(); got != bad {
					t.Error("the bad answer is lost")
				}
				<-fake.closed
				fake.closed = make(chan struct{})
				p.Close()
			})
		})
	}
}

// A body that stalls or arrives too slowly ends the connection; waiting for a request does not.
func TestInConnDeadlines(t *testing.T) {
	tests := []struct {
		name  string
		pause time.Duration // before each byte but the first
		ends  time.Duration
	}{
		{"stalls", time.Hour, stallTimeout},
		{"drips", stallTimeout / 2, rateGrace},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := net.Pipe()
				defer b.Close()
				c := &inConn{Conn: a, owner: newConns(nil, nil)}
				stop := make(chan struct{})
				go func() {
					time.Sleep(24 * time.Hour) // idle
					for piece := unfinished(1 << 20); ; piece = []byte{1} {
						if _, err := b.Write(piece); err != nil {
							return
						}
						select {
						case <-time.After(tt.pause):
						case <-stop:
							return
						}
					}
				}()
				buf := make([]byte, 100)
				if _, err := c.Read(buf); err != nil {
					t.Fatalf("idle: %v", err)
				}
				begin := time.Now()
				var err error
				for err == nil {
					_, err = c.Read(buf)
				}
				if took := time.Since(begin); took != tt.ends {
					t.Errorf("ended after %v, want %v", took, tt.ends)
				}
				if _, err := b.Write([]byte{1}); err == nil {
					t.Error("still open")
				}
				close(stop)
			})
		})
	}
}

// A request that stalls is ended even if its start came with the end of the request before it,
// which was answered meanwhile: the wait for the rest of a request is limited.
func TestSecondRequestStalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := net.Pipe()
		defer b.Close()
		c := &inConn{Conn: a, owner: newConns(nil, slog.New(slog.DiscardHandler))}
		beat := requests(t)["heartbeat"]
		go func() { _, _ = b.Write(append(bytes.Clone(beat), unfinished(100)...)) }()
		buf := make([]byte, 4096)
		if n, err := c.Read(buf); err != nil || !bytes.Equal(buf[:n], beat) {
			t.Fatalf("read %d bytes of a request of %d, %v", n, len(beat), err)
		}
		go func() { _, _ = b.Read(make([]byte, 1)) }()
		if _, err := c.Write([]byte{0}); err != nil {
			t.Fatal(err)
		}
		if n, err := c.Read(buf); err != nil || !bytes.Equal(buf[:n], unfinished(100)) {
			t.Fatalf("read %d bytes of the second request, %v", n, err)
		}
		begin := time.Now()
		if n, err := c.Read(buf); err == nil {
			t.Errorf("read %d bytes that never came", n)
		}
		if took := time.Since(begin); took != stallTimeout {
			t.Errorf("ended after %v, want %v", took, stallTimeout)
		}
	})
}

// After a snapshot no further request is accepted, because a body may look like one.
func TestNothingAfterASnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := net.Pipe()
		defer b.Close()
		c := &inConn{Conn: a, owner: newConns(nil, nil)}
		stream := append(bytes.Clone(requests(t)["snapshot"]), "\x00body, of any bytes"...)
		go func() { _, _ = b.Write(stream) }()
		if got, err := io.ReadAll(io.LimitReader(c, int64(len(stream)))); err != nil || !bytes.Equal(got, stream) {
			t.Fatalf("read %d bytes of %d, %v", len(got), len(stream), err)
		}
		go func() { _, _ = b.Read(make([]byte, 1)) }()
		if n, err := c.Write([]byte{0}); n != 1 || !errors.Is(err, errLast) {
			t.Errorf("the answer: %d bytes, %v", n, err)
		}
	})
}

// A snapshot replaces one of its own or an earlier term, unless that one is complete.
func TestReceipts(t *testing.T) {
	var s receipts
	first := s.begin(5)
	if s.begin(4) != nil {
		t.Error("replaced by one of an earlier term")
	}
	second := s.begin(5)
	if second == nil || s.complete(first) {
		t.Error("not replaced by its own leader's next one")
	}
	s.remove(first)
	third := s.begin(6)
	if third == nil || s.complete(second) {
		t.Error("not replaced by a later leader's")
	}
	if !s.complete(third) || s.begin(7) != nil {
		t.Error("replaced while raft is given it")
	}
	s.remove(third)
	if s.begin(1) == nil {
		t.Error("its place is not free")
	}
}
