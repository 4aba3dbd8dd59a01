// Package audit writes the audit log of a member: one line for each change that a client has requested, for each
// session that begins or ends, for each failed authentication, and for each action of an administrator.
//
//   - Log takes events and writes their lines. Its methods never wait for the disk, except the ones in required.go. If
//     lines come faster than they can be written, Log drops some, counts them, and writes a line about the gap.
//   - required.go is for operators who want no change without a line. It waits until the line of a change is written
//     before the change is made, for a bounded time and without a lock. Apply never calls it.
//   - operations.go has the table of opcodes, and turns a transaction of the log into events.
//   - event.go has the two formats, JSON and ZooKeeper's.
//   - file.go writes and rotates the file.
//
// Each event is in the log of one member: the member that served the client or, for an event without a client, such
// as an expiry, the leader.
//
// # Locks
//
// Log.mu guards the queue. It is taken under the tree's lock. Lines are formatted under it, and written without it.
// Formatting a line takes less than a microsecond, less than copying its event.
package audit

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/user"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"rollcall/internal/durable"
	"rollcall/internal/lockwatch"
	"rollcall/internal/metrics"
	"rollcall/proto"
	"rollcall/zk/jute"
	"rollcall/znode"
)

const (
	// maxQueueBytes limits the lines that wait for the disk: a second of a busy member, and a small part of its memory.
	maxQueueBytes = 8 << 20
	// keptQueueBytes limits the memory that an empty queue keeps.
	keptQueueBytes = 1 << 20

	// gatherTime is the time that a line waits for others, to be written with them. A crash loses these lines. With a
	// tenth of it, sets took a sixth longer, because the ensemble's log waits for the writes to the same disk.
	gatherTime = 250 * time.Millisecond
	// chunkSize is the length of a write, in bytes, if no line is longer.
	chunkSize = 64 << 10
	// stopTimeout limits the wait for the last lines of a member that stops.
	stopTimeout = 2 * time.Second
	// warnInterval is the least time between two warnings about lost lines.
	warnInterval = time.Minute
)

const fileAdvice = "set audit.file to a path where this user may write, or audit.enable=false"

// Defaults of Settings, for the table of keys in package config.
const (
	DefaultMaxFileSize = 10 << 20 // bytes, as in ZooKeeper's sample configuration of its log
	DefaultKeptFiles   = 10       // likewise
)

// Settings are set by keys of the configuration.
type Settings struct {
	Enable          bool
	Required        bool   // a change waits until its line is on the disk, and is rejected if the line cannot be written
	ZooKeeperFormat bool   // ZooKeeper's format; default: JSON
	File            string // default: standard output
	OwnDirectory    bool   // File's directory is the audit log's own, and made if it is missing
	MaxFileSize     int64  // bytes at which a file is rotated; default DefaultMaxFileSize
	KeptFiles       int    // old files that are kept; default DefaultKeptFiles
}

// Config configures a Log. A field without a default is required.
type Config struct {
	Settings
	Member uint32       // this member's id
	Out    io.Writer    // for lines without a file; default: standard output
	Logger *slog.Logger // default: discard
}

// Log is an audit log. Make one with Open. It is safe for concurrent use. A nil *Log ignores events: it is the log of
// a member without an audit log.
type Log struct {
	cfg         Config
	processUser string // that this process runs as
	lineSink    sink
	log         *slog.Logger

	writtenLines, droppedLines atomic.Uint64
	rejectedChanges            atomic.Uint64 // changes whose lines could not be written

	mu              sync.Mutex
	lineFormatter   formatter
	multiOps        []jute.MultiOp
	queue           []byte // lines that wait to be written
	writingBytes    int    // bytes of lines that are being written
	unreportedDrops uint64 // lines dropped after the last one in the queue
	failureLimits   failureLimits
	queueBatch      *lineBatch // of the queue; nil: no change waits for it

	lastRejectedWarning time.Time

	queueFilled   chan struct{} // one place: the queue is not empty
	queueHalfFull chan struct{} // one place: the queue is half full
	running       atomic.Bool
	closeSignal   chan struct{}
	closeOnce     sync.Once
	runEnded      chan struct{} // closed when run has returned

	// The following belong to writeLoop.
	spareQueue      []byte
	lostLines       uint64 // lines that could not be written, and that no gap line reports yet
	lastLostWarning time.Time
}

// Open opens the file, and returns a Log that writes nothing yet, or nil if the settings do not enable one. The
// caller must call Close.
func Open(cfg Config) (*Log, error) {
	switch {
	case !cfg.Enable && cfg.Required:
		return nil, errors.New("audit: audit.required=true needs audit.enable=true")
	case !cfg.Enable:
		return nil, nil
	}
	cfg.MaxFileSize = cmp.Or(cfg.MaxFileSize, DefaultMaxFileSize)
	cfg.KeptFiles = cmp.Or(cfg.KeptFiles, DefaultKeptFiles)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	l := &Log{
		cfg: cfg, log: cfg.Logger, lineFormatter: formatter{member: cfg.Member, zooKeeper: cfg.ZooKeeperFormat},
		queueFilled: make(chan struct{}, 1), queueHalfFull: make(chan struct{}, 1), closeSignal: make(chan struct{}),
		runEnded: make(chan struct{}),
	}
	if u, err := user.Current(); err == nil {
		l.processUser, l.lineFormatter.processUser = u.Username, u.Username
	}
	if cfg.File == "" {
		if cfg.Out == nil {
			cfg.Out = os.Stdout
		}
		l.lineSink = streamSink{cfg.Out}
		return l, nil
	}
	if cfg.OwnDirectory {
		if err := durable.MakeDirectory(filepath.Dir(cfg.File), directoryMode); err != nil {
			return nil, fmt.Errorf("audit: %w; %s", err, fileAdvice)
		}
	}
	f, err := newFileSink(cfg.File, cfg.MaxFileSize, cfg.KeptFiles, cfg.Required, l.log.Warn)
	if err != nil {
		return nil, fmt.Errorf("audit: %w; %s", err, fileAdvice)
	}
	l.lineSink = f
	return l, nil
}

// LineCounts returns the numbers of lines that were written and dropped since Open.
func (l *Log) LineCounts() (written, dropped uint64) {
	if l == nil {
		return 0, 0
	}
	return l.writtenLines.Load(), l.droppedLines.Load()
}

// RejectedChanges returns the number of changes that were rejected since Open because their lines could not be written.
func (l *Log) RejectedChanges() uint64 {
	if l == nil {
		return 0
	}
	return l.rejectedChanges.Load()
}

// AddApplied adds an applied transaction of this member's clients with its result. atMs is the log's time, and ids are
// the identities of the client.
func (l *Log) AddApplied(atMs int64, txn *proto.Txn, ids []*proto.Identity, r *znode.Result) {
	if l == nil {
		return
	}
	op := jute.Op(txn.GetOp())
	how := &operations[operationIndex(op)]
	if how.name == "" || how.leavesNoLine(r.Code) {
		return
	}
	e := Event{AtMs: atMs, Zxid: r.Zxid, Session: jute.SessionID(txn.GetSession()), Ids: ids, Timeout: r.Session.Timeout}
	l.mu.Lock()
	defer l.mu.Unlock()
	if op == jute.OpMulti {
		l.queueMulti(&e, txn.GetBody(), r)
		return
	}
	how.completeEvent(&e, txn.GetBody(), r)
	l.queueOrSuppress(&e)
}

// Add adds an event. If its time is 0, Add sets it to now.
func (l *Log) Add(e Event) {
	if l == nil {
		return
	}
	if e.AtMs == 0 {
		e.AtMs = time.Now().UnixMilli()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queueOrSuppress(&e)
}

// AddRejected adds a client's operation that did not get into the ensemble's log.
func (l *Log) AddRejected(session jute.SessionID, ids []*proto.Identity, op jute.Op, code jute.Code) {
	if how := operations[operationIndex(op)]; how.name != "" && l != nil {
		l.Add(Event{Session: session, Ids: ids, Operation: how.name, Result: Failure, Error: code.Error()})
	}
}

// queueOrSuppress queues a line, or drops it. The caller holds the lock.
func (l *Log) queueOrSuppress(e *Event) {
	if e.isAuthFailure() {
		l.queueFailure(e)
		return
	}
	l.queueLine(e)
}

// queueLine queues the line of e. The caller holds the lock.
func (l *Log) queueLine(e *Event) {
	before := len(l.queue)
	if before+l.writingBytes >= maxQueueBytes {
		l.unreportedDrops++
		l.droppedLines.Add(1)
		return
	}
	l.queue = l.lineFormatter.appendLine(l.queue, e)
	if before == 0 {
		sendSignal(l.queueFilled)
	}
	if len(l.queue)+l.writingBytes > maxQueueBytes/2 {
		sendSignal(l.queueHalfFull)
	}
}

func sendSignal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default: // the receiver has a signal that it has not taken yet
	}
}

// Start begins to write lines, until Close is called. It must be called once at most.
func (l *Log) Start() {
	if l == nil {
		return
	}
	l.running.Store(true)
	go l.writeLoop()
}

// writeLoop writes lines until Close is called, and then the remaining ones.
func (l *Log) writeLoop() {
	defer close(l.runEnded)
	l.Add(Event{Operation: "serverStart", User: l.processUser})
	sweep := time.NewTicker(failureRefillTime)
	defer sweep.Stop()
	for open := true; open; {
		select {
		case <-sweep.C:
			l.summarizeFailures(false)
			continue // the lines that it has queued wake this loop
		case <-l.queueFilled:
			open = l.awaitMoreLines()
		case <-l.closeSignal:
			open = false
		}
		l.writeQueue()
	}
	l.summarizeFailures(true)
	l.Add(Event{Operation: "serverStop", User: l.processUser, Result: Invoked})
	l.writeQueue()
	if err := l.lineSink.close(); err != nil {
		l.log.Warn("the audit log was not closed well", "err", err)
	}
}

// awaitMoreLines waits for more lines, so that they are written together. It returns false if the log is being closed.
func (l *Log) awaitMoreLines() (open bool) {
	timer := time.NewTimer(gatherTime)
	defer timer.Stop()
	select {
	case <-l.closeSignal:
		return false
	case <-l.queueHalfFull:
	case <-timer.C:
	}
	return true
}

// Close writes the queue and closes the file. If the disk hangs, Close returns after stopTimeout, and the queue is
// lost. It reports whether the log has ended. If it has not, it may still write to the file.
func (l *Log) Close() (ended bool) {
	if l == nil {
		return true
	}
	l.closeOnce.Do(func() { close(l.closeSignal) })
	if !l.running.Load() {
		_ = l.lineSink.close() // nothing was written
		return true
	}
	timer := time.NewTimer(stopTimeout)
	defer timer.Stop()
	select {
	case <-l.runEnded:
		return true
	case <-timer.C:
		l.log.Warn("the last lines of the audit log are lost: its disk hangs")
		return false
	}
}

// writeQueue writes all lines in the queue.
func (l *Log) writeQueue() {
	l.mu.Lock()
	lines, untold, batch := l.queue, l.unreportedDrops, l.queueBatch
	l.queue, l.writingBytes, l.unreportedDrops, l.queueBatch = l.spareQueue[:0], len(lines), 0, nil
	l.mu.Unlock()
	l.writeGapLine()
	var failed error
	for rest := lines; len(rest) > 0; {
		n := nextWriteSize(rest)
		failed = cmp.Or(failed, l.writeLines(rest[:n]))
		rest = rest[n:]
	}
	batch.finishWith(failed)
	if l.lostLines += untold; untold > 0 {
		l.warnLost(untold, nil)
		l.writeGapLine()
	}
	if l.spareQueue = lines; cap(lines) > keptQueueBytes {
		l.spareQueue = nil
	}
	l.mu.Lock()
	l.writingBytes = 0
	l.mu.Unlock()
}

// nextWriteSize returns the number of bytes for the next write: whole lines, and at least one.
func nextWriteSize(lines []byte) int {
	if len(lines) <= chunkSize {
		return len(lines)
	}
	if n := bytes.LastIndexByte(lines[:chunkSize], '\n'); n >= 0 {
		return n + 1
	}
	return bytes.IndexByte(lines, '\n') + 1
}

// writeGapLine writes a line about the lines that are missing here. If that fails, the next gap line counts them, too.
func (l *Log) writeGapLine() {
	if l.lostLines == 0 {
		return
	}
	// the queue's formatter needs the lock
	f := formatter{member: l.cfg.Member, processUser: l.processUser, zooKeeper: l.cfg.ZooKeeperFormat}
	e := Event{
		AtMs: time.Now().UnixMilli(), Operation: "gap", User: l.processUser, Dropped: l.lostLines, Result: Failure,
		Error: "lines were lost",
	}
	if err := l.lineSink.write(f.appendLine(nil, &e)); err != nil {
		l.warnLost(l.lostLines, err)
		return
	}
	l.writtenLines.Add(1)
	l.lostLines = 0
}

// writeLines writes lines. If that fails, they are lost.
func (l *Log) writeLines(lines []byte) error {
	n := uint64(bytes.Count(lines, []byte("\n")))
	if err := l.lineSink.write(lines); err != nil {
		l.droppedLines.Add(n)
		l.lostLines += n
		l.warnLost(l.lostLines, err)
		return err
	}
	l.writtenLines.Add(n)
	return nil
}

// warnLost logs that lines were lost. err is nil if they came too fast.
func (l *Log) warnLost(lines uint64, err error) {
	if time.Since(l.lastLostWarning) < warnInterval {
		return
	}
	l.lastLostWarning = time.Now()
	if err != nil {
		l.log.Warn("audit lines are lost: they cannot be written", "lines", lines, "err", err)
		return
	}
	l.log.Warn("audit lines are lost: they came faster than they can be written", "lines", lines)
}

// NativeMetrics returns the metrics of the log that only Prometheus gets.
func (l *Log) NativeMetrics() []metrics.Native {
	return []metrics.Native{
		metrics.CounterBy("rollcall_audit_lines_total", "outcome",
			"lines of the audit log that were written or lost, and changes that were rejected for want of a line (audit.required)",
			func() map[string]uint64 {
				written, dropped := l.LineCounts()
				return map[string]uint64{"written": written, "lost": dropped, "rejected": l.RejectedChanges()}
			}),
	}
}

// Locks returns the lock of the log; none if there is no log.
func (l *Log) Locks() []lockwatch.Lock {
	if l == nil {
		return nil
	}
	return []lockwatch.Lock{{Name: "audit.Log.mu", Locker: &l.mu}}
}
