package wire

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"

	"github.com/hashicorp/raft"

	"rollcall/quorum/disk"
)

// ErrRestart is the error when the process must start again: raft's memory of the
// log no longer fits what it has stored, which a start sets right.
var ErrRestart = errors.New("quorum: restart needed after a snapshot was installed")

// maxSnapshot is the largest snapshot that is received, in bytes: a number so far beyond
// what fits into memory that a greater one is garbage.
const maxSnapshot = 1 << 40

// receive takes in the body of an InstallSnapshot beside raft's main loop, so that this
// member goes on voting and answering however slow the sender is, and hands the request
// over when it is complete. inConn ends a body that stalls.
func (t *Transport) receive(rpc raft.RPC, req *raft.InstallSnapshotRequest) {
	resp, err := t.install(rpc, req)
	if resp == nil {
		rpc.Respond(nil, err)
		return
	}
	rpc.Respond(resp, err)
}

func (t *Transport) install(rpc raft.RPC, req *raft.InstallSnapshotRequest) (any, error) {
	if req.Size < 0 || req.Size > maxSnapshot {
		return nil, errBadRequest // its connection ends with the answer
	}
	// An unread body would be taken for requests: bytes that clients chose.
	defer func() { _, _ = io.Copy(io.Discard, rpc.Reader) }()
	r := t.cfg.Raft()
	if !t.running.Load() || r == nil {
		return nil, errStarting
	}
	if resp, done, err := t.known(r, req); done {
		return resp, err
	}
	mine := t.receipts.begin(req.Term)
	if mine == nil {
		return nil, errReceiving
	}
	defer t.receipts.end(mine)
	s, err := t.cfg.Spool()
	if err != nil {
		t.cfg.Fail(fmt.Errorf("quorum: receive snapshot: %w", err))
		return nil, err
	}
	defer s.Close()
	if err := t.collect(s, rpc.Reader, req.Size); err != nil {
		return nil, err
	}
	if err := t.cfg.Inspect(s, req); err != nil {
		t.cfg.Refused(req, err)
		return nil, fmt.Errorf("quorum: snapshot refused: %w", err)
	}
	if err := t.rewind(s); err != nil {
		return nil, err
	}
	if !t.receipts.complete(mine) {
		return nil, errReplaced
	}
	if resp, done, err := t.known(r, req); done { // time has passed
		return resp, err
	}
	return t.handOver(r, req, s)
}

// receipts lets one snapshot at a time be received. One of the same or a later term takes
// the place of that before, whose sender leads no more, or has given it up (raft sends one
// at a time to a member): it may be dead, with its connection open, and nobody should wait
// until that is noticed. The zero value is ready.
type receipts struct {
	mu  sync.Mutex
	now *receipt
}

// receipt is a snapshot that is being received; guarded by receipts.mu.
type receipt struct {
	term  uint64
	whole bool // raft is given it: too late to be replaced
}

// begin returns the receipt of a snapshot of term; nil if another one goes on.
func (s *receipts) begin(term uint64) *receipt {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now != nil && (s.now.whole || term < s.now.term) {
		return nil
	}
	s.now = &receipt{term: term}
	return s.now
}

// complete notes that all of a snapshot is here, and reports whether it is still wanted.
func (s *receipts) complete(r *receipt) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.whole = s.now == r
	return r.whole
}

func (s *receipts) end(r *receipt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now == r {
		s.now = nil
	}
}

// collect copies size bytes from the network into s.
func (t *Transport) collect(s disk.Spool, from io.Reader, size int64) error {
	src := &source{r: from}
	n, err := io.Copy(s, src)
	switch {
	case src.err != nil:
		return fmt.Errorf("quorum: receive snapshot: %w", src.err)
	case err != nil:
		err = fmt.Errorf("quorum: store received snapshot: %w", err)
		t.cfg.Fail(err)
		return err
	case n != size:
		return fmt.Errorf("quorum: received %d of %d bytes of a snapshot", n, size)
	}
	return t.rewind(s)
}

func (t *Transport) rewind(s disk.Spool) error {
	err := s.Rewind()
	if err != nil {
		err = fmt.Errorf("quorum: read received snapshot: %w", err)
		t.cfg.Fail(err)
	}
	return err
}

// source remembers the reader's own error, to tell it from the writer's.
type source struct {
	r   io.Reader
	err error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}

// known deals with a snapshot that holds nothing new. raft would go back to it and drop
// the entries after it, which the leader counts on. That all up to an applied index is
// here can be said without raft; but asked for a second time, raft's memory of the log
// must be wrong, so that it refuses what follows the snapshot.
func (t *Transport) known(r *raft.Raft, req *raft.InstallSnapshotRequest) (resp any, done bool, err error) {
	term := r.CurrentTerm()
	if req.Term < term {
		return &raft.InstallSnapshotResponse{Term: term}, true, nil
	}
	if req.LastLogIndex > r.AppliedIndex() {
		return nil, false, nil
	}
	if req.Term > term {
		return nil, true, fmt.Errorf("quorum: snapshot of term %d in term %d; try again", req.Term, term)
	}
	if t.installed.Swap(req.LastLogIndex) == req.LastLogIndex {
		t.cfg.Fail(fmt.Errorf("%w: the snapshot of index %d came a second time", ErrRestart, req.LastLogIndex))
		return nil, true, ErrRestart
	}
	return &raft.InstallSnapshotResponse{Term: term, Success: true}, true, nil
}

// installs reports whether raft installs a snapshot of the leader of term, and so follows it
// and nobody else. Its main loop does nothing else meanwhile, for as long as it takes to store
// the snapshot and to restore from it. A leader of two would lose its lease: Transport answers
// its heartbeats. Should raft be done by now and have voted in a later term, this answer is
// one that was under way for a while.
func (t *Transport) installs(r *raft.Raft, term uint64) bool {
	return term != 0 && t.busy.Load() == term && r.CurrentTerm() == term
}

// handOver gives raft a complete snapshot and waits for its answer.
func (t *Transport) handOver(r *raft.Raft, req *raft.InstallSnapshotRequest, body io.Reader) (any, error) {
	t.installed.Store(req.LastLogIndex)
	t.busy.Store(req.Term)
	defer t.busy.Store(0)
	answer := make(chan raft.RPCResponse, 1)
	select {
	case t.whole <- raft.RPC{Command: req, Reader: body, RespChan: answer}:
	case <-t.closed:
		return nil, raft.ErrTransportShutdown
	}
	var got raft.RPCResponse
	select {
	case got = <-answer:
	case <-t.closed:
		return nil, raft.ErrTransportShutdown
	}
	if resp, ok := got.Response.(*raft.InstallSnapshotResponse); ok && resp.Success {
		t.cfg.Installed(req.LastLogTerm)
		// raft has emptied the log store but still remembers its end. Where that lies at or
		// above the snapshot, it would go by it: refuse entries, and compare votes with it.
		if last, _ := strconv.ParseUint(r.Stats()["last_log_index"], 10, 64); last >= req.LastLogIndex {
			t.cfg.Fail(fmt.Errorf("%w: the log had reached index %d, the snapshot %d", ErrRestart, last, req.LastLogIndex))
		}
	}
	return got.Response, got.Error
}
