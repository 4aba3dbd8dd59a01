package load

import (
	"cmp"
	"context"
	"time"

	"rollcall/lab/judge"
	"rollcall/lab/result"
)

// The observers list the ephemeral nodes this often. A list of many nodes takes longer, so there is a pause for each
// node.
const (
	listEvery       = 50 * time.Millisecond
	syncedListEvery = 250 * time.Millisecond
	pausePerNode    = 20 * time.Microsecond
)

// observeNodes lists the ephemeral nodes. A node that was in a list of this session, and is not in a later one, is
// gone: its lists never go back. They need no sync, so they continue while there is no leader.
func (l *Load) observeNodes(v *sessionLife) {
	seen := map[string]bool{}
	l.observeWith(v, listEvery, func(ctx context.Context) ([]string, error) {
		names, _, err := v.client.Children(ctx, sessionsParent)
		return names, err
	}, func(names []string, _, at result.Millis) {
		listed := make(map[string]bool, len(names))
		for _, name := range names {
			listed[name] = true
		}
		l.recorder.noteList(seen, listed, at)
	})
}

// observeSynced lists them after a sync: a node in the list has existed when the sync was sent, or later. It has a
// session of its own, because a sync waits while there is no leader.
func (l *Load) observeSynced(v *sessionLife) {
	l.observeWith(v, syncedListEvery, func(ctx context.Context) ([]string, error) {
		if err := v.client.Sync(ctx); err != nil {
			return nil, err
		}
		names, _, err := v.client.Children(ctx, sessionsParent)
		return names, err
	}, func(names []string, sent, _ result.Millis) { l.recorder.noteExisting(names, sent) })
}

// observeWith lists until the load is calm and no node of an ended session is left, or until the judge would not wait
// any longer for them.
func (l *Load) observeWith(
	v *sessionLife, every time.Duration,
	list func(context.Context) ([]string, error), note func(names []string, sent, at result.Millis),
) {
	var last time.Time // of the last list, once the load is calm
	for !v.client.State().State.IsFinal() && l.final.Err() == nil {
		var names []string
		answer, err := v.sendRequest(judge.Query, func(ctx context.Context) (err error) {
			names, err = list(ctx)
			return err
		})
		if err == nil {
			note(names, answer.Sent, answer.At)
		}
		select {
		case <-l.clientsEnded:
			if last.IsZero() {
				last = time.Now().Add(lastLook)
			}
			if err == nil && !l.recorder.hasLeftovers() || time.Now().After(last) {
				return
			}
		default:
		}
		select {
		case <-time.After(every + time.Duration(len(names))*pausePerNode):
		case <-l.final.Done():
		}
	}
}

// At the end the observers keep listing nodes of closed sessions for lastLook. It is longer than the judge
// allows for.
const lastLook = 3 * time.Second

// noteList notes a list. seen has the nodes that were in an earlier one of the same session.
func (r *evidenceRecorder) noteList(seen, names map[string]bool, at result.Millis) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name := range seen {
		if names[name] {
			continue
		}
		delete(seen, name)
		if node := r.nodesByName[name]; node != nil {
			node.Gone = at
			delete(r.nodesByName, name)
			r.goneByName[name] = node
		}
	}
	for name := range names {
		if r.nodesByName[name] != nil {
			seen[name] = true
		}
	}
}

// noteExisting notes a list after a sync that was sent at a time. A node that has gone at one member may still be at another.
func (r *evidenceRecorder) noteExisting(names []string, sent result.Millis) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range names {
		if node := cmp.Or(r.nodesByName[name], r.goneByName[name]); node != nil {
			node.Existed = max(node.Existed, sent)
		}
	}
}

// hasLeftovers reports whether a node of a session that was closed or has expired may still exist.
func (r *evidenceRecorder) hasLeftovers() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.evidence.Sessions {
		if s.Node != nil && s.Node.Gone == 0 && r.nodesByName[nameOf(s.Node.Path)] == s.Node &&
			(s.Ended == judge.Closed || s.Ended == judge.Expired) {
			return true
		}
	}
	return false
}
