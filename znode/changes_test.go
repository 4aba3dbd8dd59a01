package znode

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"rollcall/proto"
	"rollcall/zk/jute"
)

// changeRecorder records each change as a text.
type changeRecorder struct{ log []string }

func (o *changeRecorder) ObserveChange(c *Change) {
	text := fmt.Sprintf("%x.%d", c.Zxid&0xff, c.TxnPart)
	switch c.Kind {
	case NodeCreated:
		text += fmt.Sprintf(" create %s kind %d size %d", c.Path, c.Node, c.DataBytes)
	case NodeDeleted:
		text += fmt.Sprintf(" delete %s cause %d size %d", c.Path, c.Cause, c.DataBytes)
	case DataSet:
		text += fmt.Sprintf(" set %s version %d size %d", c.Path, c.Version, c.DataBytes)
	case ACLSet:
		text += fmt.Sprintf(" acl %s version %d", c.Path, c.Version)
	case SessionOpened:
		text += " open"
	case SessionEnded:
		text += fmt.Sprintf(" %v nodes %d", c.End.Reason, c.End.EphemeralCount)
	case ServersChanged:
		text += " servers " + c.Path
	}
	if c.Session != 0 {
		text += fmt.Sprintf(" of %x at %s", uint64(c.Session)&0xff, c.Address)
	}
	o.log = append(o.log, text)
}

func (o *changeRecorder) StateReplaced() { o.log = append(o.log, "replaced") }

// want checks the changes since the last check.
func (o *changeRecorder) want(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(o.log, want) {
		t.Errorf("changes\n%q, want\n%q", o.log, want)
	}
	o.log = nil
}

// An observer gets one change for each node, session and list that an entry changes, with its effect: the name of a sequential
// node, the nodes that go with a session, and nothing of what failed.
func TestObserveChanges(t *testing.T) {
	w, got := newWorld(t), &changeRecorder{}
	w.s().allow(2)
	ObserveChanges(w.s(), got)
	k, other := w.connect(), w.connect()
	got.want(t, "0.1 open of 1 at 127.0.0.1:5", "1.1 open of 2 at 127.0.0.1:5")
	k.must(k.create("/a", 0))
	k.must(k.create("/a/s-", jute.PersistentSequential))
	k.must(k.create("/a/e", jute.Ephemeral))
	got.want(t, "2.1 create /a kind 1 size 1 of 1 at 127.0.0.1:5", "3.1 create /a/s-0000000000 kind 1 size 1 of 1 at 127.0.0.1:5",
		"4.1 create /a/e kind 2 size 1 of 1 at 127.0.0.1:5")
	k.must(k.setData("/a", "four", 0))
	k.must(k.setACL("/a", aclOf(jute.PermAll, "world", "anyone"), 0))
	got.want(t, "5.1 set /a version 1 size 4 of 1 at 127.0.0.1:5", "6.1 acl /a version 1 of 1 at 127.0.0.1:5")
	if r := k.setData("/a", "x", 0); r.Code != jute.BadVersion {
		t.Fatal(r.Code)
	}
	k.multi(mk("/a/m", 0), rm("/none", -1))
	got.want(t)
	k.multi(mk("/a/m", 0), put("/a/m", 0), rm("/a/m", 1))
	got.want(t, "9.1 create /a/m kind 1 size 1 of 1 at 127.0.0.1:5", "9.2 set /a/m version 1 size 3 of 1 at 127.0.0.1:5",
		"9.3 delete /a/m cause 1 size 3 of 1 at 127.0.0.1:5")
	k.must(k.delete("/a/s-0000000000", -1))
	got.want(t, "a.1 delete /a/s-0000000000 cause 1 size 1 of 1 at 127.0.0.1:5")
	k.must(k.close())
	got.want(t, "b.1 closed nodes 1 of 1 at 127.0.0.1:5", "b.2 delete /a/e cause 2 size 1 of 1 at 127.0.0.1:5")
	for i := range 3 {
		other.must(other.create(fmt.Sprintf("/a/e%d", i), jute.Ephemeral))
	}
	got.log = nil
	w.expire(other.id, other.since())
	got.want(t, "f.1 expired nodes 3 of 2 at 127.0.0.1:5")
	w.sweep(10)
	got.want(t, "10.1 delete /a/e0 cause 2 size 1 of 2 at ", "10.2 delete /a/e1 cause 2 size 1 of 2 at ")
	w.sweep(10)
	got.want(t, "11.1 delete /a/e2 cause 2 size 1 of 2 at ")
}

// An entry that is applied in two parts has the same effect as in one, and the first part ends with the transaction that took
// the zxid.
func TestApplyEntryThrough(t *testing.T) {
	w := newWorld(t)
	k := w.connect()
	k.must(k.create("/a", 0))
	txns := 4
	for cut := 0; cut <= txns+1; cut++ {
		parts, whole := restored(t, encode(t, w.s().Snapshot())), restored(t, encode(t, w.s().Snapshot()))
		list := w.nextTxns(k, txns)
		entry := w.entryOf(list...)
		zxid := whole.Zxid() + int64(cut)
		if err := whole.ApplyEntry(w.index+1, w.term, entry); err != nil {
			t.Fatal(err)
		}
		rest, err := parts.ApplyEntryThrough(w.index+1, w.term, entry, zxid)
		if err != nil {
			t.Fatal(err)
		}
		if wantRest := cut < txns; (rest != nil) != wantRest {
			t.Errorf("cut %d: rest %t, want %t", cut, rest != nil, wantRest)
		}
		if rest != nil {
			if zxid = max(zxid, whole.Zxid()-int64(txns)+1); parts.Zxid() != zxid {
				t.Errorf("cut %d: zxid %#x, want %#x", cut, parts.Zxid(), zxid)
			}
			for zxid++; rest(zxid); zxid++ {
				if parts.Zxid() != zxid {
					t.Errorf("cut %d: zxid %#x, want %#x", cut, parts.Zxid(), zxid)
				}
			}
		}
		if d := Diff(parts, whole); d != "" {
			t.Errorf("cut %d: %s", cut, d)
		}
		if a, b := parts.StateHashes(), whole.StateHashes(); !slices.Equal(a, b) {
			t.Errorf("cut %d: hashes %v, %v", cut, a, b)
		}
		w.seq[k.member] -= uint64(txns)
	}
}

// An observer can be set while a state is in use, is notified of a snapshot that replaces the state, and is removed again.
func TestObserveChangesFromNowOn(t *testing.T) {
	w, got := newWorld(t), &changeRecorder{}
	k := w.connect()
	k.must(k.create("/before", 0))
	ObserveChanges(w.s(), got)
	k.must(k.create("/a", 0))
	got.want(t, "2.1 create /a kind 1 size 1 of 1 at 127.0.0.1:5")
	if err := w.s().RestoreSnapshot(bytes.NewReader(encode(t, w.s().Snapshot()))); err != nil {
		t.Fatal(err)
	}
	got.want(t, "replaced")
	k.must(k.delete("/a", -1))
	got.want(t, "3.1 delete /a cause 1 size 1 of 1 at 127.0.0.1:5")
	ObserveChanges(w.s(), nil)
	k.must(k.create("/after", 0))
	got.want(t)
}

// nextTxns returns transactions of k that set data, and are the next ones of its member.
func (w *world) nextTxns(k *client, n int) (list []*proto.Txn) {
	for range n {
		body := jute.SetDataRequest{Path: []byte("/a"), Data: []byte("y"), Version: anyVersion}.Append(nil)
		list = append(list, w.next(k.member, k.txn(jute.OpSetData, body)))
	}
	return list
}

// entryOf returns an entry of the current term that no state has applied.
func (w *world) entryOf(txns ...*proto.Txn) *proto.Entry {
	return &proto.Entry{Format: FormatLevel, Term: w.term, Nonce: w.nonce, TimeMs: w.now + 1, Txns: txns}
}

// ReadImageHead reads the head alone. LatestMs is the greatest stamp, although the log's time went back.
func TestReadImageHead(t *testing.T) {
	w := newWorld(t)
	w.now += 5000
	k := w.connect()
	w.now -= 3000
	k.must(k.create("/a", 0))
	image := encode(t, w.s().Snapshot())
	h, err := ReadImageHead(bytes.NewReader(image))
	if err != nil || h.LatestMs != w.now+3000-1 || h.TimeMs != w.now || h.Zxid != w.s().Zxid() || h.SessionCount != 1 {
		t.Errorf("%+v, %v", h, err)
	}
	if again := restored(t, image).Snapshot().Head(); again.LatestMs != h.LatestMs {
		t.Errorf("the restored state has the latest time %d", again.LatestMs)
	}
	image[40] ^= 1
	if _, err := ReadImageHead(bytes.NewReader(image)); !errors.Is(err, ErrCorrupt) {
		t.Errorf("of a damaged head: %v", err)
	}
}

// nullObserver is the cheapest observer.
type nullObserver struct{}

func (nullObserver) ObserveChange(*Change) {}

func (nullObserver) StateReplaced() {}

// BenchmarkObserve measures what an observer costs a write, and that none costs nothing.
func BenchmarkObserve(b *testing.B) {
	for _, observer := range []ChangeObserver{nil, nullObserver{}} {
		b.Run(fmt.Sprintf("observed=%t", observer != nil), func(b *testing.B) {
			k := newBench(b, 1<<14)
			ObserveChanges(k.s, observer)
			k.run(b, func() *proto.Txn { return setTxn(k.any(), hundred) })
		})
	}
}
