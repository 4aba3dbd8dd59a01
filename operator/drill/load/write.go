package load

import (
	"context"
	"errors"
	"fmt"
	"path"

	"rollcall/client"
	"rollcall/operator/drill/judge"
)

// maxPerFolder limits the sequential nodes in one folder, so that a list of it stays below a frame of 1 MiB.
const maxPerFolder = 5000

// writer creates sequential nodes, and sets a shared key in turn.
type writer struct {
	number  int
	set     keyWriter
	created int
	folder  string // of the present nodes
}

func newWriter(number int, key *judge.Key) *writer {
	return &writer{number: number, set: keyWriter{key: key}}
}

func (w *writer) work(v *life) {
	for ; !v.over(); v.pause(2 * v.seat.l.cfg.Interval) {
		w.set.write(v)
		if v.over() || !v.seat.l.rec.mayCreate() {
			continue
		}
		if w.created%maxPerFolder == 0 && !w.newFolder(v) {
			continue
		}
		w.create(v)
	}
}

// newFolder creates the folder for the next nodes. It reports whether it is there.
func (w *writer) newFolder(v *life) bool {
	folder := fmt.Sprintf("%s/%d-%d", createFolder, w.number, w.created/maxPerFolder)
	_, err := v.call(judge.Write, func(ctx context.Context) error {
		_, _, err := v.c.Create(ctx, folder, nil, client.Persistent)
		return err
	})
	if err != nil && !isNodeExists(err) {
		return false
	}
	if w.folder != folder {
		w.folder = folder
		v.seat.l.addFolder(folder)
	}
	return true
}

// create creates one node, once, and keeps the outcome.
func (w *writer) create(v *life) {
	c := judge.Create{ID: fmt.Sprintf("%d-%06d-", w.number, w.created+1), Session: v.id}
	answer, err := v.call(judge.Write, func(ctx context.Context) error {
		created, _, err := v.c.Create(ctx, w.folder+"/"+c.ID, []byte(c.ID), client.PersistentSequential)
		c.Name = path.Base(created)
		return err
	})
	if errors.Is(err, client.ErrSuspended) {
		return // it was not sent
	}
	w.created++
	c.Sent, c.At, c.Outcome = answer.Sent, answer.At, outcome(err)
	v.seat.l.rec.create(c)
}

func (l *Load) addFolder(folder string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.folders = append(l.folders, folder)
}
