package follower

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/internal/monotonic"
	"rollcall/proto"
	"rollcall/zk/jute"
)

type record interface{ Append(b []byte) []byte }

// writeOf returns an entry of one client's write.
func writeOf(tb testing.TB, op jute.Op, request record) []byte {
	tb.Helper()
	data, err := proto.MarshalEntry(&proto.Entry{Txns: []*proto.Txn{{Member: 1, Seq: 1, Op: int32(op), Body: request.Append(nil)}}})
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

// entryOf returns an entry of transactions without bodies.
func entryOf(tb testing.TB, ops ...jute.Op) []byte {
	tb.Helper()
	e := &proto.Entry{}
	for i, op := range ops {
		e.Txns = append(e.Txns, &proto.Txn{Member: 1, Seq: uint64(i + 1), Op: int32(op)})
	}
	data, err := proto.MarshalEntry(e)
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

// A read waits for the entries that write its path, and for no others.
func TestPathsOfEntries(t *testing.T) {
	path := func(p string) []byte { return []byte(p) }
	multi := func(steps ...jute.MultiOp) record { return records(jute.AppendMulti(nil, steps)) }
	for _, tt := range []struct {
		name    string
		op      jute.Op
		request record
		waits   []string
		doesNot []string
	}{
		{"create", jute.OpCreate, jute.CreateRequest{Path: path("/a/b")}, []string{"/a", "/a/b"}, []string{"/", "/a/b/c", "/a/c"}},
		{"create2", jute.OpCreate2, jute.CreateRequest{Path: path("/a/b")}, []string{"/a", "/a/b"}, []string{"/"}},
		{"container", jute.OpCreateContainer, jute.CreateRequest{Path: path("/a/b")}, []string{"/a", "/a/b"}, nil},
		{"TTL", jute.OpCreateTTL, jute.CreateTTLRequest{CreateRequest: jute.CreateRequest{Path: path("/a/b")}, TTL: 1}, []string{"/a", "/a/b"}, nil},
		{"below the root", jute.OpCreate, jute.CreateRequest{Path: path("/a")}, []string{"/", "/a"}, []string{"/b"}},
		{
			"sequential", jute.OpCreate,
			jute.CreateRequest{Path: path("/a/lock-"), Flags: jute.EphemeralSequential},
			[]string{"/a", "/a/lock-0000000007", "/a/lock-8999999999", "/a/lock-9000000009000000000"},
			[]string{"/a/lock-000000007", "/a/lock-000000000x", "/a/lock-0000000007-", "/a/lock-0000000009000000000"},
		},
		{"sequential without a name", jute.OpCreate, jute.CreateRequest{Path: path("/a/"), Flags: jute.PersistentSequential}, []string{"/a", "/a/0000000007"}, nil},
		{"delete", jute.OpDelete, jute.DeleteRequest{Path: path("/a/b")}, []string{"/a", "/a/b"}, []string{"/"}},
		{"set", jute.OpSetData, jute.SetDataRequest{Path: path("/a/b")}, []string{"/a/b"}, []string{"/a", "/"}},
		{"set of the root", jute.OpSetData, jute.SetDataRequest{Path: path("/")}, []string{"/"}, []string{"/a"}},
		{"setACL", jute.OpSetACL, jute.SetACLRequest{Path: path("/a/b")}, []string{"/a/b"}, []string{"/a"}},
		{
			"multi", jute.OpMulti, multi(
				jute.MultiOp{Op: jute.OpCheck, Check: jute.CheckVersionRequest{Path: path("/checked")}},
				jute.MultiOp{Op: jute.OpSetData, SetData: jute.SetDataRequest{Path: path("/set/x")}},
				jute.MultiOp{Op: jute.OpDelete, Delete: jute.DeleteRequest{Path: path("/deleted/x")}},
				jute.MultiOp{Op: jute.OpCreate, Create: jute.CreateRequest{Path: path("/created/x")}},
			),
			[]string{"/set/x", "/deleted/x", "/deleted", "/created/x", "/created"},
			[]string{"/checked", "/set", "/"},
		},
		{"closing a session", jute.OpCloseSession, records(nil), nil, []string{"/", "/a"}},
		{"a record that cannot be decoded", jute.OpCreate, records{0, 0, 0, 9, '/'}, nil, []string{"/a", "/a/b"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			u := newUnapplied(monotonic.System{}, tick)
			u.entryStored(5, writeOf(t, tt.op, tt.request))
			for _, p := range tt.waits {
				if index := u.indexToAwait([]byte(p)); index != 5 {
					t.Errorf("a read of %s waits for entry %d, want 5", p, index)
				}
			}
			for _, p := range tt.doesNot {
				if index := u.indexToAwait([]byte(p)); index != 0 {
					t.Errorf("a read of %s waits for entry %d", p, index)
				}
			}
			u.entryFinished(5)
			for _, p := range append(tt.waits, tt.doesNot...) {
				if index := u.indexToAwait([]byte(p)); index != 0 {
					t.Errorf("a read of %s waits for entry %d, which is applied", p, index)
				}
			}
		})
	}
}

// A read by a lease waits for each entry that may write its path: also for those that do not name the nodes that they write.
func TestHeldToRead(t *testing.T) {
	named := writeOf(t, jute.OpCreate, jute.CreateRequest{Path: []byte("/a/lock-")})
	cut := writeOf(t, jute.OpSetData, jute.SetDataRequest{Path: []byte("/a")})
	for _, tt := range []struct {
		name    string
		entry   []byte
		waits   []string
		doesNot []string
	}{
		{"a create", named, []string{"/a", "/a/lock-", "/a/lock-0000000007", "", "/zookeeper", "/zookeeper/quota/a"}, []string{"/", "/b", "/a/b"}},
		{"a new session", writeOf(t, jute.OpCreateSession, records(nil)), []string{""}, []string{"/", "/a"}},
		{"the end of a session", writeOf(t, jute.OpCloseSession, records(nil)), []string{"", "/", "/a"}, nil},
		{"an expired session", writeOf(t, jute.OpExpire, records(nil)), []string{"", "/", "/a"}, nil},
		{"a node with a TTL that ends", writeOf(t, jute.OpReap, records(nil)), []string{"", "/", "/a"}, nil},
		{"a term", writeOf(t, jute.OpTermStart, records(nil)), []string{"", "/", "/a"}, nil},
		{"the end of a session, and a write", entryOf(t, jute.OpCloseSession, jute.OpEmpty), []string{"", "/", "/a"}, nil},
		{"an entry that has more", append(named, 0x0f), []string{"", "/", "/b"}, nil},
		{"a transaction that has more", append(cut, 0x2a, 1, 0x0f), []string{"", "/", "/b"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			u := newUnapplied(monotonic.System{}, tick)
			u.entryFinished(4)
			u.entryStored(5, tt.entry)
			u.entryStored(6, writeOf(t, jute.OpSetData, jute.SetDataRequest{Path: []byte("/other")}))
			for _, p := range tt.waits {
				want := uint64(5)
				if p == "" || strings.HasPrefix(p, "/zookeeper") {
					want = 6
				}
				if index := u.heldToRead([]byte(p)); index != want {
					t.Errorf("a read of %q waits for entry %d, want %d", p, index, want)
				}
			}
			for _, p := range tt.doesNot {
				if index := u.heldToRead([]byte(p)); index != 0 {
					t.Errorf("a read of %q waits for entry %d", p, index)
				}
			}
			u.entryFinished(5)
			for _, p := range append(tt.waits, tt.doesNot...) {
				if index := u.heldToRead([]byte(p)); index != 0 && index != 6 {
					t.Errorf("a read of %q waits for entry %d, which is applied", p, index)
				}
			}
		})
	}
}

// If another leader's entries take the place of longer ones, a read waits for no entry that is not in the log any more.
func TestHeldToReadAfterCutLog(t *testing.T) {
	u := newUnapplied(monotonic.System{}, tick)
	u.entryStored(9, writeOf(t, jute.OpSetData, jute.SetDataRequest{Path: []byte("/a")}))
	u.entryStored(7, writeOf(t, jute.OpSetData, jute.SetDataRequest{Path: []byte("/b")}))
	for _, p := range []string{"/a", "/b"} {
		if index := u.heldToRead([]byte(p)); index != 7 {
			t.Errorf("a read of %s waits for entry %d, want 7", p, index)
		}
	}
}

// records is a record as bytes.
type records []byte

func (r records) Append(b []byte) []byte { return append(b, r...) }

// unappliedInBubble returns an unapplied with entry 7, which writes /a, and the path.
func unappliedInBubble(t *testing.T) (u *unapplied, path []byte) {
	u, path = newUnapplied(monotonic.System{}, tick), []byte("/a")
	u.entryStored(7, writeOf(t, jute.OpSetData, jute.SetDataRequest{Path: path}))
	return u, path
}

const longestWait = tick / 200

// A read waits until its entry is applied, and not for one before it.
func TestReadWaitsForItsEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u, path := unappliedInBubble(t)
		begun, waited := time.Now(), make(chan time.Duration, 1)
		go func() {
			u.await(t.Context(), u.indexToAwait(path))
			waited <- time.Since(begun)
		}()
		time.Sleep(2 * time.Millisecond)
		u.entryFinished(6)
		time.Sleep(2 * time.Millisecond)
		u.entryFinished(7)
		if took := <-waited; took != 4*time.Millisecond {
			t.Errorf("waited %v", took)
		}
	})
}

// If a read has waited for an entry in vain, others do not wait for it, however many come. They wait for the next entry.
func TestOneReadWaitsInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u, path := unappliedInBubble(t)
		begun := time.Now()
		u.await(t.Context(), u.indexToAwait(path))
		if took := time.Since(begun); took != longestWait {
			t.Errorf("waited %v, want %v", took, longestWait)
		}
		if index := u.indexToAwait(path); index != 0 {
			t.Errorf("the next read waits for entry %d", index)
		}
		u.entryStored(8, writeOf(t, jute.OpSetData, jute.SetDataRequest{Path: path}))
		if index := u.indexToAwait(path); index != 8 {
			t.Errorf("waits for entry %d, want 8", index)
		}
	})
}

// Where entries usually take longer than a read may wait, no read waits. That ends with the cause.
func TestNoReadWaitsWhereEntriesTakeLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u, path := unappliedInBubble(t)
		index := uint64(7)
		apply := func(after time.Duration) (wouldWait bool) {
			time.Sleep(after)
			u.entryFinished(index)
			index++
			u.entryStored(index, writeOf(t, jute.OpSetData, jute.SetDataRequest{Path: path}))
			return u.indexToAwait(path) != 0
		}
		n := 1
		for ; apply(time.Hour); n++ {
		}
		if n != 6 {
			t.Errorf("no read waits after %d slow entries, want 6: a few say nothing yet", n)
		}
		for n = 1; !apply(time.Millisecond); n++ {
		}
		if n > 2 {
			t.Errorf("reads wait again after %d fast entries", n)
		}
	})
}

// The number of waiting reads is limited, and each ends with its connection.
func TestWaitingReadsAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u, path := unappliedInBubble(t)
		ctx, cancel := context.WithCancel(t.Context())
		begun := time.Now()
		for range maxWaitingReads {
			go u.await(ctx, u.indexToAwait(path))
		}
		synctest.Wait()
		u.await(t.Context(), u.indexToAwait(path))
		if took := time.Since(begun); took != 0 {
			t.Errorf("one more read waited %v", took)
		}
		cancel()
		synctest.Wait()
		if n := u.numWaiting.Load(); n != 0 {
			t.Errorf("%d reads still wait", n)
		}
	})
}

// BenchmarkEntryStored measures what raft's goroutine does for an entry of n writes, beside a read's question.
func BenchmarkEntryStored(b *testing.B) {
	for _, n := range []int{1, 64, 4096} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			e := &proto.Entry{}
			for i := range n {
				set := jute.SetDataRequest{Path: []byte("/bench/node-" + strconv.Itoa(i)), Data: make([]byte, 100)}
				e.Txns = append(e.Txns, &proto.Txn{Member: 1, Incarnation: 1 << 60, Seq: 1 << 20, Session: 1 << 56, Conn: 1 << 60, Op: int32(jute.OpSetData), Body: set.Append(nil)})
			}
			data, err := proto.MarshalEntry(e)
			if err != nil {
				b.Fatal(err)
			}
			u := newUnapplied(monotonic.System{}, tick)
			b.ReportAllocs()
			for b.Loop() {
				u.entryStored(1, data)
			}
		})
	}
	b.Run("question", func(b *testing.B) {
		u, path := newUnapplied(monotonic.System{}, tick), []byte("/bench/node-0000000001")
		b.ReportAllocs()
		for b.Loop() {
			u.indexToAwait(path)
		}
	})
}
