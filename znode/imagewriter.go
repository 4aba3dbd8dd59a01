package znode

import (
	"errors"
	"fmt"
	"io"
	"math"

	"rollcall/zk/jute"
)

// ImageWriter writes a snapshot from its parts: first all sessions by id, then ended sessions with nodes
// left by id, then ends by number, then nodes, parents before their children and siblings in order. It
// refuses what Restore would refuse. After the first error it writes nothing more, and all methods
// return that error.
type ImageWriter struct {
	f     filler
	out   *sections
	head  Head
	added uint64 // items of the list that is being written
	err   error
}

// NewImageWriter writes the head of an image, which says how many items follow.
func NewImageWriter(w io.Writer, h Head) (*ImageWriter, error) {
	iw := &ImageWriter{f: filler{dry: true}, head: h}
	why := iw.f.takeHead(h)
	if why == "" {
		why = iw.f.takeEnds(h.EndsEver, h.Ends)
	}
	if why != "" {
		return nil, imageError(why)
	}
	iw.out = newSections(w, &iw.head)
	return iw, iw.out.err
}

func imageError(why string) error { return errors.New("znode: write image: " + why) }

// Session adds the next session. Its timeout is in whole milliseconds.
func (w *ImageWriter) Session(s Session) error {
	if w.enter(sectionSessions) {
		if ms := s.Timeout.Milliseconds(); ms < 0 || ms > math.MaxUint32 || s.Timeout%1e6 != 0 {
			return w.refuse(fmt.Sprintf("session %v has a timeout of %v", s.ID, s.Timeout))
		}
		if why := w.f.takeSession(&s); why != "" {
			return w.refuse(why)
		}
		w.out.session(&s)
	}
	return w.wrote()
}

// Unswept adds the next ended session with nodes left.
func (w *ImageWriter) Unswept(id jute.SessionID) error {
	if w.enter(sectionUnswept) {
		if why := w.f.takeUnswept(id); why != "" {
			return w.refuse(why)
		}
		w.out.ended(id)
	}
	return w.wrote()
}

// End adds the next end of a session. Its number is the one that is due.
func (w *ImageWriter) End(e End) error {
	if w.enter(sectionEnds) {
		if ms := e.Timeout.Milliseconds(); ms < 0 || ms > math.MaxUint32 || e.Timeout%1e6 != 0 || uint64(e.Ephemerals) > math.MaxUint32 {
			return w.refuse(fmt.Sprintf("end %d has a timeout of %v and %d ephemeral nodes", e.Number, e.Timeout, e.Ephemerals))
		}
		if why := w.f.takeEnd(&e); why != "" {
			return w.refuse(why)
		}
		w.out.end(&e)
	}
	return w.wrote()
}

// Node adds the next node.
func (w *ImageWriter) Node(n Node) error {
	if w.enter(sectionNodes) {
		a, ok := w.f.acls.intern(n.ACL)
		if !ok || len(n.ACL) == 0 {
			return w.refuse(fmt.Sprintf("node %q has no list", n.Path))
		}
		to := nodeOf(n, a)
		if uint64(len(n.Path)) > math.MaxInt32 || uint64(len(n.Data)) > math.MaxInt32 {
			return w.refuse(fmt.Sprintf("node %q has %d bytes of data", n.Path, len(n.Data)))
		}
		if why := w.f.takeNode(to, n.life()); why != "" {
			return w.refuse(why)
		}
		w.out.node(to)
	}
	return w.wrote()
}

// Close ends the image and returns its digest. It does not close the writer below.
func (w *ImageWriter) Close() (digest uint64, err error) {
	if w.err == nil && w.skip(sectionNodes) && w.added < w.head.Nodes {
		w.err = w.short()
	}
	if w.err != nil {
		return 0, w.err
	}
	if why := w.f.lacks(); why != "" {
		return 0, w.refuse(why)
	}
	digest = w.f.digest()
	w.err = w.out.finish(digest)
	return digest, w.err
}

// enter makes to the list that is being written, and reports whether it may get another item.
func (w *ImageWriter) enter(to section) bool {
	switch {
	case w.err != nil:
	case to < w.out.at:
		w.err = imageError(fmt.Sprintf("%s after %s", to, w.out.at))
	case !w.skip(to):
	case w.added == w.count(to):
		w.err = imageError(fmt.Sprintf("more than the %d %s that the head says", w.added, to))
	default:
		w.added++
		return true
	}
	return false
}

// skip ends the lists before to. It returns false if one of them is too short.
func (w *ImageWriter) skip(to section) bool {
	for w.out.at < to {
		if w.added < w.count(w.out.at) {
			w.err = w.short()
			return false
		}
		w.out.reach(w.out.at + 1)
		w.added = 0
	}
	return true
}

// short returns the error for a list that ends too early.
func (w *ImageWriter) short() error {
	return imageError(fmt.Sprintf("%d %s, and the head says %d", w.added, w.out.at, w.count(w.out.at)))
}

// count returns how many items a list has, by the head.
func (w *ImageWriter) count(p section) uint64 {
	return [...]uint64{w.head.Sessions, w.head.Unswept, w.head.Ends, w.head.Nodes}[p]
}

// refuse makes the reason the first error.
func (w *ImageWriter) refuse(why string) error {
	w.err = imageError(why)
	return w.err
}

// wrote returns the first error, which may be one of writing.
func (w *ImageWriter) wrote() error {
	if w.err == nil {
		w.err = w.out.err
	}
	return w.err
}
