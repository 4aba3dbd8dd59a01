package wire

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"rollcall/quorum/disk"
)

// ErrRestart means that the member must restart, which corrects the wrapped problem: raft's in-memory view of
// the log no longer fits the stored log, or this member was about to join an ensemble that no longer exists.
var ErrRestart = errors.New("quorum: this member must start again")

// maxSnapshotBytes limits a received snapshot. No larger state fits into memory, so a greater size is
// garbage.
const maxSnapshotBytes = 1 << 40

// receiveAndInstall receives the body of a snapshot and passes the complete request to r. r is nil until raft
// runs. It runs in its connection's goroutine, so this member continues to vote and reply however slow the
// sender is. inConn ends a body that stalls.
func (rc *receiver) receiveAndInstall(r *raft.Raft, req *raft.InstallSnapshotRequest, body io.Reader) (any, error) {
	if req.Size < 0 || req.Size > maxSnapshotBytes {
		return nil, errSnapshotSize // the reply ends its connection
	}
	// The sender reads the reply only after sending all of the body.
	defer func() { _, _ = io.Copy(io.Discard, body) }()
	if !rc.raftRunning.Load() || r == nil {
		return nil, errStarting
	}
	if resp, done, err := rc.replyIfKnown(r, req); done {
		return resp, err
	}
	mine := rc.snapshotReceipts.tryBeginReceipt(req.Term, req.Size)
	if mine == nil {
		return nil, errSnapshotInProgress
	}
	defer rc.snapshotReceipts.removeReceipt(mine)
	s, err := rc.cfg.Snapshots.NewSpool()
	if err != nil {
		rc.cfg.EndMember(fmt.Errorf("quorum: receive snapshot: %w", err))
		return nil, err
	}
	defer s.Close()
	if err := rc.copyToSpool(s, body, req.Size, &mine.received); err != nil {
		return nil, err
	}
	if err := rc.cfg.Snapshots.Verify(s, req); err != nil {
		rc.cfg.Snapshots.NoteRejected(req, err)
		return nil, fmt.Errorf("quorum: snapshot rejected: %w", err)
	}
	if err := rc.rewindSpool(s); err != nil {
		return nil, err
	}
	if !rc.snapshotReceipts.completeUnlessReplaced(mine) {
		return nil, errSnapshotReplaced
	}
	if !rc.awaitLogTurn() {
		return nil, raft.ErrTransportShutdown
	}
	defer rc.endLogTurn()
	if resp, done, err := rc.replyIfKnown(r, req); done { // again, because time has passed
		return resp, err
	}
	return rc.installInRaft(r, req, s)
}

// installChecksPerElection is the number of times per election timeout that a waiting heartbeat checks
// whether raft's main loop is installing a snapshot: often enough for the leader's lease.
const installChecksPerElection = 10

// snapshotReceipts allows one snapshot to be received at a time. A snapshot of the same or a later term
// replaces the current one: its sender no longer leads, or has given it up, because raft sends one at a time
// to a member. That sender may be dead with its connection open, and the new snapshot does not wait until
// that is noticed. The zero value is ready to use.
type snapshotReceipts struct {
	mu      sync.Mutex
	current *snapshotReceipt
}

// snapshotReceipt is a snapshot being received. It is guarded by snapshotReceipts.mu.
type snapshotReceipt struct {
	term     uint64
	complete bool // raft has it, so it cannot be replaced

	size     int64        // bytes
	received atomic.Int64 // bytes; needs no lock
}

// beingReceived returns the bytes that have come of the current snapshot, and its size. ok is false if there is none.
func (s *snapshotReceipts) beingReceived() (received, size int64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == nil {
		return 0, 0, false
	}
	return s.current.received.Load(), s.current.size, true
}

// tryBeginReceipt returns nil if the current snapshot must not be replaced.
func (s *snapshotReceipts) tryBeginReceipt(term uint64, size int64) *snapshotReceipt {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current != nil && (s.current.complete || term < s.current.term) {
		return nil
	}
	s.current = &snapshotReceipt{term: term, size: size}
	return s.current
}

// completeUnlessReplaced records that a snapshot is complete, and reports whether it was not replaced.
func (s *snapshotReceipts) completeUnlessReplaced(r *snapshotReceipt) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.complete = s.current == r
	return r.complete
}

func (s *snapshotReceipts) removeReceipt(r *snapshotReceipt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == r {
		s.current = nil
	}
}

// copyToSpool copies size bytes from the network into s, and counts them in received.
func (rc *receiver) copyToSpool(s disk.Spool, from io.Reader, size int64, received *atomic.Int64) error {
	src := &networkReader{r: from, received: received}
	n, err := io.Copy(s, src)
	switch {
	case src.readErr != nil:
		return fmt.Errorf("quorum: receive snapshot: %w", src.readErr)
	case err != nil:
		err = fmt.Errorf("quorum: store received snapshot: %w", err)
		rc.cfg.EndMember(err)
		return err
	case n != size:
		return fmt.Errorf("quorum: received %d of %d bytes of a snapshot", n, size)
	}
	return rc.rewindSpool(s)
}

func (rc *receiver) rewindSpool(s disk.Spool) error {
	err := s.Rewind()
	if err != nil {
		err = fmt.Errorf("quorum: read received snapshot: %w", err)
		rc.cfg.EndMember(err)
	}
	return err
}

// networkReader keeps the reader's own error, to distinguish it from the writer's.
type networkReader struct {
	r        io.Reader
	received *atomic.Int64 // bytes
	readErr  error
}

func (s *networkReader) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	s.received.Add(int64(n))
	if err != nil && err != io.EOF {
		s.readErr = err
	}
	return n, err
}

// replyIfKnown replies to a snapshot that contains nothing new; done reports whether this is one. raft would
// go back to it and drop later entries, which the leader relies on. Everything up to an applied index is
// here, so raft is not needed for the reply. If the leader sends the same snapshot again, though, raft's
// in-memory view of the log must be wrong and makes it reject the entries that follow.
func (rc *receiver) replyIfKnown(r *raft.Raft, req *raft.InstallSnapshotRequest) (resp any, done bool, err error) {
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
	if rc.lastInstalled.Swap(req.LastLogIndex) == req.LastLogIndex {
		rc.cfg.EndMember(fmt.Errorf("%w after a snapshot was installed: the one of index %d came a second time", ErrRestart,
			req.LastLogIndex))
		return nil, true, ErrRestart
	}
	return &raft.InstallSnapshotResponse{Term: term, Success: true}, true, nil
}

// appendAfterApplied passes entries to raft whose predecessor is not the end of the log here. No snapshot is installed
// between skipApplied and raft's reply: it would begin the log anew, after the entries.
func (rc *receiver) appendAfterApplied(r *raft.Raft, req *raft.AppendEntriesRequest) (any, error) {
	if !rc.awaitLogTurn() {
		return nil, raft.ErrTransportShutdown
	}
	defer rc.endLogTurn()
	return rc.callRaft(raft.RPC{Command: skipApplied(req, r.AppliedIndex(), rc.cfg.StoredEntry)}, nil)
}

// awaitLogTurn waits until no other goroutine is between awaitLogTurn and endLogTurn. It returns false if the Transport is
// closed first.
func (rc *receiver) awaitLogTurn() bool {
	select {
	case rc.logTurn <- struct{}{}:
		return true
	case <-rc.closed:
		return false
	}
}

func (rc *receiver) endLogTurn() { <-rc.logTurn }

// skipApplied makes raft take a request although the entry before its entries is in a snapshot only. raft would look for
// that entry in the log and reject the request; the leader would send the snapshot and then the same request, without end.
//
// What is applied here is committed, so every leader that raft still listens to has it. Of such a request, the applied
// entries are left out, and the entries after them fit: with a predecessor of 0, raft looks for none.
func skipApplied(req *raft.AppendEntriesRequest, applied uint64,
	stored func(index uint64) *raft.Log,
) *raft.AppendEntriesRequest {
	if req.PrevLogEntry > applied {
		return req
	}
	if stored(max(req.PrevLogEntry, 1)) != nil { // entry 1 has no predecessor
		return req
	}
	rest := *req
	rest.PrevLogEntry, rest.PrevLogTerm = 0, 0
	rest.Entries = req.Entries[min(uint64(len(req.Entries)), applied-req.PrevLogEntry):]
	return &rest
}

// isInstalling reports whether raft is installing a snapshot of the leader of term, and so follows that
// leader and no other. Meanwhile raft's main loop does nothing else. A leader of two members would lose its
// lease, so the receiver replies to its heartbeats. If raft has finished by now and has voted in a later
// term, this reply equals one that was delayed in transit.
func (rc *receiver) isInstalling(r *raft.Raft, term uint64) bool {
	return term != 0 && rc.installingTerm.Load() == term && r.CurrentTerm() == term
}

// replyToHeartbeat passes a heartbeat to raft. If raft's main loop does not take it because it is installing
// a snapshot of the same leader, replyToHeartbeat replies itself.
func (rc *receiver) replyToHeartbeat(r *raft.Raft, req *raft.AppendEntriesRequest) (any, error) {
	for !rc.isInstalling(r, req.Term) {
		resp, err := rc.callRaft(raft.RPC{Command: req}, time.After(rc.cfg.ElectionTimeout/installChecksPerElection))
		if !errors.Is(err, errInterrupted) {
			return resp, err
		}
	}
	return &raft.AppendEntriesResponse{Term: req.Term, LastLog: r.LastIndex(), Success: true}, nil
}

// installInRaft passes a complete snapshot to raft and waits for its reply.
func (rc *receiver) installInRaft(r *raft.Raft, req *raft.InstallSnapshotRequest, body io.Reader) (any, error) {
	rc.lastInstalled.Store(req.LastLogIndex)
	rc.installingTerm.Store(req.Term)
	defer rc.installingTerm.Store(0)
	answer, err := rc.callRaft(raft.RPC{Command: req, Reader: body}, nil)
	if resp, ok := answer.(*raft.InstallSnapshotResponse); ok && resp.Success {
		rc.cfg.Snapshots.NoteInstalled(req.LastLogTerm)
		// raft has emptied the log store but still remembers its end. If that is at or above the snapshot, raft
		// would use it to reject entries and compare votes.
		if last, _ := strconv.ParseUint(r.Stats()["last_log_index"], 10, 64); last >= req.LastLogIndex {
			rc.cfg.EndMember(fmt.Errorf("%w after a snapshot was installed: the log had reached index %d, the snapshot %d",
				ErrRestart, last, req.LastLogIndex))
		}
	}
	return answer, err
}
