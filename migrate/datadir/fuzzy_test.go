package datadir

import (
	"bytes"
	"fmt"
	"hash/adler32"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"rollcall/zk/jute"
)

// history makes transactions by chance, such as a leader may write: each is possible in the state
// before it.
type history struct {
	t      *testing.T
	rand   *rand.Rand
	state  *State // after all transactions
	txns   []logged
	future int // transactions that are still to come
	// Since 3.6 transactions and snapshots have digests. A snapshot of 3.5 may be read by 3.6.
	digests, digested bool
}

// names are few, so that nodes are often created again.
var names = []string{"a", "b", "c"}

// step adds a transaction.
func (h *history) step() {
	h.future--
	l := logged{zxid: h.state.Zxid + 1}
	switch h.rand.IntN(12) {
	case 0:
		l.kind, l.client = jute.OpCreateSession, l.zxid<<16
		l.body = jute.AppendInt32(nil, 4000)
	case 1:
		if l.client = h.session(); l.client == 0 {
			return
		}
		l.kind = jute.OpCloseSession
		var paths []string
		for n := range h.state.nodesByOwner[l.client] {
			paths = append(paths, n.Path)
		}
		slices.Sort(paths)
		// Before 3.6 a log did not have the paths. If a snapshot lacks one of these nodes, which was
		// removed while it was written, nothing says then whose pzxid it changed.
		if h.future > 0 || h.rand.IntN(2) == 0 {
			l.body = closeBody(paths...)
		}
	case 2:
		l.kind = jute.OpMulti
		l.body = multiBody(h.op(&l))
	case 3:
		l.kind = jute.OpMulti
		l.body = multiBody(h.op(&l), logged{kind: jute.OpError, body: jute.AppendInt32(nil, -2)})
	default:
		part := h.op(&l)
		l.kind, l.body = part.kind, part.body
	}
	t, err := h.state.decodeTxn(l.txnBytes())
	if err != nil {
		h.t.Fatal(err)
	}
	h.state.applyTxn(&t)
	if h.digests {
		l.digest = digestOf(h.state.digest.sum)
	}
	h.txns = append(h.txns, l)
}

// session returns a session, or 0.
func (h *history) session() int64 {
	ids := slices.Sorted(maps.Keys(h.state.Sessions))
	if len(ids) == 0 {
		return 0
	}
	return int64(ids[h.rand.IntN(len(ids))])
}

// op returns an operation that is possible. It may set the client of l.
func (h *history) op(l *logged) logged {
	paths := slices.Sorted(maps.Keys(h.state.nodes))
	n := h.state.Get(paths[h.rand.IntN(len(paths))])
	switch h.rand.IntN(8) {
	case 0:
		if n.child == nil && n.Path != "/" {
			return logged{kind: jute.OpDelete, body: pathBody(n.Path)}
		}
	case 1:
		return logged{kind: jute.OpSetData, body: setBody(n.Path, fmt.Sprint(l.zxid), n.Version+1)}
	case 2:
		acl := []jute.ACL{{Perms: jute.Perm(h.rand.IntN(4))}}
		if h.rand.IntN(2) == 0 {
			return logged{kind: jute.OpSetData, body: setBody(n.Path, "", n.Version+1)}
		}
		if l.kind == 0 {
			return logged{kind: jute.OpSetACL, body: jute.AppendInt32(appendACL(pathBody(n.Path), acl), n.Aversion+1)}
		}
	}
	path := n.Path + "/" + names[h.rand.IntN(len(names))]
	if n.Path == "/" {
		path = path[1:]
	}
	if h.state.Get(path) != nil || h.state.Kind(n) == Ephemeral || len(path) > 8 {
		return logged{kind: jute.OpCheck, body: jute.AppendInt32(pathBody(n.Path), 0)}
	}
	acl := []jute.ACL{{Perms: jute.Perm(16 + h.rand.IntN(4))}}
	b := appendACL(jute.AppendString(jute.AppendString(nil, path), "new"), acl)
	creates := n.Creates + 1
	switch h.rand.IntN(6) {
	case 0:
		return logged{kind: jute.OpCreateContainer, body: jute.AppendInt32(b, creates)}
	case 1:
		return logged{kind: jute.OpCreateTTL, body: jute.AppendInt64(jute.AppendInt32(b, creates), 1000)}
	case 2, 3:
		if l.client = h.session(); l.client != 0 {
			return logged{kind: jute.OpCreate, body: jute.AppendInt32(append(b, 1), creates)}
		}
	}
	return logged{kind: []jute.Op{jute.OpCreate, jute.OpCreate2}[h.rand.IntN(2)], body: jute.AppendInt32(append(b, 0), creates)}
}

// snapshot returns a snapshot that is written during transactions, as ZooKeeper writes it: first the sessions, then the
// current ACLs, then each node before its children, as they are at that moment.
func (h *history) snapshot() []byte {
	var out bytes.Buffer
	w := &snapshotWriter{w: &out, checksum: adler32.New()}
	b := append([]byte(snapshotMagic), 0, 0, 0, formatVersion)
	b = jute.AppendCount(jute.AppendInt64(b, -1), len(h.state.Sessions))
	for id, timeout := range h.state.Sessions {
		b = jute.AppendInt32(jute.AppendInt64(b, int64(id)), timeout)
	}
	w.writeBytes(b)
	h.some()
	numbers := h.state.writeACLs(w)
	h.nodes(w, numbers, "/")
	w.writeBytes(jute.AppendString(nil, "/"))
	w.writeSeal()
	if h.digested {
		w.writeBytes(jute.AppendInt64(jute.AppendInt32(jute.AppendInt64(nil, h.state.Zxid), digestVersion), int64(h.state.digest.sum)))
		w.writeSeal()
	}
	return out.Bytes()
}

// nodes writes the node at path and what is below it.
func (h *history) nodes(w *snapshotWriter, numbers map[string]int64, path string) {
	h.some()
	n := h.state.Get(path)
	if n == nil {
		return
	}
	number, ok := numbers[string(appendACL(nil, n.ACL))]
	if !ok {
		number = 1<<40 + h.state.Zxid // ZooKeeper has given it a number after it wrote the table
	}
	w.writeBytes(n.appendNode(nil, number))
	var children []string
	for c := n.child; c != nil; c = c.next {
		children = append(children, c.Path)
	}
	h.rand.Shuffle(len(children), func(i, j int) { children[i], children[j] = children[j], children[i] })
	for _, path := range children {
		h.nodes(w, numbers, path)
	}
}

// some applies a few transactions.
func (h *history) some() {
	for h.future > 0 && h.rand.IntN(3) != 0 {
		h.step()
	}
}

// A snapshot that has parts of later transactions, and those transactions, lead to the state that they
// led to, with the same digests.
func TestFuzzySnapshots(t *testing.T) {
	seeds := 2000
	if testing.Short() {
		seeds = 200
	}
	dir := t.TempDir()
	fuzzy, digests := 0, 0
	for seed := range seeds {
		h := &history{t: t, rand: rand.New(rand.NewPCG(uint64(seed), 1)), state: NewState()}
		h.digests, h.digested = seed%3 != 0, seed%3 == 1
		for _, path := range []string{"/", "/zookeeper", quotaPath} {
			mustAdd(t, h.state, Node{Path: path})
		}
		h.state.digest.computeFor(h.state)
		for range 1 + h.rand.IntN(60) {
			h.step()
		}
		start := h.state.Zxid
		h.future = h.rand.IntN(60)
		text := h.snapshot()
		if h.state.Zxid > start {
			fuzzy++
		}
		for h.future > 0 {
			h.step()
		}
		snapshot := filepath.Join(dir, fmt.Sprintf("snapshot.%x", start))
		if err := os.WriteFile(snapshot, text, 0o600); err != nil {
			t.Fatal(err)
		}
		log, _ := writeLog(t, dir, h.txns...)
		s, report, err := Read([]Directory{{Data: dir}}, Options{})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if a, b := dump(s), dump(h.state); a != b {
			t.Fatalf("seed %d: snapshot 0x%x; read\n%s; want\n%s", seed, start, a, b)
		}
		digests += report.Digests
		if err := os.Remove(snapshot); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(log); err != nil {
			t.Fatal(err)
		}
	}
	if fuzzy < seeds/2 || digests < seeds {
		t.Errorf("%d of %d snapshots had parts of later transactions, and %d digests were compared: too few", fuzzy, seeds, digests)
	}
}
