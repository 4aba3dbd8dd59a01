package client

import (
	"rollcall/client/internal/nodepath"
	"rollcall/client/session"
	"rollcall/zk/jute"
)

// readNodes reads what is still to be read, at most maxWatchReads nodes at a time. It returns when all is read, or with
// an error when a request has failed.
func (w *sharedWatch) readNodes() error {
	for {
		path, round, err := w.nextRead()
		if path == "" {
			return err
		}
		rec := jute.GetChildrenRequest{Path: []byte(path)}
		err = w.table.c.session.Go(w.ctx, jute.OpGetChildren2, rec, func(r session.Reply, err error) {
			w.nodeRead(path, round, r, err)
		})
		if err != nil {
			w.nodeNotRead(path, round)
			return err
		}
	}
}

// nextRead returns the path of the next node to read, or "" if there is none. It waits while the reads in flight may
// bring more, or are too many.
func (w *sharedWatch) nextRead() (path string, round uint32, err error) {
	for {
		w.table.mu.Lock()
		err = w.readError
		n := len(w.toRead)
		idle := w.reads == 0
		if err != nil {
			w.readError = nil
		} else if n > 0 && w.reads < maxWatchReads {
			path, w.toRead = w.toRead[n-1], w.toRead[:n-1]
			round = w.nodes.round
			w.reads++
		}
		w.table.mu.Unlock()
		if err != nil || path != "" || idle {
			return path, round, err
		}
		select {
		case <-w.wake:
		case <-w.ctx.Done():
			return "", 0, w.ctx.Err()
		}
	}
}

// nodeNotRead is called if a read was not sent.
func (w *sharedWatch) nodeNotRead(path string, round uint32) {
	w.table.mu.Lock()
	defer w.table.mu.Unlock()
	w.reads--
	if w.nodes != nil && w.nodes.round == round {
		w.toRead = append(w.toRead, path)
	}
}

// nodeRead handles the reply to a read, on the reader.
func (w *sharedWatch) nodeRead(path string, round uint32, r session.Reply, err error) {
	var resp childNames
	if err == nil && r.Err == jute.OK {
		err = r.DecodeBody(&resp)
	}
	w.table.mu.Lock()
	defer w.table.mu.Unlock()
	defer wake(w.wake)
	w.reads--
	if w.nodes == nil || w.nodes.round != round {
		return // it is forgotten, or begins again
	}
	if err != nil {
		w.readError = err
		return
	}
	w.last = max(w.last, Zxid(r.Zxid))
	c := comparison{
		nodes: w.nodes, root: w.table.c.chroot.callerPath(w.path), from: w.from, now: w.last,
		silent: w.phase == learning, emit: w.pushEvent,
	}
	below := w.relativePath(path)
	for _, name := range c.handleRead(below, r.Err.Err(), statOf(resp.stat), resp.names) {
		w.toRead = append(w.toRead, nodepath.Join(path, name))
	}
	w.checkSize()
	w.checkRead()
}

// checkRead ends the phase if everything is read. The lock is held.
func (w *sharedWatch) checkRead() {
	if w.nodes == nil || len(w.toRead) > 0 || w.reads > 0 {
		return
	}
	w.phase = known
	for _, l := range w.listeners {
		if l.waiting {
			l.pushFirst(w.lastSeenZxid())
		}
	}
}

// checkSize forgets the nodes if they are too many. Watches that would have had a comparison get a Gap. The lock is
// held.
func (w *sharedWatch) checkSize() {
	if w.nodes == nil || w.nodes.bytes <= MaxWatchBytes {
		return
	}
	wasComparing := w.phase == comparing
	w.discardNodes(tooLarge)
	if !wasComparing {
		return
	}
	for _, l := range w.listeners {
		switch {
		case l.stateless:
		case l.waiting:
			l.pushFirst(w.lastSeenZxid())
		default:
			l.pushEvent(Event{Type: Gap, Path: l.root, From: w.from, Zxid: w.lastSeenZxid(), Below: true})
		}
	}
}
