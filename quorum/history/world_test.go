package history

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"rollcall/quorum/disk"
)

const (
	testSegmentBytes = 128 << 10
	testEntryBytes   = 8 << 10 // 15 of them fill a segment
)

// world is the stores of a member in a directory, and a Keeper of what they retire.
type world struct {
	t      testing.TB
	dir    string
	keeper *Keeper
	data   *disk.Data
	last   uint64 // index of the last entry
}

func newWorld(t testing.TB) *world {
	w := &world{t: t, dir: t.TempDir()}
	own := filepath.Join(w.dir, "rollcall")
	w.keeper = NewKeeper(Directories{own, own}, Limits{Age: time.Hour, Bytes: 1 << 40}, slog.New(slog.DiscardHandler))
	w.keeper.pace = func(out io.Writer) io.Writer { return out }
	w.keeper.freeShare = func(string) (int64, int64, error) { return 1 << 50, 1 << 50, nil }
	w.start()
	t.Cleanup(func() { _ = w.data.Close() })
	return w
}

func (w *world) start() {
	w.t.Helper()
	var err error
	w.data, err = disk.Open(disk.Config{
		MemberID: 1, ServerList: []string{"server.1=a:1:2;3"}, DataDir: w.dir, SegmentBytes: testSegmentBytes, StallLimit: time.Minute,
		Retirement: w.keeper.Retirement(), RaftRunning: func() bool { return false }, EndMember: func(error) {},
		QueuedWritten: func() {}, RaftLogger: hclog.NewNullLogger(), Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) restart() {
	w.t.Helper()
	w.must(w.data.Close())
	w.start()
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// entryOf returns the entry of an index. Entries of other terms differ.
func entryOf(index, term uint64) *raft.Log {
	r := rand.New(rand.NewPCG(index, term))
	data := make([]byte, testEntryBytes)
	for i := range len(data) / 2 {
		data[i] = byte(r.Uint32())
	}
	return &raft.Log{Index: index, Term: term, Type: raft.LogCommand, Data: data}
}

// store appends so many entries.
func (w *world) store(count int, term uint64) {
	w.t.Helper()
	for batch := range slices.Chunk(make([]*raft.Log, count), disk.MaxAppendEntries) {
		for i := range batch {
			w.last++
			batch[i] = entryOf(w.last, term)
		}
		w.must(w.data.Log().StoreLogs(batch))
	}
	w.awaitDisk()
}

func (w *world) awaitDisk() {
	w.t.Helper()
	if !w.data.Durability().AwaitDurable(w.last) {
		w.t.Fatal("the log was not written")
	}
}

// cut deletes the entries after an index.
func (w *world) cut(index uint64) {
	w.t.Helper()
	w.must(w.data.Log().DeleteRange(index+1, w.last))
	w.last = index
}

// snapshot stores a snapshot of the index, as raft does, and then deletes the log up to keepFrom-1.
func (w *world) snapshot(index, term, keepFrom uint64, taken bool) {
	w.t.Helper()
	sink, err := w.data.Snapshots().Create(1, index, term, raft.Configuration{}, 0, nil)
	w.must(err)
	if taken {
		sink.(*disk.Sink).NoteTaken()
	}
	_, err = sink.Write(stateOf(index))
	w.must(err)
	w.must(sink.Close())
	if first, err := w.data.Log().FirstIndex(); err == nil && first != 0 && keepFrom > first {
		w.must(w.data.Log().DeleteRange(first, keepFrom-1))
	}
}

// stateOf is the state after an index: enough to fill a piece of a compressed file.
func stateOf(index uint64) []byte { return bytes.Repeat(fmt.Appendf(nil, "state %d ", index), 10_000) }

// tidy lets the Keeper do what is due.
func (w *world) tidy() {
	w.t.Helper()
	w.must(w.keeper.tidy(context.Background()))
}

func (w *world) list() Listing {
	w.t.Helper()
	l, err := List(w.keeper.dirs, w.last)
	w.must(err)
	return l
}

// check reads a span to its end, and compares it with what was stored. termOf returns the term of an entry.
func (w *world) check(s Span, termOf func(index uint64) uint64) {
	w.t.Helper()
	c := NewChain(s, DirectorySource{w.keeper.dirs})
	for _, n := range s.Snapshots {
		r, err := c.OpenSnapshot(context.Background(), n)
		w.must(err)
		b, err := io.ReadAll(r)
		w.must(errors.Join(err, r.Close()))
		if !bytes.Equal(b, stateOf(n.Index)) {
			w.t.Fatalf("snapshot %d has another state", n.Index)
		}
	}
	after := s.First - 1
	next := after + 1
	for e, err := range c.Entries(context.Background(), after) {
		w.must(err)
		if want := entryOf(next, termOf(next)); e.Index != next || e.Term != want.Term || !bytes.Equal(e.Data, want.Data) {
			w.t.Fatalf("entry %d of term %d comes where %d of term %d belongs, or its data differ", e.Index, e.Term, next, want.Term)
		}
		next++
	}
	if next != s.Last+1 {
		w.t.Fatalf("the span ends with entry %d; %d is read last", s.Last, next-1)
	}
}

func always(term uint64) func(uint64) uint64 { return func(uint64) uint64 { return term } }

// files returns the names in a directory of what is kept.
func (w *world) files() (names []string) {
	w.t.Helper()
	entries, err := os.ReadDir(filepath.Join(w.dir, "rollcall", disk.KeptDirName))
	w.must(err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}
