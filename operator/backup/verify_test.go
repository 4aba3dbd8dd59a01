package backup

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"rollcall/zk/jute"
	"rollcall/znode"
)

// sample returns a backup with a session, its ephemeral node, and one with data.
func sample(t testing.TB, change func(*Head)) []byte {
	t.Helper()
	var state bytes.Buffer
	h := znode.ImageHead{
		Index: 7, Zxid: 3<<32 | 9, TimeMs: 1767323045000, Term: znode.Term{Term: 3, Leader: 1, Index: 2}, SessionCount: 1, NodeCount: 6,
		Members: []znode.MemberProgress{{ID: 1, Incarnation: 5, LastSeq: 2, Format: 1, HighestSession: 1<<56 | 1}},
	}
	w, err := znode.NewImageWriter(&state, h)
	if err != nil {
		t.Fatal(err)
	}
	errs := []error{w.WriteSession(znode.Session{ID: 1<<56 | 1, Timeout: 10 * time.Second, Address: "10.0.0.7:1"})}
	for _, n := range []znode.ImageNode{
		{Path: "/"},
		{Path: "/app", Data: []byte("hello"), Czxid: 3, Mzxid: 3, Pzxid: 4, CreateCount: 1},
		{Path: "/app/lock", Czxid: 4, Mzxid: 4, Pzxid: 4, OwnerSession: 1<<56 | 1},
		{Path: "/zookeeper"},
		{Path: "/zookeeper/config"},
		{Path: "/zookeeper/quota"},
	} {
		n.ACL = jute.OpenACL
		errs = append(errs, w.WriteNode(n))
	}
	digest, err := w.Close()
	if err := errors.Join(append(errs, err)...); err != nil {
		t.Fatal(err)
	}
	head := someHead()
	head.Nodes, head.Digest = 6, FormatDigest(digest)
	if change != nil {
		change(&head)
	}
	return framed(t, head, state.Bytes())
}

// A whole backup is verified, and its parts are read.
func TestVerify(t *testing.T) {
	file := sample(t, nil)
	head, size, err := Verify(iotest.HalfReader(bytes.NewReader(file)))
	if err != nil || size != int64(len(file)) || head.Nodes != 6 {
		t.Errorf("head %+v, %d of %d bytes: %v", head, size, len(file), err)
	}
	var parts []string
	_, _, err = Read(bytes.NewReader(file), znode.ImageVisitor{
		Session: func(s znode.Session) error { parts = append(parts, s.ID.String()); return nil },
		Node:    func(n znode.ImageNode) error { parts = append(parts, n.Path); return nil },
	})
	if want := "[0x100000000000001 / /app /app/lock /zookeeper /zookeeper/config /zookeeper/quota]"; err != nil || fmt.Sprint(parts) != want {
		t.Errorf("%v: %v", parts, err)
	}
}

// A head that says something else than the state is noticed, whichever field it is.
func TestVerifyCompares(t *testing.T) {
	for name, change := range map[string]func(*Head){
		"index":    func(h *Head) { h.Index++ },
		"term":     func(h *Head) { h.Term++ },
		"zxid":     func(h *Head) { h.Zxid++ },
		"nodes":    func(h *Head) { h.Nodes++ },
		"sessions": func(h *Head) { h.Sessions++ },
		"digest":   func(h *Head) { h.Digest = FormatDigest(1) },
	} {
		if _, _, err := Verify(bytes.NewReader(sample(t, change))); !errors.Is(err, ErrCorrupt) ||
			!strings.Contains(err.Error(), "its head says "+name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Damage is reported by its place in the file. A malformed state is rejected although the framing is right.
func TestVerifyRefuses(t *testing.T) {
	file := sample(t, nil)
	cut := file[:len(file)-20]
	if _, _, err := Verify(bytes.NewReader(cut)); !errors.Is(err, ErrCorrupt) ||
		!strings.Contains(err.Error(), fmt.Sprintf("cut short at byte %d,", len(cut))) {
		t.Errorf("cut: %v", err)
	}
	changed := bytes.Clone(file)
	changed[len(changed)-100] ^= 1
	if _, _, err := Verify(bytes.NewReader(changed)); !errors.Is(err, ErrCorrupt) ||
		!strings.Contains(err.Error(), "do not fit their checksum") {
		t.Errorf("changed: %v", err)
	}
	if _, _, err := Verify(bytes.NewReader(file[:len(file)-16])); !errors.Is(err, ErrCorrupt) ||
		!strings.Contains(err.Error(), "before its end") {
		t.Errorf("without its end: %v", err)
	}
	if _, _, err := Verify(bytes.NewReader(framed(t, someHead(), []byte("no state at all")))); !errors.Is(err, znode.ErrNotSnapshot) {
		t.Errorf("no state: %v", err)
	}
	stopped := errors.New("seen enough")
	_, _, err := Read(bytes.NewReader(file), znode.ImageVisitor{Node: func(znode.ImageNode) error { return stopped }})
	if !errors.Is(err, stopped) {
		t.Errorf("a visitor that stops: %v", err)
	}
}

// Backups of every version that was ever written can be read. testdata has one of each.
func TestVersionsAreRead(t *testing.T) {
	for version := 1; version <= Version; version++ {
		file, err := os.ReadFile(fmt.Sprintf("testdata/version-%d.backup", version))
		if err != nil {
			t.Fatal(err)
		}
		head, _, err := Verify(bytes.NewReader(file))
		if err != nil || head.Version != version || head.Nodes != 6 || len(head.Servers) != 2 {
			t.Errorf("version %d: %+v: %v", version, head, err)
		}
	}
}
