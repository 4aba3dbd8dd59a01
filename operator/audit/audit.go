// Package audit writes the audit log of a member: one line for each change that a client asked for, for each
// session that begins or ends, for each failed authentication, and for what administrators do.
//
//   - Log takes events and writes their lines. Its methods never wait for the disk, except those of required.go. If
//     lines come faster than they can be written, Log drops some, counts them, and writes a line about the gap.
//   - required.go is for those who want no change without a line. It has lines written before a change is made, and waits for
//     them, for a bounded time and without a lock. Apply never calls it.
//   - operations.go has the table of opcodes, and turns a transaction of the log into events.
//   - event.go has the two formats, JSON and ZooKeeper's.
//   - file.go writes and rotates the file.
//
// Each event is in the log of one member. That is the member that served the client, or for what no client asked
// for, such as an expiry, the member that led.
//
// # Locks
//
// Log.mu guards the lines that wait. It is taken under the tree's lock. Lines are formatted under it, and written
// without it. Formatting a line takes less than a microsecond, which is less than copying its event would take.
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
	"rollcall/internal/metrics"
	"rollcall/proto"
	"rollcall/zk/jute"
	"rollcall/znode"
)

const (
	// maxQueued is how many bytes of lines may wait for the disk. That is a second of a busy member, and a small
	// part of its memory.
	maxQueued = 8 << 20
	// keepQueued is how much of that memory is kept when nothing waits.
	keepQueued = 1 << 20

	// gatherTime is how long a line may wait for others. A crash loses the lines that wait. With a tenth of it, sets
	// took a sixth longer, because each write to the file adds to what the log of the ensemble waits for on one disk.
	gatherTime = 250 * time.Millisecond
	// chunkSize is how many bytes are written at once, if no line is longer. It is a small part of a file.
	chunkSize = 64 << 10
	// stopTime is how long a member that stops waits until its last lines are written.
	stopTime = 2 * time.Second
	// warnPause is the least time between two warnings about lost lines.
	warnPause = time.Minute
)

// fileAdvice is the end of the error of a file that cannot be opened.
const fileAdvice = "set audit.file to a path where this user may write, or audit.enable=false"

// Defaults of Settings. The table of keys in package config takes them from here.
const (
	DefaultFileSize = 10 << 20 // bytes, as in ZooKeeper's sample configuration of its log
	DefaultFiles    = 10       // likewise
)

// Settings are what keys set.
type Settings struct {
	Enable       bool
	Required     bool   // a change waits until a line about it is on the disk, and is rejected if there is none
	ZooKeeper    bool   // lines are as ZooKeeper's; default: JSON
	File         string // where lines go; default: standard output
	OwnDirectory bool   // the directory of File is the audit log's own, and made if it is missing
	FileSize     int64  // bytes of a file, at which the next one begins; default DefaultFileSize
	Files        int    // old files that are kept; default DefaultFiles
}

// Config is what a Log is built from. A field without a default is required.
type Config struct {
	Settings
	Member uint32       // this member's id
	Out    io.Writer    // where lines go without a file; default: standard output
	Logger *slog.Logger // default: discard
}

// Log is an audit log. Make one with Open. It is safe for concurrent use. A nil *Log takes events and does
// nothing with them: it is the log of a member without one.
type Log struct {
	cfg  Config
	user string // that this process runs as
	out  sink
	log  *slog.Logger

	written, dropped atomic.Uint64
	rejected         atomic.Uint64 // changes whose lines could not be written

	mu       sync.Mutex
	format   formatter
	ops      []jute.MultiOp
	queue    []byte // lines that wait to be written
	writing  int    // bytes of lines that are being written
	untold   uint64 // lines that were dropped after the last one in the queue
	failures failures
	batch    *batch // of the queue; nil: no change waits for a line of it

	warnedRejected time.Time

	wake    chan struct{} // one place: the queue is not empty
	hurry   chan struct{} // one place: the queue is half full
	running atomic.Bool
	closing chan struct{}
	close   sync.Once
	done    chan struct{} // closed when run has returned

	// What follows belongs to run.
	spare  []byte
	lost   uint64 // lines that could not be written, and that no line reports yet
	warned time.Time
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
	cfg.FileSize = cmp.Or(cfg.FileSize, DefaultFileSize)
	cfg.Files = cmp.Or(cfg.Files, DefaultFiles)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	l := &Log{
		cfg: cfg, log: cfg.Logger, format: formatter{member: cfg.Member, zooKeeper: cfg.ZooKeeper},
		wake: make(chan struct{}, 1), hurry: make(chan struct{}, 1), closing: make(chan struct{}), done: make(chan struct{}),
	}
	if u, err := user.Current(); err == nil {
		l.user, l.format.user = u.Username, u.Username
	}
	if cfg.File == "" {
		if cfg.Out == nil {
			cfg.Out = os.Stdout
		}
		l.out = stream{cfg.Out}
		return l, nil
	}
	if cfg.OwnDirectory {
		if err := durable.MakeDirectory(filepath.Dir(cfg.File), directoryMode); err != nil {
			return nil, fmt.Errorf("audit: %w; %s", err, fileAdvice)
		}
	}
	f, err := openFile(cfg.File, cfg.FileSize, cfg.Files, cfg.Required, l.log.Warn)
	if err != nil {
		return nil, fmt.Errorf("audit: %w; %s", err, fileAdvice)
	}
	l.out = f
	return l, nil
}

// Counts returns how many lines were written, and how many were dropped, since Open.
func (l *Log) Counts() (written, dropped uint64) {
	if l == nil {
		return 0, 0
	}
	return l.written.Load(), l.dropped.Load()
}

// Rejected returns how many changes were rejected since Open because their lines could not be written.
func (l *Log) Rejected() uint64 {
	if l == nil {
		return 0
	}
	return l.rejected.Load()
}

// Applied adds what a transaction of this member's clients has come to. atMs is the log's time, and ids are the identities of
// the client that sent it.
func (l *Log) Applied(atMs int64, txn *proto.Txn, ids []*proto.Identity, r *znode.Result) {
	if l == nil {
		return
	}
	op := jute.Op(txn.GetOp())
	how := &operations[operationAt(op)]
	if how.name == "" || how.passing(r.Code) {
		return
	}
	e := Event{AtMs: atMs, Zxid: r.Zxid, Session: jute.SessionID(txn.GetSession()), Ids: ids, Timeout: r.Session.Timeout}
	l.mu.Lock()
	defer l.mu.Unlock()
	if op == jute.OpMulti {
		l.multi(&e, txn.GetBody(), r)
		return
	}
	how.tell(&e, txn.GetBody(), r)
	l.line(&e)
}

// Add adds an event. If its time is 0, it is now.
func (l *Log) Add(e Event) {
	if l == nil {
		return
	}
	if e.AtMs == 0 {
		e.AtMs = time.Now().UnixMilli()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.line(&e)
}

// Refused adds a client's operation that did not get into the log.
func (l *Log) Refused(session jute.SessionID, ids []*proto.Identity, op jute.Op, code jute.Code) {
	if how := operations[operationAt(op)]; how.name != "" && l != nil {
		l.Add(Event{Session: session, Ids: ids, Operation: how.name, Result: Failure, Error: code.Error()})
	}
}

// line queues a line, or drops it. The caller holds the lock.
func (l *Log) line(e *Event) {
	if e.proving() {
		l.bounded(e)
		return
	}
	l.put(e)
}

// put queues the line of e. The caller holds the lock.
func (l *Log) put(e *Event) {
	before := len(l.queue)
	if before+l.writing >= maxQueued {
		l.untold++
		l.dropped.Add(1)
		return
	}
	l.queue = l.format.append(l.queue, e)
	if before == 0 {
		notify(l.wake)
	}
	if len(l.queue)+l.writing > maxQueued/2 {
		notify(l.hurry)
	}
}

func notify(c chan<- struct{}) {
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
	go l.run()
}

// run writes lines until Close is called, and then what is left.
func (l *Log) run() {
	defer close(l.done)
	l.Add(Event{Operation: "serverStart", User: l.user})
	sweep := time.NewTicker(failurePause)
	defer sweep.Stop()
	for open := true; open; {
		select {
		case <-sweep.C:
			l.sweep(false)
			continue // what it has queued wakes this loop
		case <-l.wake:
			open = l.gather()
		case <-l.closing:
			open = false
		}
		l.drain()
	}
	l.sweep(true)
	l.Add(Event{Operation: "serverStop", User: l.user, Result: Invoked})
	l.drain()
	if err := l.out.close(); err != nil {
		l.log.Warn("the audit log was not closed well", "err", err)
	}
}

// gather waits for more lines, so that they are written together. It returns false if the log is to be closed.
func (l *Log) gather() (open bool) {
	timer := time.NewTimer(gatherTime)
	defer timer.Stop()
	select {
	case <-l.closing:
		return false
	case <-l.hurry:
	case <-timer.C:
	}
	return true
}

// Close writes what is left, and closes the file. If the disk hangs, Close returns after stopTime, and the lines
// that wait are lost. It reports whether the log has ended. If it has not, it may still write to the file.
func (l *Log) Close() (ended bool) {
	if l == nil {
		return true
	}
	l.close.Do(func() { close(l.closing) })
	if !l.running.Load() {
		_ = l.out.close() // nothing was written
		return true
	}
	timer := time.NewTimer(stopTime)
	defer timer.Stop()
	select {
	case <-l.done:
		return true
	case <-timer.C:
		l.log.Warn("the last lines of the audit log are lost: its disk hangs")
		return false
	}
}

// drain writes all lines in the queue.
func (l *Log) drain() {
	l.mu.Lock()
	lines, untold, batch := l.queue, l.untold, l.batch
	l.queue, l.writing, l.untold, l.batch = l.spare[:0], len(lines), 0, nil
	l.mu.Unlock()
	l.gap()
	var failed error
	for rest := lines; len(rest) > 0; {
		n := chunk(rest)
		failed = cmp.Or(failed, l.write(rest[:n]))
		rest = rest[n:]
	}
	batch.finish(failed)
	if l.lost += untold; untold > 0 {
		l.warn(untold, nil)
		l.gap()
	}
	if l.spare = lines; cap(lines) > keepQueued {
		l.spare = nil
	}
	l.mu.Lock()
	l.writing = 0
	l.mu.Unlock()
}

// chunk returns how many bytes of lines are written at once: whole lines, and at least one.
func chunk(lines []byte) int {
	if len(lines) <= chunkSize {
		return len(lines)
	}
	if n := bytes.LastIndexByte(lines[:chunkSize], '\n'); n >= 0 {
		return n + 1
	}
	return bytes.IndexByte(lines, '\n') + 1
}

// gap writes a line about the lines that are missing at this place. If it cannot be written, the next one says so.
func (l *Log) gap() {
	if l.lost == 0 {
		return
	}
	f := formatter{member: l.cfg.Member, user: l.user, zooKeeper: l.cfg.ZooKeeper} // that of the queue needs the lock
	e := Event{AtMs: time.Now().UnixMilli(), Operation: "gap", User: l.user, Dropped: l.lost, Result: Failure, Error: "lines were lost"}
	if err := l.out.write(f.append(nil, &e)); err != nil {
		l.warn(l.lost, err)
		return
	}
	l.written.Add(1)
	l.lost = 0
}

// write writes lines. If that fails, they are lost.
func (l *Log) write(lines []byte) error {
	n := uint64(bytes.Count(lines, []byte("\n")))
	if err := l.out.write(lines); err != nil {
		l.dropped.Add(n)
		l.lost += n
		l.warn(l.lost, err)
		return err
	}
	l.written.Add(n)
	return nil
}

// warn logs that lines were lost. err is nil if they came too fast.
func (l *Log) warn(lines uint64, err error) {
	if time.Since(l.warned) < warnPause {
		return
	}
	l.warned = time.Now()
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
			"lines of the audit log that were written, or were lost because the disk did not take them in time; and changes that were rejected because their lines could not be written (audit.required)",
			func() map[string]uint64 {
				written, dropped := l.Counts()
				return map[string]uint64{"written": written, "lost": dropped, "rejected": l.Rejected()}
			}),
	}
}
