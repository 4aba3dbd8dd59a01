package znode

import (
	"errors"
	"fmt"
	"io"
	"math"

	"rollcall/zk/jute"
)

// ImageWriter writes a snapshot from its parts: sessions by id, ended sessions with nodes left by id, ends by
// number, and nodes, parents before their children and siblings in order. It rejects what RestoreSnapshot
// would reject. After the first error it writes nothing, and all methods return that error.
type ImageWriter struct {
	builder      snapshotBuilder
	sections     *sectionWriter
	head         ImageHead
	sectionItems uint64 // written to the current section
	err          error
}

// NewImageWriter writes the head of an image. The counts in the head must match the items that follow. A LatestMs
// below TimeMs is raised to it.
func NewImageWriter(w io.Writer, h ImageHead) (*ImageWriter, error) {
	h.LatestMs = max(h.LatestMs, h.TimeMs)
	h.hasHistory, h.hasACLsChanged = false, false
	iw := &ImageWriter{builder: snapshotBuilder{countOnly: true}, head: h}
	why := iw.builder.acceptHead(h)
	if why == "" {
		why = iw.builder.acceptSessionEndCounts(h.EndsTotal, h.EndCount)
	}
	if why != "" {
		return nil, imageError(why)
	}
	iw.sections = newSectionWriter(w, &iw.head)
	return iw, iw.sections.err
}

func imageError(why string) error { return errors.New("znode: write image: " + why) }

// WriteSession adds the next session. Its timeout must be in whole milliseconds.
func (w *ImageWriter) WriteSession(s Session) error {
	if w.beginItem(sectionSessions) {
		if ms := s.Timeout.Milliseconds(); ms < 0 || ms > math.MaxUint32 || s.Timeout%1e6 != 0 {
			return w.reject(fmt.Sprintf("session %v has a timeout of %v", s.ID, s.Timeout))
		}
		if why := w.builder.acceptSession(&s); why != "" {
			return w.reject(why)
		}
		w.sections.writeSession(&s)
	}
	return w.firstError()
}

// WriteUnswept adds the next ended session with nodes left.
func (w *ImageWriter) WriteUnswept(id jute.SessionID) error {
	if w.beginItem(sectionUnswept) {
		if why := w.builder.acceptUnswept(id); why != "" {
			return w.reject(why)
		}
		w.sections.writeUnswept(id)
	}
	return w.firstError()
}

// WriteSessionEnd adds the next end of a session, with the next number.
func (w *ImageWriter) WriteSessionEnd(e SessionEnd) error {
	if w.beginItem(sectionEnds) {
		ms := e.Timeout.Milliseconds()
		if ms < 0 || ms > math.MaxUint32 || e.Timeout%1e6 != 0 || uint64(e.EphemeralCount) > math.MaxUint32 {
			return w.reject(fmt.Sprintf("end %d has a timeout of %v and %d ephemeral nodes",
				e.Number, e.Timeout, e.EphemeralCount))
		}
		if why := w.builder.acceptSessionEnd(&e); why != "" {
			return w.reject(why)
		}
		w.sections.writeSessionEnd(&e)
	}
	return w.firstError()
}

// WriteNode adds the next node.
func (w *ImageWriter) WriteNode(n ImageNode) error {
	if w.beginItem(sectionNodes) {
		a, ok := w.builder.acls.internList(n.ACL)
		if !ok || len(n.ACL) == 0 {
			return w.reject(fmt.Sprintf("node %q has no list", n.Path))
		}
		to := nodeFromImage(n, a)
		if uint64(len(n.Path)) > math.MaxInt32 || uint64(len(n.Data)) > math.MaxInt32 {
			return w.reject(fmt.Sprintf("node %q has %d bytes of data", n.Path, len(n.Data)))
		}
		if why := w.builder.acceptNode(to, n.lifetime()); why != "" {
			return w.reject(why)
		}
		w.sections.writeNode(to)
	}
	return w.firstError()
}

// Close ends the image and returns its digest. It does not close the writer below.
func (w *ImageWriter) Close() (digest uint64, err error) {
	if w.err == nil && w.advanceTo(sectionNodes) && w.sectionItems < w.head.NodeCount {
		w.err = w.tooFewItems()
	}
	if w.err != nil {
		return 0, w.err
	}
	if why := w.builder.missingBuiltins(); why != "" {
		return 0, w.reject(why)
	}
	digest = w.builder.state.digest()
	w.err = w.sections.writeSnapshotEnd(digest)
	return digest, w.err
}

// beginItem moves on to a section, and reports whether the section may get another item.
func (w *ImageWriter) beginItem(to section) bool {
	switch {
	case w.err != nil:
	case to < w.sections.current:
		w.err = imageError(fmt.Sprintf("%s after %s", to, w.sections.current))
	case !w.advanceTo(to):
	case w.sectionItems == w.expectedItems(to):
		w.err = imageError(fmt.Sprintf("more than the %d %s that the head says", w.sectionItems, to))
	default:
		w.sectionItems++
		return true
	}
	return false
}

// advanceTo ends the sections before to. It returns false if one of them has too few items.
func (w *ImageWriter) advanceTo(to section) bool {
	for w.sections.current < to {
		if w.sectionItems < w.expectedItems(w.sections.current) {
			w.err = w.tooFewItems()
			return false
		}
		w.sections.advanceTo(w.sections.current + 1)
		w.sectionItems = 0
	}
	return true
}

func (w *ImageWriter) tooFewItems() error {
	at := w.sections.current
	return imageError(fmt.Sprintf("%d %s, and the head says %d", w.sectionItems, at, w.expectedItems(at)))
}

func (w *ImageWriter) expectedItems(p section) uint64 {
	return [...]uint64{w.head.SessionCount, w.head.UnsweptCount, w.head.EndCount, w.head.NodeCount}[p]
}

func (w *ImageWriter) reject(why string) error {
	w.err = imageError(why)
	return w.err
}

// firstError returns the first error, including that of the underlying writer.
func (w *ImageWriter) firstError() error {
	if w.err == nil {
		w.err = w.sections.err
	}
	return w.err
}
