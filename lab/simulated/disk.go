package simulated

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/raft"

	"rollcall/quorum/disk"
	quorumwire "rollcall/quorum/wire"
)

// These are the errors of writes and reads that fail.
var (
	ErrIO   = errors.New("simulated: input/output error")
	ErrFull = fmt.Errorf("simulated: %w", syscall.ENOSPC)
)

var errNotFound = errors.New("not found") // raft compares this text

// keepSnapshots is the number of snapshots that a disk keeps, as the store on real disks does.
const keepSnapshots = 2

// Disk is one member's stores in memory, with the faults of disks. It outlives the member's runs.
//
// A write is in the store after the disk's latency, and is durable from then on, like a synced
// transaction. If the member crashes, writes in progress may or may not be there; of a batch of log
// entries, a prefix may be there. Reads take no time, because a hanging disk still has its cache, and fail only
// if FailReadAt says so. It is safe for concurrent use.
type Disk struct {
	mu       sync.Mutex
	data     *diskContent
	latency  time.Duration
	stalled  chan struct{} // closed when the stall ends; nil: no stall
	failAt   int           // the number of the write from now on that fails; 0: none
	readAt   [2]int        // the number of the read from now on that fails: of the log, and of a snapshot; 0: none
	full     bool          // nothing can be written
	keep     uint64        // log entries to keep before a snapshot; 0: as raft says
	run      *diskRun      // of the member's current process
	installs int
	decoded  configuration // by the last call of Configuration
}

// configuration is one of raft's, encoded and decoded.
type configuration struct {
	encoded []byte
	peers   []quorumwire.Peer
}

// diskContent is the durable part.
type diskContent struct {
	logs        map[uint64]raft.Log
	first, last uint64 // 0: the log is empty
	stable      map[string][]byte
	snapshots   []*snapshotFile // newest first
}

type snapshotFile struct {
	meta raft.SnapshotMeta
	body []byte
}

// NewDisk returns an empty disk.
func NewDisk() *Disk { return &Disk{data: newContent()} }

func newContent() *diskContent {
	return &diskContent{logs: make(map[uint64]raft.Log), stable: make(map[string][]byte)}
}

// Mount returns the stores for one run of a process. Those of an earlier run have no effect any
// more.
func (d *Disk) Mount() disk.Stores {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := &diskRun{disk: d, data: d.data, crashed: make(chan struct{})}
	d.run = r
	return disk.Stores{Log: r, Stable: r, Snapshots: r}
}

// Crash takes the disk away from its process. Later writes of that process have no effect. rng
// decides what is left of each write in progress; if rng is nil, nothing is.
func (d *Disk) Crash(rng *rand.Rand) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.run == nil {
		return
	}
	after := d.data.cloneContent()
	for _, w := range d.run.pending {
		if rng != nil {
			w.torn(after, rng)
		}
	}
	close(d.run.crashed)
	d.run, d.data, d.failAt, d.readAt = nil, after, 0, [2]int{}
	d.releaseLocked()
}

// Wipe empties the disk.
func (d *Disk) Wipe() {
	d.Crash(nil)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.data = newContent()
}

// ID returns the id by which raft knows the disk, or 0 if it has none yet.
func (d *Disk) ID() disk.ID {
	d.mu.Lock()
	defer d.mu.Unlock()
	if b := d.data.stable["RollcallDisk"]; len(b) >= 8 {
		return disk.ID(binary.BigEndian.Uint64(b))
	}
	return 0
}

// Configuration returns the servers in the newest configuration of raft's that the disk has, or is about to have. The caller must not
// change them.
func (d *Disk) Configuration() []quorumwire.Peer {
	d.mu.Lock()
	defer d.mu.Unlock()
	data := d.data
	if d.run != nil && len(d.run.pending) > 0 {
		data = data.cloneContent()
		for _, w := range d.run.pending {
			w.put(data)
		}
	}
	for index := data.last; index >= data.first && index > 0; index-- {
		if l := data.logs[index]; l.Type == raft.LogConfiguration {
			return d.decodeLocked(l.Data)
		}
	}
	if len(data.snapshots) > 0 {
		return quorumwire.PeersIn(data.snapshots[0].meta.Configuration)
	}
	return nil
}

// decodeLocked decodes a configuration, unless the last call got the same.
func (d *Disk) decodeLocked(encoded []byte) []quorumwire.Peer {
	if d.decoded.encoded == nil || !bytes.Equal(d.decoded.encoded, encoded) {
		d.decoded = configuration{bytes.Clone(encoded), quorumwire.PeersIn(raft.DecodeConfiguration(encoded))}
	}
	return d.decoded.peers
}

// change calls do under the lock.
func (d *Disk) change(do func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	do()
}

// SetLatency sets how long a write takes.
func (d *Disk) SetLatency(by time.Duration) { d.change(func() { d.latency = by }) }

// Latency returns the time of a write.
func (d *Disk) Latency() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.latency
}

// Stall holds every write until Release or a crash.
func (d *Disk) Stall() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stalled == nil {
		d.stalled = make(chan struct{})
	}
}

// Release ends Stall.
func (d *Disk) Release() { d.change(d.releaseLocked) }

func (d *Disk) releaseLocked() {
	if d.stalled != nil {
		close(d.stalled)
		d.stalled = nil
	}
}

// IsStalled reports whether writes are held.
func (d *Disk) IsStalled() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.stalled != nil
}

// FailAt makes the n-th write of this run from now on fail; if n is 0, none fails.
func (d *Disk) FailAt(n int) { d.change(func() { d.failAt = n }) }

// Reads is the object of a read.
type Reads int

// These are the reads that can fail.
const (
	OfLog      Reads = iota // of an entry of the log, or of where it begins or ends
	OfSnapshot              // of some bytes of a snapshot
)

// FailReadAt makes the n-th read of a kind fail, counted in this run from now on. If n is 0, none fails.
func (d *Disk) FailReadAt(n int, kind Reads) { d.change(func() { d.readAt[kind] = n }) }

// FillUp makes all writes fail until FreeSpace, because the disk is full.
func (d *Disk) FillUp() { d.change(func() { d.full = true }) }

// FreeSpace ends FillUp.
func (d *Disk) FreeSpace() { d.change(func() { d.full = false }) }

// KeepLog keeps only so many log entries before each snapshot, so that a member that comes back
// needs the snapshot. If n is 0, raft decides how many.
func (d *Disk) KeepLog(n uint64) { d.change(func() { d.keep = n }) }

// Installs returns the number of snapshots that have come from a leader.
func (d *Disk) Installs() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.installs
}

// Snapshots returns the number of snapshots on the disk.
func (d *Disk) Snapshots() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.data.snapshots)
}

// Log returns the entries of the log, in order.
func (d *Disk) Log() []raft.Log {
	d.mu.Lock()
	defer d.mu.Unlock()
	var logs []raft.Log
	for i := d.data.first; i > 0 && i <= d.data.last; i++ {
		logs = append(logs, d.data.logs[i])
	}
	return logs
}

// Append puts entries at the end of the log, as if a member had written them. The disk's member must be down.
func (d *Disk) Append(logs ...raft.Log) { d.change(func() { d.data.appendLogs(logs) }) }

// LastIndex returns the index of the last entry of the log, or 0.
func (d *Disk) LastIndex() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.data.last
}

// IsLonger reports whether the log is longer than another disk's, in the order by which votes are given: by the term of the last
// entry, and then by its index. The entries in a snapshot count.
func (d *Disk) IsLonger(than *Disk) bool {
	term, index := d.lastEntry()
	otherTerm, otherIndex := than.lastEntry()
	return term > otherTerm || term == otherTerm && index > otherIndex
}

// lastEntry returns the term and the index of the last entry, zeros if there is none.
func (d *Disk) lastEntry() (term, index uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.data.last > 0 {
		term, index = d.data.logs[d.data.last].Term, d.data.last
	}
	if len(d.data.snapshots) > 0 && d.data.snapshots[0].meta.Index > index {
		term, index = d.data.snapshots[0].meta.Term, d.data.snapshots[0].meta.Index
	}
	return term, index
}

// Votes returns the newest raft term in which this disk's member voted for member id. It is 0 if
// the member has voted for another one since, or has never voted for id.
func (d *Disk) Votes(id uint32) (term uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	// The term is followed by the candidate: its address if the member voted for itself, and its name otherwise. Both begin with the name.
	vote := d.data.stable["RollcallVote"]
	if len(vote) < 8 || !strings.HasPrefix(string(vote[8:]), fmt.Sprintf("%d.", id)) {
		return 0
	}
	return binary.BigEndian.Uint64(vote)
}

// diskRun is a disk as one process sees it: raft's three stores.
type diskRun struct {
	disk    *Disk
	data    *diskContent
	crashed chan struct{}
	pending []*diskWrite
}

// diskWrite is a write in progress.
type diskWrite struct {
	put  func(c *diskContent)                 // applies all of it
	torn func(c *diskContent, rng *rand.Rand) // applies what a crash leaves of it
}

func newWrite(put func(c *diskContent)) *diskWrite {
	return &diskWrite{put: put, torn: func(c *diskContent, rng *rand.Rand) {
		if rng.IntN(2) == 0 {
			put(c)
		}
	}}
}

// performWrite performs a write. It sleeps first, without holding a lock.
func (r *diskRun) performWrite(w *diskWrite) error {
	d := r.disk
	d.mu.Lock()
	latency, stalled := d.latency, d.stalled
	var fails error
	if d.run == r {
		r.pending = append(r.pending, w)
		if d.full {
			fails = ErrFull
		}
		if d.failAt > 0 {
			if d.failAt--; d.failAt == 0 {
				fails = ErrIO
			}
		}
	} else {
		latency, stalled = 0, nil
	}
	d.mu.Unlock()
	if stalled != nil {
		select {
		case <-stalled:
		case <-r.crashed:
		}
	}
	if latency > 0 {
		time.Sleep(latency)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if i := slices.Index(r.pending, w); i >= 0 {
		r.pending = slices.Delete(r.pending, i, i+1)
	}
	if fails != nil {
		return fails
	}
	w.put(r.data)
	return nil
}

// withContent passes the content to f, under the lock.
func (r *diskRun) withContent(f func(c *diskContent)) {
	r.disk.mu.Lock()
	defer r.disk.mu.Unlock()
	f(r.data)
}

// countRead counts a read, and returns an error if it fails. The disk's lock is held.
func (r *diskRun) countRead(what Reads) error {
	at := &r.disk.readAt[what]
	if r.disk.run != r || *at == 0 {
		return nil
	}
	if *at--; *at > 0 {
		return nil
	}
	return ErrIO
}

// FirstIndex implements raft.LogStore, as the next methods do.
func (r *diskRun) FirstIndex() (i uint64, err error) {
	r.withContent(func(c *diskContent) {
		if err = r.countRead(OfLog); err == nil {
			i = c.first
		}
	})
	return i, err
}

func (r *diskRun) LastIndex() (i uint64, err error) {
	r.withContent(func(c *diskContent) {
		if err = r.countRead(OfLog); err == nil {
			i = c.last
		}
	})
	return i, err
}

func (r *diskRun) GetLog(index uint64, l *raft.Log) (err error) {
	r.withContent(func(c *diskContent) {
		if err = r.countRead(OfLog); err != nil {
			return
		}
		var ok bool
		if *l, ok = c.logs[index]; !ok {
			err = raft.ErrLogNotFound
		}
	})
	return err
}

func (r *diskRun) StoreLog(l *raft.Log) error { return r.StoreLogs([]*raft.Log{l}) }

func (r *diskRun) StoreLogs(logs []*raft.Log) error {
	own := make([]raft.Log, len(logs))
	for i, l := range logs {
		own[i] = *l
	}
	return r.performWrite(&diskWrite{
		put:  func(c *diskContent) { c.appendLogs(own) },
		torn: func(c *diskContent, rng *rand.Rand) { c.appendLogs(own[:rng.IntN(len(own)+1)]) },
	})
}

func (r *diskRun) DeleteRange(first, last uint64) error {
	return r.performWrite(newWrite(func(c *diskContent) { c.removeLogs(first, last) }))
}

// Set implements raft.StableStore, as the next methods do.
func (r *diskRun) Set(k, v []byte) error {
	k, v = bytes.Clone(k), bytes.Clone(v)
	return r.performWrite(newWrite(func(c *diskContent) { c.stable[string(k)] = v }))
}

func (r *diskRun) Get(k []byte) (v []byte, err error) {
	r.withContent(func(c *diskContent) { v = bytes.Clone(c.stable[string(k)]) })
	if v == nil {
		return nil, errNotFound
	}
	return v, nil
}

func (r *diskRun) SetUint64(k []byte, v uint64) error {
	return r.Set(k, binary.BigEndian.AppendUint64(nil, v))
}

func (r *diskRun) GetUint64(k []byte) (uint64, error) {
	v, err := r.Get(k)
	if err != nil {
		return 0, err
	}
	return binary.BigEndian.Uint64(v), nil
}

// Create implements raft.SnapshotStore: the snapshot exists once it is closed.
func (r *diskRun) Create(version raft.SnapshotVersion, index, term uint64, servers raft.Configuration,
	serversIndex uint64, _ raft.Transport,
) (raft.SnapshotSink, error) {
	meta := raft.SnapshotMeta{
		Version: version, Index: index, Term: term, Configuration: servers, ConfigurationIndex: serversIndex,
		ID: fmt.Sprintf("%d-%d-%d", term, index, time.Now().UnixMilli()),
	}
	return &snapshotSink{run: r, file: &snapshotFile{meta: meta}}, nil
}

func (r *diskRun) List() (list []*raft.SnapshotMeta, err error) {
	r.withContent(func(c *diskContent) {
		for _, s := range c.snapshots {
			meta := s.meta
			list = append(list, &meta)
		}
	})
	return list, nil
}

func (r *diskRun) Open(id string) (meta *raft.SnapshotMeta, body io.ReadCloser, err error) {
	err = fmt.Errorf("simulated: no snapshot %s", id)
	r.withContent(func(c *diskContent) {
		for _, s := range c.snapshots {
			if s.meta.ID == id {
				m := s.meta
				meta, body, err = &m, io.NopCloser(&snapshotReader{bytes.NewReader(s.body), r}), nil
			}
		}
	})
	return meta, body, err
}

// snapshotReader reads a snapshot.
type snapshotReader struct {
	body *bytes.Reader
	run  *diskRun
}

func (s *snapshotReader) Read(p []byte) (n int, err error) {
	s.run.withContent(func(*diskContent) { err = s.run.countRead(OfSnapshot) })
	if err != nil {
		return 0, err
	}
	return s.body.Read(p)
}

// snapshotSink is a snapshot in progress.
type snapshotSink struct {
	run  *diskRun
	file *snapshotFile
	done bool
}

func (s *snapshotSink) ID() string { return s.file.meta.ID }

func (s *snapshotSink) Write(p []byte) (int, error) {
	s.file.body = append(s.file.body, p...)
	return len(p), nil
}

func (s *snapshotSink) Cancel() error {
	s.done = true
	return nil
}

func (s *snapshotSink) Close() error {
	if s.done {
		return nil
	}
	s.done = true
	s.file.meta.Size = int64(len(s.file.body))
	d := s.run.disk
	return s.run.performWrite(newWrite(func(c *diskContent) {
		if d.data == c && s.file.meta.Index > c.last { // a snapshot of its own never goes beyond its log
			d.installs++
		}
		c.snapshots = slices.Insert(c.snapshots, 0, s.file)
		slices.SortStableFunc(c.snapshots, func(a, b *snapshotFile) int { return cmp.Compare(b.meta.Index, a.meta.Index) })
		c.snapshots = c.snapshots[:min(len(c.snapshots), keepSnapshots)]
		if d.keep > 0 && s.file.meta.Index > d.keep && c.first > 0 {
			c.removeLogs(c.first, min(s.file.meta.Index-d.keep, c.last))
		}
	}))
}

func (c *diskContent) appendLogs(logs []raft.Log) {
	for _, l := range logs {
		c.logs[l.Index] = l
		if c.first == 0 {
			c.first = l.Index
		}
		c.last = max(c.last, l.Index)
	}
}

func (c *diskContent) removeLogs(first, last uint64) {
	for i := first; i <= last; i++ {
		delete(c.logs, i)
	}
	switch {
	case len(c.logs) == 0:
		c.first, c.last = 0, 0
	case first <= c.first:
		c.first = max(c.first, last+1)
	default:
		c.last = min(c.last, first-1)
	}
}

func (c *diskContent) cloneContent() *diskContent {
	return &diskContent{
		logs: maps.Clone(c.logs), first: c.first, last: c.last,
		stable: maps.Clone(c.stable), snapshots: slices.Clone(c.snapshots),
	}
}
