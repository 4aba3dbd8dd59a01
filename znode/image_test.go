package znode

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"rollcall/zk/jute"
)

// copyImage reads an image and writes it again, part by part.
func copyImage(image []byte) ([]byte, error) {
	h, _, err := ReadImage(bytes.NewReader(image), ImageVisitor{}) // the head must know the counts
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	w, err := NewImageWriter(&out, h)
	if err != nil {
		return nil, err
	}
	_, digest, err := ReadImage(bytes.NewReader(image), ImageVisitor{Session: w.WriteSession, Unswept: w.WriteUnswept, SessionEnd: w.WriteSessionEnd, Node: w.WriteNode})
	if err != nil {
		return nil, err
	}
	written, err := w.Close()
	if err == nil && written != digest {
		err = fmt.Errorf("digest %016x was written, %016x was read", written, digest)
	}
	return out.Bytes(), err
}

// checkImage checks that the image of a state can be read and written part by part, to the byte, and that its head
// matches the state.
func checkImage(t testing.TB, s *State) {
	t.Helper()
	image := encode(t, s.Snapshot())
	again, err := copyImage(image)
	if err != nil || !bytes.Equal(again, image) {
		t.Errorf("the copy of an image of %d bytes has %d bytes: %v", len(image), len(again), err)
	}
	h, digest, err := ReadImage(bytes.NewReader(image), ImageVisitor{})
	if err != nil || digest != s.Digest() {
		t.Errorf("digest %016x, want %016x: %v", digest, s.Digest(), err)
	}
	if want := s.Snapshot().Head(); fmt.Sprint(h) != fmt.Sprint(want) {
		t.Errorf("head %+v, want %+v", h, want)
	}
}

// Images are read and written to the byte.
func TestImage(t *testing.T) {
	checkImage(t, sample(t).s())
	checkImage(t, newWorld(t).s())
	if _, err := NewImageWriter(new(bytes.Buffer), ImageHead{ServerList: ServerList{EnsembleID: [32]byte{1}}}); err == nil ||
		!strings.Contains(err.Error(), "the list of servers has no version") {
		t.Errorf("a list without a version: %v", err)
	}
}

// The parts of an image have what clients see.
func TestImageNodes(t *testing.T) {
	w := sample(t)
	paths := 0
	last := ""
	_, _, err := ReadImage(iotest.OneByteReader(bytes.NewReader(encode(t, w.s().Snapshot()))), ImageVisitor{
		Head: func(h ImageHead) error {
			if h.Index != w.s().Index() || h.Zxid != w.s().Zxid() || h.TimeMs != w.s().TimeMs() || h.Term != w.s().Term() ||
				h.SessionCount != uint64(w.s().SessionCount()) {
				t.Errorf("%+v", h)
			}
			return nil
		},
		Session: func(s Session) error {
			if have, ok := w.s().Session(s.ID); !ok || have != s {
				t.Errorf("session %+v, want %+v", s, have)
			}
			return nil
		},
		Node: func(n ImageNode) error {
			paths++
			have := w.nodeAt(n.Path)
			st := have.stat()
			stat := jute.Stat{
				Czxid: n.Czxid, Mzxid: n.Mzxid, Pzxid: n.Pzxid, Ctime: n.Ctime, Mtime: n.Mtime, Version: n.Version, Aversion: n.Aversion,
				Cversion: int32(2*n.CreateCount) - st.NumChildren, EphemeralOwner: n.OwnerSession, DataLength: int32(len(n.Data)), NumChildren: st.NumChildren,
			}
			life := have.lifetime()
			if stat != st || !bytes.Equal(n.Data, have.data.bytes()) || (n.Data == nil) != have.data.isNull() ||
				n.Container != life.isContainer || n.TTLMs != life.ttlMs {
				t.Errorf("%s: %+v, want %+v", n.Path, n, st)
			}
			if fmt.Sprint(n.ACL) != fmt.Sprint(have.acl.visibleEntries(true)) {
				t.Errorf("%s: list %v", n.Path, n.ACL)
			}
			if last != "" && !comesAfter(n.Path, last) {
				t.Errorf("%s after %s", n.Path, last)
			}
			last = n.Path
			return nil
		},
	})
	if err != nil || paths != w.nodeCount() {
		t.Errorf("%d of %d nodes: %v", paths, w.nodeCount(), err)
	}
}

// An error of a visitor ends the reading.
func TestImageVisitorFails(t *testing.T) {
	image := encode(t, sample(t).s().Snapshot())
	stop := errors.New("stop")
	calls := 0
	fail := func() error { calls++; return stop }
	for i, v := range []ImageVisitor{
		{Head: func(ImageHead) error { return fail() }},
		{Session: func(Session) error { return fail() }},
		{Unswept: func(jute.SessionID) error { return fail() }},
		{SessionEnd: func(SessionEnd) error { return fail() }},
		{Node: func(ImageNode) error { return fail() }},
	} {
		if _, _, err := ReadImage(bytes.NewReader(image), v); !errors.Is(err, stop) || calls != i+1 {
			t.Errorf("visitor %d: %v after %d calls", i, err, calls)
		}
	}
}

// write writes the forged content with an ImageWriter. It returns the first error.
func (f *forged) write() error {
	h := f.forgedHead()
	w, err := NewImageWriter(new(bytes.Buffer), h)
	if err != nil {
		return err
	}
	for _, s := range f.sessions.all() {
		_ = w.WriteSession(*s) // the writer keeps its first error
	}
	for _, id := range f.unsweptIDs() {
		_ = w.WriteUnswept(id)
	}
	for _, e := range f.sessionEnds.byNumber.all() {
		_ = w.WriteSessionEnd(*e)
	}
	r := snapshotBuilder{}
	for _, n := range f.nodes {
		of := r.imageNode(n)
		d := jute.NewDecoder([]byte(n.acl.text))
		count, _ := d.ReadCount(12)
		of.ACL = make([]jute.ACL, max(count, 0))
		for i := range of.ACL {
			of.ACL[i].Decode(&d)
		}
		_ = w.WriteNode(of)
	}
	_, err = w.Close()
	return err
}

// An ImageWriter rejects what Restore rejects, for the same reason.
func TestImageWriterRefuses(t *testing.T) {
	other := map[string]string{ // the reasons that differ, because the writer sees counts and not bytes
		"count too large":               "nodes, and the head says",
		"count too small":               "more than the",
		"count of sessions":             "sessions, and the head says",
		"count of ended sessions":       "ended sessions with nodes left, and the head says",
		"count of ends":                 "ends of sessions, and the head says",
		"no ended session":              "owned by no session",
		"no ends of some":               "0 of 2 ends",
		"more ends than there were":     "2 of 1 ends",
		"ephemeral root":                "no parent",
		"time to live below 0":          "of no kind",
		"end for an unknown reason":     "end 2",
		"character in path":             "out of order",
		"list of a foreign scheme":      "has no list",
		"address that is none":          "has no list",
		"sessions out of order":         "does not follow",
		"highest session of another":    "does not follow",
		"more ends than are kept":       "10001 of 10001 ends",
		"container built-in":            "cannot end",
		"ended session that never was":  "ended session",
		"end after the last zxid":       "end 2",
		"close that somebody asked for": "end 1",
	}
	sound := map[string]bool{ // what a writer cannot get wrong
		"nothing": true, "digest": true, "the same list twice": true, "list with a tail": true,
	}
	for _, tt := range spoilings() {
		want, ok := other[tt.name]
		if !ok {
			want = tt.want
		}
		err := tt.forge(t).write()
		if sound[tt.name] {
			if err != nil {
				t.Errorf("%s: %v", tt.name, err)
			}
		} else if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", tt.name, err, want)
		}
	}
}

// An ImageWriter rejects what a snapshot cannot express.
func TestImageWriterRefusesWhatCannotBeWritten(t *testing.T) {
	const first = 1<<56 + 1
	head := ImageHead{Members: []MemberProgress{{ID: 1, HighestSession: first + 9}}, Zxid: 9, SessionCount: 1, EndCount: 1, EndsTotal: 1, NodeCount: 4}
	open := slices.Clone(jute.OpenACL)
	sound := func(w *ImageWriter) {
		_ = w.WriteSession(Session{ID: first, Timeout: time.Second})
		_ = w.WriteSessionEnd(SessionEnd{Number: 1, Session: first + 1, Reason: ReasonClosed, Zxid: 1})
		for _, path := range []string{"/", "/zookeeper", "/zookeeper/config", "/zookeeper/quota"} {
			_ = w.WriteNode(ImageNode{Path: path, ACL: open})
		}
	}
	tests := []struct {
		name string
		do   func(w *ImageWriter)
		want string
	}{
		{"nothing", sound, ""},
		{"fraction of a millisecond", func(w *ImageWriter) { _ = w.WriteSession(Session{ID: first, Timeout: time.Microsecond}) }, "timeout of 1µs"},
		{"timeout below 0", func(w *ImageWriter) { _ = w.WriteSession(Session{ID: first, Timeout: -time.Second}) }, "timeout of -1s"},
		{"long timeout", func(w *ImageWriter) { _ = w.WriteSession(Session{ID: first, Timeout: 1 << 32 * time.Millisecond}) }, "timeout of"},
		{"session too many", func(w *ImageWriter) {
			_ = w.WriteSession(Session{ID: first})
			_ = w.WriteSession(Session{ID: first + 1})
		}, "more than the 1 sessions"},
		{"no session", func(w *ImageWriter) { _ = w.WriteNode(ImageNode{Path: "/", ACL: open}) }, "0 sessions, and the head says 1"},
		{"session after nodes", func(w *ImageWriter) { sound(w); _ = w.WriteSession(Session{ID: first + 2}) }, "sessions after nodes"},
		{"end with another number", func(w *ImageWriter) {
			_ = w.WriteSession(Session{ID: first})
			_ = w.WriteSessionEnd(SessionEnd{Number: 2, Session: first + 1, Reason: ReasonClosed, Zxid: 1})
		}, "end 2"},
		{"end with a fraction", func(w *ImageWriter) {
			_ = w.WriteSession(Session{ID: first})
			_ = w.WriteSessionEnd(SessionEnd{Number: 1, Session: first + 1, Reason: ReasonClosed, Zxid: 1, Timeout: 1})
		}, "end 1 has a timeout of 1ns"},
		{"end with fewer than no nodes", func(w *ImageWriter) {
			_ = w.WriteSession(Session{ID: first})
			_ = w.WriteSessionEnd(SessionEnd{Number: 1, Session: first + 1, Reason: ReasonClosed, Zxid: 1, EphemeralCount: -1})
		}, "-1 ephemeral nodes"},
		{"nothing at all", func(*ImageWriter) {}, "0 sessions, and the head says 1"},
		{"no nodes", func(w *ImageWriter) {
			_ = w.WriteSession(Session{ID: first})
			_ = w.WriteSessionEnd(SessionEnd{Number: 1, Session: first + 1, Reason: ReasonClosed, Zxid: 1})
		}, "0 nodes, and the head says 4"},
	}
	for _, tt := range tests {
		w, err := NewImageWriter(new(bytes.Buffer), head)
		if err != nil {
			t.Fatal(err)
		}
		tt.do(w)
		if _, err := w.Close(); tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
	both := func(n ImageNode) {
		h := head
		h.NodeCount++
		w, err := NewImageWriter(new(bytes.Buffer), h)
		if err != nil {
			t.Fatal(err)
		}
		sound(w)
		if err := w.WriteNode(n); err == nil || !strings.Contains(err.Error(), invalidLifetime) {
			t.Errorf("%+v: %v", n, err)
		}
	}
	both(ImageNode{Path: "/zz", ACL: open, OwnerSession: first, Container: true})
	both(ImageNode{Path: "/zz", ACL: open, OwnerSession: first, TTLMs: 1})
	both(ImageNode{Path: "/zz", ACL: open, Container: true, TTLMs: 1})
	both(ImageNode{Path: "/zz", ACL: open, TTLMs: math.MinInt64})
}

// An error of the writer below ends an image.
func TestImageWriterFails(t *testing.T) {
	w := sample(t)
	image := encode(t, w.s().Snapshot())
	h, _, err := ReadImage(bytes.NewReader(image), ImageVisitor{})
	if err != nil {
		t.Fatal(err)
	}
	for limit := range 20 {
		full := errors.New("disk full")
		limited := &limitedWriter{left: limit * len(image) / 20, err: full}
		iw, err := NewImageWriter(limited, h)
		if err == nil {
			_, _, err = ReadImage(bytes.NewReader(image), ImageVisitor{Session: iw.WriteSession, Unswept: iw.WriteUnswept, SessionEnd: iw.WriteSessionEnd, Node: iw.WriteNode})
		}
		if err == nil && limit < 5 {
			t.Errorf("nothing has failed before the end, with room for %d of %d bytes", limited.left, len(image))
		}
		if err == nil {
			_, err = iw.Close()
		}
		if !errors.Is(err, full) {
			t.Errorf("after %d bytes: %v", limited.left, err)
		}
	}
}

// limitedWriter fails after so many bytes.
type limitedWriter struct {
	left int
	err  error
}

func (w *limitedWriter) Write(p []byte) (int, error) {
	if w.left -= len(p); w.left < 0 {
		return 0, w.err
	}
	return len(p), nil
}

// An image that can be read is written to the byte, part by part, except for the history of changes, which is no part of
// an image.
func FuzzReadImage(f *testing.F) {
	small := newWorld(f)
	f.Add(encode(f, small.s().Snapshot()))
	k := small.connect()
	k.must(k.create("/a", 1))
	k.must(k.createTTL("/t", 5, 1000))
	f.Add(encode(f, small.s().Snapshot()))
	small.expire(k.id, small.index)
	f.Add(encode(f, small.s().Snapshot()))
	f.Fuzz(func(t *testing.T, b []byte) {
		b, ok := seal(b)
		if !ok {
			return
		}
		again, err := copyImage(b)
		_, _, verr := VerifySnapshot(bytes.NewReader(b))
		if (err == nil) != (verr == nil) {
			t.Fatalf("the copy says %v, Verify %v", err, verr)
		}
		head, _, _ := ReadImage(bytes.NewReader(b), ImageVisitor{})
		if err == nil && !head.hasHistory && !bytes.Equal(again, b) {
			t.Error("the copy has other bytes")
		}
	})
}
