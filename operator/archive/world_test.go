package archive

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"rollcall/operator/past"
	"rollcall/operator/past/pasttest"
	"rollcall/quorum"
	"rollcall/quorum/disk"
	"rollcall/quorum/history"
)

// beginMs is the stamp of the first entry: it has to be in the past.
var beginMs = time.Date(2026, 3, 1, 3, 0, 0, 0, time.UTC).UnixMilli()

// testLog is the log of the tests' ensemble.
var testLog = EnsembleLog(bytes.Repeat([]byte{0xab}, 32))

// ensemble is a log and the digest of the state after each of its zxids.
type ensemble struct {
	*pasttest.Ensemble
	digests map[int64]uint64
	client  *pasttest.Client
	written int
}

func newEnsemble(t *testing.T) *ensemble {
	e := &ensemble{Ensemble: pasttest.New(t, beginMs), digests: map[int64]uint64{}}
	e.client = e.Connect("10.0.0.7:1")
	e.note(e.State.Zxid())
	return e
}

func (e *ensemble) note(zxid int64) { e.digests[zxid] = e.State.Digest() }

// write makes so many changes. Other seeds make others.
func (e *ensemble) write(count int, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 7))
	for range count {
		e.NowMs += 1000
		e.written++
		e.note(e.client.Create(fmt.Sprintf("/n-%d", e.written), strings.Repeat(string(rune('a'+r.IntN(26))), r.IntN(500)), 0))
		if e.written%5 == 0 {
			e.note(e.client.Set(fmt.Sprintf("/n-%d", e.written), fmt.Sprint(r.Uint64())))
		}
		if e.written%11 == 0 {
			e.StartTerm()
		}
	}
}

// member is a member's directories with the log of an ensemble. It implements MemberLog and Member.
type member struct {
	t                *testing.T
	e                *ensemble
	id               uint32
	dir              string
	data             *disk.Data
	logName          string
	has              uint64 // the last entry
	dropped          uint64 // entries up to this one are not in the log any more
	leads            atomic.Bool
	snapshotRequests int
}

func newMember(t *testing.T, e *ensemble, id uint32) *member {
	m := &member{t: t, e: e, id: id, dir: t.TempDir(), logName: testLog}
	m.leads.Store(true)
	var err error
	m.data, err = disk.Open(disk.Config{
		MemberID: id, ServerList: []string{"server.1=a:1:2;3"}, DataDir: m.dir, SegmentBytes: 32 << 10, StallLimit: time.Minute,
		Retirement: disk.Retirement{Moved: func() {}}, RaftRunning: func() bool { return false }, EndMember: func(error) {},
		QueuedWritten: func() {}, RaftLogger: hclog.NewNullLogger(), Logger: slog.New(slog.DiscardHandler),
	})
	m.must(err)
	t.Cleanup(func() { _ = m.data.Close() })
	return m
}

// newMemberWith returns an ensemble that has made so many changes, and a member that has all its entries.
func newMemberWith(t *testing.T, changes int) (*ensemble, *member) {
	e := newEnsemble(t)
	m := newMember(t, e, 1)
	m.writeAndFollow(changes, 1)
	return e, m
}

// writeAndFollow makes so many changes, and copies all entries.
func (m *member) writeAndFollow(changes int, seed uint64) {
	m.t.Helper()
	m.e.write(changes, seed)
	m.follow(0)
}

func (m *member) must(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

// follow copies the entries of the ensemble up to an index, or all.
func (m *member) follow(until uint64) {
	m.t.Helper()
	until = min(cmp.Or(until, uint64(len(m.e.Log))), uint64(len(m.e.Log)))
	var entries []*raft.Log
	for _, e := range m.e.Log[min(m.has, until):until] {
		l := &raft.Log{Index: e.Index, Term: e.Term, Type: raft.LogNoop, Data: e.Data}
		if e.Data != nil {
			l.Type = raft.LogCommand
		}
		entries = append(entries, l)
	}
	for batch := range slices.Chunk(entries, disk.MaxAppendEntries) {
		m.must(m.data.Log().StoreLogs(batch))
	}
	m.has = max(m.has, until)
	if !m.data.Durability().AwaitDurable(m.has) {
		m.t.Fatal("the log was not written")
	}
}

// snapshot stores the present state of the ensemble, and drops the log up to an index.
func (m *member) snapshot(drop uint64) {
	m.t.Helper()
	m.e.Ensemble.Snapshot()
	m.follow(0)
	n := m.e.Kept[len(m.e.Kept)-1]
	sink, err := m.data.Snapshots().Create(1, n.Index, m.e.Log[n.Index-1].Term, raft.Configuration{}, 0, nil)
	m.must(err)
	if m.dropped < n.Index {
		sink.(*disk.Sink).NoteTaken() // or else it was received
	}
	_, err = sink.Write(m.e.Images[n.Name])
	m.must(errors.Join(err, sink.Close()))
	if drop > m.dropped {
		m.must(m.data.Log().DeleteRange(m.dropped+1, drop))
		m.dropped = drop
	}
}

func (m *member) dirs() history.Directories {
	own := disk.OwnDirectory(m.dir)
	return history.Directories{Data: own, Log: own}
}

func (m *member) List() (history.Listing, error) { return history.List(m.dirs(), m.has) }

func (m *member) Source() (history.Source, error) {
	return history.CommittedSource{DirectorySource: history.DirectorySource{Directories: m.dirs()}, Last: m.has}, nil
}

func (m *member) ReadEntries(after uint64, mostBytes int) (entries []*raft.Log, err error) {
	if after < m.dropped {
		return nil, quorum.ErrEntriesGone
	}
	for size := 0; after < m.has && size < mostBytes; {
		after++
		e := new(raft.Log)
		if err := m.data.Log().GetLog(after, e); err != nil {
			return nil, err
		}
		size += len(e.Data)
		entries = append(entries, e)
	}
	return entries, nil
}

func (m *member) LogName() string                    { return m.logName }
func (m *member) IsLeader() bool                     { return m.leads.Load() }
func (m *member) AppliedIndex() uint64               { return m.has }
func (m *member) TakeSnapshot(context.Context) error { m.snapshotRequests++; return nil }

// sender returns a Sender of the member, whose objects have a few entries.
func (m *member) sender(store Store) *Sender {
	s := NewSender(SenderConfig{Store: store, Log: m, Member: m, MemberID: m.id, Version: "test", Logger: slog.New(slog.DiscardHandler)})
	s.logName, s.batchBytes = m.logName, 1000
	return s
}

// sendAll makes a round, and waits for the snapshot that it may send.
func sendAll(s *Sender) error {
	err := s.sendRound(context.Background())
	s.stateWork.Wait()
	s.nextStates = time.Time{}
	if err != nil {
		s.position = nil
	}
	return err
}

// checkArchive builds the state at every zxid from the archive, and checks all of it. It returns the verified spans.
func (e *ensemble) checkArchive(t *testing.T, store Store, spans int) {
	t.Helper()
	l := onlyLog(t, store)
	if len(l.Spans) != spans || len(l.Unknown) > 0 {
		t.Fatalf("%d spans %+v, want %d; unknown names %q", len(l.Spans), l.Spans, spans, l.Unknown)
	}
	for _, s := range l.Spans {
		v, err := Verify(t.Context(), store, l, s)
		if err != nil || len(v.Damage) > 0 {
			t.Fatalf("verify: %v, %q", err, v.Damage)
		}
	}
	last := l.Spans[len(l.Spans)-1]
	chain := NewChain(store, l, last)
	oldest, err := past.OpenOldest(t.Context(), chain)
	if err != nil {
		t.Fatal(err)
	}
	oldest.Close()
	for zxid, want := range e.digests {
		built, err := past.Open(t.Context(), chain, past.AtZxid(zxid))
		switch {
		case zxid < oldest.Point().Zxid:
			if !errors.Is(err, past.ErrTooEarly) {
				t.Fatalf("zxid 0x%x before the archive: %v", zxid, err)
			}
			continue
		case err != nil:
			t.Fatalf("zxid 0x%x: %v", zxid, err)
		}
		if got := built.State().Digest(); got != want && zxid != oldest.Point().Zxid {
			t.Fatalf("zxid 0x%x: digest %x, want %x", zxid, got, want)
		}
		built.Close()
	}
}

func onlyLog(t *testing.T, store Store) *Log {
	t.Helper()
	logs, err := List(t.Context(), store)
	if err != nil || len(logs) != 1 {
		t.Fatalf("%d logs, %v; want one", len(logs), err)
	}
	return &logs[0]
}

// memory is a Store in memory with faults. It fails the test if a stored object is to be replaced.
type memory struct {
	mu      sync.Mutex
	objects map[string][]byte
	put     func(name string) error // called before an object is stored; nil: nothing
	after   func(name string) error // called after that
	hide    func(name string) bool  // reports whether a list lacks it, as it was read before; nil: all are there
}

func newMemory() *memory { return &memory{objects: map[string][]byte{}} }

// setFaults replaces the functions that are called before and after an object is stored.
func (m *memory) setFaults(put, after func(name string) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.put, m.after = put, after
}

func (m *memory) Put(ctx context.Context, name string, content []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.put != nil {
		if err := m.put(name); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if _, found := m.objects[name]; found {
		return fmt.Errorf("%s: %w", name, ErrExists)
	}
	m.objects[name] = bytes.Clone(content)
	if m.after != nil {
		return m.after(name)
	}
	return nil
}

func (m *memory) Open(_ context.Context, name string) (io.ReadCloser, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b, found := m.objects[name]
	if !found {
		return nil, fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	}
	return io.NopCloser(bytes.NewReader(b)), nil
}

func (m *memory) List(_ context.Context, dir, after string) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		m.mu.Lock()
		found := map[string]int64{}
		for name, b := range m.objects {
			rest, below := strings.CutPrefix(name, dir)
			if !below || m.hide != nil && m.hide(name) {
				continue
			}
			if first, _, deep := strings.Cut(rest, "/"); deep {
				found[dir+first+"/"] = 0
			} else {
				found[name] = int64(len(b))
			}
		}
		m.mu.Unlock()
		for _, name := range slices.Sorted(func(yield func(string) bool) {
			for name := range found {
				if !yield(name) {
					return
				}
			}
		}) {
			if name > after && !yield(Item{name, found[name]}, nil) {
				return
			}
		}
	}
}

func (m *memory) Location(name string) string { return filepath.Join("memory", name) }

// pastTime has whole seconds, as names of snapshots do.
var pastTime = time.Date(2026, 3, 1, 3, 12, 5, 0, time.UTC)

// failingStore fails to open one object.
type failingStore struct {
	Store
	after int // objects that can be opened before
	err   error
}

func (f *failingStore) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	if f.after--; f.after == -1 {
		return nil, f.err
	}
	return f.Store.Open(ctx, name)
}
