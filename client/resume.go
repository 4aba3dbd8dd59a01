package client

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"rollcall/client/session"
	"rollcall/zk/jute"
)

// Position is a place in the log of an ensemble: after a transaction. A program can store it and resume from it after a
// restart. See Watcher.Position.
type Position struct {
	// Ensemble is the id of the ensemble, as Rollcall's servers show it. An ensemble that was restored from a backup has
	// another one. It is "" if the server shows none, as ZooKeeper's: then nothing can be resumed.
	Ensemble string
	Zxid     Zxid
}

// These are the reasons in a ResumeError.
var (
	ErrTooOld        = errors.New("the server no longer keeps all changes since then")
	ErrOtherEnsemble = errors.New("the position is of another ensemble, or of transactions that this one has lost")
	ErrNoHistory     = errors.New("the server keeps no changes: it is not Rollcall, or has watches.history.bytes=0")
	ErrShared        = errors.New("the Client has another Watch of the tree")
)

// ResumeError is returned when a Watch or a cache cannot resume from a position, so that changes may have been missed: read
// all nodes again. errors.Is finds its reason.
type ResumeError struct {
	From    Position
	Since   Zxid // the server keeps all changes after it; NoZxid: none, or that is not known
	Applied Zxid // the last transaction that the server has applied; NoZxid: not known
	Err     error
}

// Error implements error.
func (e *ResumeError) Error() string {
	text := fmt.Sprintf("client: resume from transaction %#x: %v", int64(e.From.Zxid), e.Err)
	if e.Since != NoZxid {
		text += fmt.Sprintf(" (it keeps those after %#x, and has applied %#x)", int64(e.Since), int64(e.Applied))
	}
	return text
}

// Unwrap returns Err.
func (e *ResumeError) Unwrap() error { return e.Err }

// Watch is Client.Watch with the mode TreeWithoutState, but it begins with the events of all changes after a position, in
// place of a Gap. The position may be from an earlier session or process. An event can come twice, and if another Watch
// of the Client covers the path, later events can precede the first ones; each has the Zxid of its change.
//
// The last pair has a *ResumeError if the server does not keep all changes since the position: begin again with Watch.
// This is always so if the servers are ZooKeeper's, and while the Client has another Watch with Tree or TreeWithoutState
// of the path.
//
// Servers send an event only if the Client may read the node as it was then, and as it is now if it exists. So the Client
// must have the identities that it had at the position. Of a node that a change of its ACL has hidden there is no event: see
// Watcher.ACLsChanged.
func (p Position) Watch(ctx context.Context, c *Client, path string) iter.Seq2[Event, error] {
	return eventsOf(ctx, func() (*Watcher, error) { return p.NewWatcher(c, path) })
}

// NewWatcher begins a Watch: see Position.Watch. It does not block. Close must be called. It returns an error if the
// path or the position is not valid, and a *ResumeError if it is known at once that the Watch cannot resume.
func (p Position) NewWatcher(c *Client, path string) (*Watcher, error) {
	if err := CheckPath(path); err != nil {
		return nil, fmt.Errorf("client: resume: %w", err)
	}
	if p.Zxid <= 0 {
		return nil, fmt.Errorf("client: resume %s: transaction %d of the position must be positive", path, p.Zxid)
	}
	if p.Ensemble == "" {
		return nil, &ResumeError{From: p, Since: NoZxid, Applied: NoZxid, Err: ErrNoHistory}
	}
	return c.watches.resumeWatcher(path, p)
}

// Position returns a position up to which the caller has all events. It can be stored while events
// wait. ok is false if there is none: the server keeps no history, or the Client has not read yet whether it does.
func (l *Watcher) Position() (p Position, ok bool) {
	l.table.mu.Lock()
	defer l.table.mu.Unlock()
	if w := l.shared; w != nil && w.resume != nil && w.resume.watcher == l {
		return w.resume.from, true
	}
	zxid, _ := l.asOf()
	h := &l.table.history
	p = Position{h.ensemble, zxid}
	return p, p.Ensemble != "" && zxid > 0 && (h.ensemble == h.lastEnsemble || zxid > h.relative)
}

// ACLsChanged returns the last transaction that has changed an ACL, or a later one, as the server has shown it when this
// Watch resumed or its connection began. There is no event of such a change, so the Client may no longer read a node that the
// caller has read before it. It is 0 if no ACL was changed, if the server keeps no history, or if it was not asked yet.
func (l *Watcher) ACLsChanged() Zxid {
	l.table.mu.Lock()
	defer l.table.mu.Unlock()
	return l.table.history.acls
}

// serverHistory is what a Client knows of the changes that its server keeps. The lock of the table guards it.
//
// A Client that has lost its connection sets its watches again with a zxid. If a server of the same ensemble keeps all
// changes since then, it sends the events of its recursive watches that were missed, before the Client gets any reply. The
// Client reads jute.HistoryPath on the same connection afterwards. Since only grows on a server, so if the server keeps all
// changes after the zxid now, it did when it set the watches. If that read fails with the connection, the ensemble of the
// connection is not known, so there is a Gap after the next one.
type serverHistory struct {
	connection   int    // the number of connections that have ended
	isRead       bool   // on the present connection
	ensemble     string // as read on the present connection; "": not known
	lastEnsemble string // on the connection before
	relative     Zxid   // the zxid with which the watches were set again
	acls         Zxid   // no ACL was changed after it, as last read on the present connection; 0: not known
}

// next returns what is known of the server of the next connection. The last zxid of this one is relative.
func (h serverHistory) next(relative Zxid) serverHistory {
	return serverHistory{connection: h.connection + 1, lastEnsemble: h.ensemble, relative: relative}
}

// historyReply is the reply to a read of jute.HistoryPath.
type historyReply struct {
	jute.History
	known   bool // the server has a history
	applied Zxid
}

// requestHistory reads jute.HistoryPath. It calls handle with the reply, on the reader.
func (w *sharedWatch) requestHistory(handle func(historyReply) error) error {
	rec := jute.GetDataRequest{Path: []byte(jute.HistoryPath)}
	return w.requestWatch(jute.OpGetData, rec, func(r session.Reply) error {
		reply := historyReply{applied: Zxid(r.Zxid)}
		var resp jute.GetDataResponse
		if r.Err == jute.OK {
			if err := r.DecodeBody(&resp); err != nil {
				return err
			}
			reply.History, reply.known = jute.ParseHistory(string(resp.Data))
			reply.known = reply.known && resp.Stat.Czxid == 0 // otherwise a client has created a node there
		}
		return handle(reply)
	})
}

// readHistory reads the history of the server, once for each connection, if a Watch without state needs it.
func (w *sharedWatch) readHistory() error {
	t := w.table
	t.mu.Lock()
	isNeeded := w.isSet && !w.mustAdd && w.hasStateless() && !t.history.isRead
	t.mu.Unlock()
	if !isNeeded {
		return nil
	}
	return w.requestHistory(func(reply historyReply) error {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.noteHistory(reply)
		return nil
	})
}

// noteHistory notes a reply. With the first one of a connection it passes Gaps on if the server has not sent all events that
// were missed. The lock is held.
func (t *watchTable) noteHistory(reply historyReply) {
	h := &t.history
	if reply.known {
		if h.acls = Zxid(reply.ACLs); reply.ACLs == jute.NoHistory {
			h.acls = reply.applied
		}
	}
	if h.isRead {
		return
	}
	h.isRead = true
	if reply.known {
		h.ensemble = reply.Ensemble
	}
	covered := reply.known && h.ensemble == h.lastEnsemble && h.relative > 0 && Zxid(reply.Since) <= h.relative
	for w := range t.sharedWatches() {
		if w.isSet && !w.mustAdd {
			w.settleGap(covered)
			w.wakeStateless() // they have a position now
		}
	}
}

// resumption is the beginning of a Watch that resumes. The lock of the table guards its fields.
type resumption struct {
	watcher *Watcher
	from    Position
	setOn   int // serverHistory.connection at the reply to setWatches2
}

// reasonAgainst returns the reason why a server with this history does not have all changes after a position, or nil.
func (r *resumption) reasonAgainst(reply historyReply) error {
	err := &ResumeError{From: r.from, Since: NoZxid, Applied: reply.applied}
	if reply.Since != jute.NoHistory {
		err.Since = Zxid(reply.Since)
	}
	switch {
	case !reply.known:
		err.Since, err.Err = NoZxid, ErrNoHistory
	case reply.Ensemble != r.from.Ensemble, reply.applied < r.from.Zxid:
		err.Err = ErrOtherEnsemble
	case reply.Since == jute.NoHistory:
		err.Err = ErrNoHistory
	case Zxid(reply.Since) > r.from.Zxid:
		err.Err = ErrTooOld
	default:
		return nil
	}
	return err
}

// resumeWatcher begins a Watch that resumes. removeWatcher must follow.
func (t *watchTable) resumeWatcher(path string, from Position) (*Watcher, error) {
	l := &Watcher{table: t, root: path, stateless: true, ready: make(chan struct{}, 1)}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended != nil {
		l.failAfterEvents(t.endError())
		return l, nil
	}
	full := t.c.chroot.serverPath(path)
	if p := t.paths[full]; p != nil && p.shared[treeWatch] != nil {
		return nil, &ResumeError{From: from, Since: NoZxid, Applied: NoZxid, Err: ErrShared}
	}
	w := t.beginShared(full, treeWatch)
	w.listeners, l.shared = append(w.listeners, l), w
	w.resume = &resumption{watcher: l, from: from, setOn: -1}
	t.c.background.Go(w.keepSet)
	return l, nil
}

// resumeAtServer sets the watch at the server so that the server sends all events since the position. First it reads
// whether the server has them, so that a server without a history is asked for nothing. Afterwards it reads that again,
// because the history may have dropped changes, or the connection may be another one.
func (w *sharedWatch) resumeAtServer(r *resumption) error {
	var reason error
	check := func(reply historyReply) error { reason = r.reasonAgainst(reply); return nil }
	err := w.requestHistory(check)
	if err == nil && errors.Is(reason, ErrOtherEnsemble) { // the server may lag
		err = w.requestWatch(jute.OpSync, jute.SyncRequest{Path: []byte("/")}, func(session.Reply) error { return nil })
		if err == nil {
			err = w.requestHistory(check)
		}
	}
	if err != nil {
		return err
	}
	if reason != nil {
		w.failResume(reason)
		return nil
	}
	none := [][]byte{}
	rec := jute.SetWatches2{
		RelativeZxid: int64(r.from.Zxid), Data: none, Exist: none, Child: none, Persistent: none, Recursive: [][]byte{[]byte(w.path)},
	}
	if err := w.requestWatch(jute.OpSetWatches2, rec, func(reply session.Reply) error { return w.handleResumed(r, reply) }); err != nil {
		return err
	}
	err = w.requestHistory(func(reply historyReply) error {
		reason = r.reasonAgainst(reply)
		return w.confirmResume(r, reply, reason)
	})
	if err == nil && reason != nil {
		w.failResume(reason)
	}
	return err
}

// handleResumed handles the reply to setWatches2, on the reader.
func (w *sharedWatch) handleResumed(r *resumption, reply session.Reply) error {
	if reply.Err != jute.OK {
		return reply.Err
	}
	w.table.update(w.path, func(p *pathWatches) {
		p.set[w.kind] = true
		r.setOn = w.table.history.connection
		w.last = max(w.last, Zxid(reply.Zxid))
	})
	return nil
}

// confirmResume ends the beginning of a Watch that has resumed, unless there is a reason against it. It is called on the
// reader.
func (w *sharedWatch) confirmResume(r *resumption, reply historyReply, reason error) error {
	t := w.table
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case r.setOn != t.history.connection:
		return ErrConnectionLost // the reply says nothing of the server that has set the watch
	case reason != nil || w.resume != r:
		return nil
	}
	w.resume = nil
	t.noteHistory(reply)
	w.noteSet()
	wake(r.watcher.ready)
	return nil
}

// failResume ends the Watch that was to resume. Others of the same tree begin without it.
func (w *sharedWatch) failResume(reason error) {
	t := w.table
	t.mu.Lock()
	defer t.mu.Unlock()
	r := w.resume
	if r == nil {
		return
	}
	w.resume = nil
	r.watcher.queue = eventQueue{}
	r.watcher.failAfterEvents(reason)
	if w.removeWatcher(r.watcher) {
		t.dropSharedWatch(w)
	}
	wake(w.wake)
}

// handleRepeat is called by the session with an event that only a Watch that resumes has not had.
func (t *watchTable) handleRepeat(e jute.WatcherEvent, zxid int64) {
	path := string(e.Path)
	event := Event{Type: EventType(e.Type), Path: t.c.chroot.callerPath(path), Zxid: Zxid(zxid)}
	t.mu.Lock()
	defer t.mu.Unlock()
	if event.Type != ChildrenChanged {
		t.deliverToTrees(event, path, func(w *sharedWatch) bool { return w.resume != nil })
	}
}
