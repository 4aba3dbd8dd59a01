package served

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/operator/logs/logtest"
	"rollcall/operator/past"
	"rollcall/operator/past/pasttest"
	"rollcall/proto"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// begin is the first stamp, 2026-03-01T03:00:00Z.
var begin = time.Date(2026, 3, 1, 3, 0, 0, 0, time.UTC).UnixMilli()

// fakeMember has a log, and a state that applies what is in it. It is a Log.
type fakeMember struct {
	*pasttest.Ensemble
	t      *testing.T
	state  *znode.State
	server *Server

	mu      sync.Mutex
	last    uint64        // LastIndex; 0: that of the state
	opened  int           // snapshots that were read to their end
	present int           // that are open now
	most    int           // of present, so far
	work    time.Duration // that reading a part of a snapshot takes
	atHalf  func()        // is called when half of a snapshot was read; may be nil
}

func newFakeMember(t *testing.T) *fakeMember {
	m := &fakeMember{Ensemble: pasttest.New(t, begin), t: t}
	m.restart()
	return m
}

// restart begins a process of the member, with what is in the log.
func (m *fakeMember) restart() {
	m.state = znode.New(znode.Config{})
	m.server = New(m, m.state, slog.New(slog.DiscardHandler))
	m.apply()
}

// apply applies the entries of the log that the member has not applied.
func (m *fakeMember) apply() {
	m.t.Helper()
	m.state.Lock()
	defer m.state.Unlock()
	for _, e := range m.Log[m.state.Index():] {
		var content *proto.Entry
		if e.Data != nil {
			var err error
			if content, err = proto.UnmarshalEntry(slices.Clone(e.Data)); err != nil {
				m.t.Fatal(err)
			}
		}
		if err := m.state.ApplyEntry(e.Index, e.Term, content); err != nil {
			m.t.Fatal(err)
		}
	}
}

// Chains implements Log.
func (m *fakeMember) Chains(follow bool) ([]past.Chain, error) {
	e := *m.Ensemble
	e.Log = slices.Clone(e.Log)
	if follow {
		e.Follow = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	}
	return []past.Chain{&fakeChain{&e, m}}, nil
}

// LastIndex implements Log.
func (m *fakeMember) LastIndex() (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.last != 0 {
		return m.last, nil
	}
	m.state.RLock()
	defer m.state.RUnlock()
	return m.state.Index(), nil
}

// holdDisk makes an entry the last one on the disk; 0: the last one that was applied.
func (m *fakeMember) holdDisk(last uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last = last
}

// feedSize reports whether the feed observes the state, and returns the number and the bytes of the changes that it
// keeps.
func (m *fakeMember) feedSize() (attached bool, changes, bytes int) {
	f := m.server.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.attached, f.kept.Len(), f.bytes
}

// fakeChain counts the snapshots that are read to their end.
type fakeChain struct {
	*pasttest.Ensemble
	m *fakeMember
}

// OpenSnapshot implements past.Chain.
func (c *fakeChain) OpenSnapshot(_ context.Context, s past.Snapshot) (io.ReadCloser, error) {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	c.m.present++
	c.m.most = max(c.m.most, c.m.present)
	return &fakeImage{c.m, len(c.Images[s.Name]) / 2, c.Images[s.Name]}, nil
}

type fakeImage struct {
	m    *fakeMember
	half int
	rest []byte
}

func (f *fakeImage) Read(p []byte) (int, error) {
	time.Sleep(f.m.work)
	if len(f.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, f.rest[:min(len(f.rest), 64)])
	if len(f.rest) > f.half && len(f.rest)-n <= f.half && f.m.atHalf != nil {
		f.m.atHalf()
	}
	if f.rest = f.rest[n:]; len(f.rest) == 0 {
		f.m.mu.Lock()
		defer f.m.mu.Unlock()
		f.m.opened++
	}
	return n, nil
}

func (f *fakeImage) Close() error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	f.m.present--
	return nil
}

// collector is a Sink that keeps what it receives as texts.
type collector struct {
	mu     sync.Mutex
	rows   []string
	passed []int64
	limit  int // of rows; then it fails; 0: none
	delay  time.Duration
}

var errFull = errors.New("the sink is full")

func textOf(c *znode.Change) string {
	return fmt.Sprintf("%x.%d %d %s", c.Zxid, c.TxnPart, c.Kind, c.Path)
}

// Change implements Sink.
func (s *collector) Change(c *znode.Change) error {
	time.Sleep(s.delay)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.limit > 0 && len(s.rows) == s.limit {
		return errFull
	}
	s.rows = append(s.rows, textOf(c))
	return nil
}

// Passed implements Sink.
func (s *collector) Passed(zxid int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.passed = append(s.passed, zxid)
	return nil
}

// Flush implements Sink.
func (s *collector) Flush() error { return nil }

func (s *collector) received() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.rows)
}

// allChanges returns all changes of the log, as a state that applies it reports them.
func (m *fakeMember) allChanges() (all []string, at []position) {
	m.t.Helper()
	l, err := past.OpenOldest(m.t.Context(), m.Ensemble)
	if err != nil {
		m.t.Fatal(err)
	}
	defer l.Close()
	if err := l.Advance(past.Moment{}, func(c *znode.Change) error {
		all, at = append(all, textOf(c)), append(at, positionOf(c))
		return nil
	}); err != nil {
		m.t.Fatal(err)
	}
	return all, at
}

// nightOf writes a small log with entries and transactions of several changes, and snapshots.
func nightOf(m *fakeMember) {
	c := m.Connect("10.0.0.7:1")
	c.Create("/a", "", 0)
	m.Snapshot()
	for i := range 5 {
		c.Create(fmt.Sprintf("/a/e%d", i), "", jute.Ephemeral)
	}
	d := m.Connect("10.0.0.8:2")
	m.Apply(d.CreateTxn("/b", "", 0), d.SetTxn("/b", "x"), d.SetTxn("/a", "y"))
	c.Close() // with five nodes in the transaction
	m.Snapshot()
	d.Set("/b", "z")
	m.StartTerm()
	d.Create("/c", "", 0)
	m.apply()
}

// A list continues after any change of any transaction, without loss or repetition: of the past, of the feed, and in a later process
// of the member.
func TestChangesContinueAnywhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newFakeMember(t)
		nightOf(m)
		want, at := m.allChanges()
		list := func(q Query, most int) ([]string, error) {
			t.Helper()
			to := &collector{limit: most}
			err := m.server.Changes(t.Context(), q, to)
			end, ends := q.To.Zxid()
			if !ends {
				end = m.state.Zxid()
			}
			if err == nil && !slices.Equal(to.passed, []int64{end}) {
				t.Errorf("%+v: passed %x", q, to.passed)
			}
			return to.rows, err
		}
		check := func(where string) {
			t.Helper()
			if got, err := list(Query{}, 0); err != nil || !slices.Equal(got, want) {
				t.Fatalf("%s: %v, %q, want %q", where, err, got, want)
			}
			for i, p := range at {
				first, err := list(Query{}, i+1)
				if i+1 < len(want) && !errors.Is(err, errFull) {
					t.Fatalf("%s: cut after %d: %v", where, i+1, err)
				}
				rest, err := list(Query{From: past.AtZxid(p.zxid), AfterNumber: p.number}, 0)
				if got := append(first, rest...); err != nil || !slices.Equal(got, want) {
					t.Errorf("%s: continued after %+v: %v, %q, want %q", where, p, err, got, want)
				}
				whole := slices.IndexFunc(at, func(q position) bool { return q.zxid > p.zxid })
				if whole < 0 {
					whole = len(at)
				}
				if got, err := list(Query{From: past.AtZxid(p.zxid)}, 0); err != nil || !slices.Equal(got, want[whole:]) {
					t.Errorf("%s: after zxid %x: %v, %q, want %q", where, p.zxid, err, got, want[whole:])
				}
				if got, err := list(Query{To: past.AtZxid(p.zxid)}, 0); err != nil || !slices.Equal(got, want[:whole]) {
					t.Errorf("%s: to zxid %x: %v, %q, want %q", where, p.zxid, err, got, want[:whole])
				}
			}
		}
		check("first process")
		m.restart()
		m.Connect("10.0.0.9:1").Create("/late", "", 0)
		m.apply()
		want, at = m.allChanges()
		check("second process")
		m.Connect("10.0.0.9:1").Create("/later", "", 0) // in the feed
		m.apply()
		want, at = m.allChanges()
		check("with a feed")
	})
}

// If the oldest snapshot is after a transaction, its last changes are not known, and a list that ended within it does not continue. The
// changes after it are known.
func TestTransactionBeforeTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newFakeMember(t)
		nightOf(m)
		m.First, m.Kept = m.Kept[1].Index+1, m.Kept[1:]
		end := past.AtZxid(1<<32 | 11) // of the session with five nodes
		if err := m.server.Changes(t.Context(), Query{From: end, AfterNumber: 2}, &collector{}); !errors.Is(err, past.ErrTooEarly) {
			t.Errorf("within it: %v", err)
		}
		to := &collector{}
		if err := m.server.Changes(t.Context(), Query{From: end}, to); err != nil || len(to.rows) != 2 {
			t.Errorf("after it: %v, %q", err, to.rows)
		}
	})
}

// A list from before the first entry of the ensemble begins with that, if the log goes back to it.
func TestChangesFromBeforeTheEnsemble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newFakeMember(t)
		nightOf(m)
		want, _ := m.allChanges()
		before, to := past.AtTime(time.UnixMilli(begin-1)), &collector{}
		if err := m.server.Changes(t.Context(), Query{From: before}, to); err != nil || !slices.Equal(to.rows, want) {
			t.Errorf("%v, %q, want %q", err, to.rows, want)
		}
		m.First, m.Kept = m.Kept[1].Index+1, m.Kept[1:]
		if err := m.server.Changes(t.Context(), Query{From: before}, to); !errors.Is(err, past.ErrTooEarly) {
			t.Errorf("a log that begins later: %v", err)
		}
	})
}

// A list that follows the log gets each change once: the past ones, the ones that arrive while the state is built, and
// new ones. Without a moment in the request it begins with new changes, and builds no state.
func TestChangesFollow(t *testing.T) {
	for _, from := range []int64{0, 1 << 32, 1<<32 | 4} {
		synctest.Test(t, func(t *testing.T) {
			m := newFakeMember(t)
			nightOf(m)
			old, at := m.allChanges()
			m.work = 100 * time.Millisecond // for the snapshot, so that changes come meanwhile
			q, skip := Query{Follow: true}, len(old)
			if from != 0 {
				q.From = past.AtZxid(from)
				skip = slices.IndexFunc(at, func(p position) bool { return p.zxid > from })
			}
			ctx, stop := context.WithCancel(t.Context())
			to, ended := &collector{}, make(chan error, 1)
			go func() { ended <- m.server.Changes(ctx, q, to) }()
			synctest.Wait()
			c := m.Connect("10.0.0.1:1")
			m.apply()
			time.Sleep(time.Minute)
			c.Create("/new", "", 0)
			m.apply()
			time.Sleep(2 * passedInterval)
			want, _ := m.allChanges()
			if got := to.received(); !slices.Equal(got, want[skip:]) {
				t.Errorf("from %x: %q, want %q", from, got, want[skip:])
			}
			stop()
			if err := <-ended; err != nil {
				t.Errorf("at the end: %v", err)
			}
			if n := len(to.passed); n < 1 || to.passed[n-1] != m.state.Zxid() {
				t.Errorf("from %x: passed %x", from, to.passed)
			}
			if (m.opened > 0) != (from == 1<<32|4) { // the first one is before all snapshots
				t.Errorf("from %x: %d snapshots were read", from, m.opened)
			}
		})
	}
}

// Changes are sent once their entry is on the member's disk.
func TestChangesAreDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newFakeMember(t)
		nightOf(m)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		to := &collector{}
		go func() { _ = m.server.Changes(ctx, Query{Follow: true}, to) }()
		synctest.Wait()
		m.holdDisk(m.state.Index())
		m.Connect("10.0.0.1:1")
		m.apply()
		if time.Sleep(time.Minute); len(to.received()) != 0 {
			t.Errorf("%q before the entry is on the disk", to.received())
		}
		m.holdDisk(0)
		if time.Sleep(time.Second); len(to.received()) != 1 {
			t.Errorf("%q after that", to.received())
		}
	})
}

// The feed is bounded. A reader that is behind its beginning is dropped, and may continue with a state of the past.
func TestSlowReaderIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newFakeMember(t)
		nightOf(m)
		ctx, stop := context.WithTimeout(t.Context(), 24*time.Hour)
		defer stop()
		to, ended := &collector{delay: time.Hour}, make(chan error, 1)
		go func() { ended <- m.server.Changes(ctx, Query{Follow: true}, to) }()
		synctest.Wait()
		c := m.Connect("10.0.0.1:1")
		m.apply()
		time.Sleep(time.Second) // it has the first one in hand
		path := "/" + strings.Repeat("x", 1<<16)
		for range maxFeedBytes/len(path) + 1 {
			c.Create(path, "", 0)
			c.Delete(path)
		}
		m.apply()
		if _, changes, bytes := m.feedSize(); bytes > maxFeedBytes || changes < 100 {
			t.Errorf("the feed has %d bytes of %d changes", bytes, changes)
		}
		if err := <-ended; !errors.Is(err, ErrTooSlow) || len(to.rows) != 1 {
			t.Errorf("%v after %d changes", err, len(to.rows))
		}
		rest := &collector{}
		if err := m.server.Changes(t.Context(), Query{From: past.AtZxid(m.state.Zxid() - 200)}, rest); err != nil || len(rest.rows) != 200 {
			t.Errorf("continued: %v, %d changes", err, len(rest.rows))
		}
	})
}

// A snapshot that replaces the member's state ends the lists that follow: changes are missing.
func TestReplacedStateEndsLists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newFakeMember(t)
		nightOf(m)
		ctx, stop := context.WithTimeout(t.Context(), time.Hour)
		defer stop()
		ended := make(chan error, 1)
		go func() { ended <- m.server.Changes(ctx, Query{Follow: true}, &collector{}) }()
		synctest.Wait()
		m.Connect("10.0.0.1:1")
		m.Snapshot()
		if err := m.state.RestoreSnapshot(strings.NewReader(string(m.Images[m.Kept[len(m.Kept)-1].Name]))); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; !errors.Is(err, ErrTooSlow) {
			t.Errorf("%v", err)
		}
	})
}

// After the last list the feed keeps what comes for a while, for readers that return, and then nothing.
func TestFeedIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newFakeMember(t)
		nightOf(m)
		begin := past.AtZxid(m.state.Zxid())
		list := func() int {
			t.Helper()
			m.opened = 0
			to := &collector{}
			if err := m.server.Changes(t.Context(), Query{From: begin}, to); err != nil {
				t.Fatal(err)
			}
			return len(to.rows)
		}
		if n := list(); n != 0 || m.opened != 0 {
			t.Errorf("%d new changes, %d snapshots read", n, m.opened)
		}
		m.Connect("10.0.0.1:1")
		m.apply()
		time.Sleep(keepTime - time.Second)
		if n := list(); n != 1 || m.opened != 0 {
			t.Errorf("%d changes from the feed, %d snapshots read", n, m.opened)
		}
		time.Sleep(keepTime - time.Second)
		ctx, stop := context.WithTimeout(t.Context(), 2*time.Second) // when the feed would be given back
		defer stop()
		if err := m.server.Changes(ctx, Query{Follow: true}, &collector{}); err != nil {
			t.Error(err)
		}
		if attached, _, _ := m.feedSize(); !attached {
			t.Error("the feed is given back while there is a list, or before its time")
		}
		time.Sleep(keepTime + time.Second)
		if attached, changes, bytes := m.feedSize(); attached || changes != 0 || bytes != 0 {
			t.Error("the feed is not given back")
		}
		if n := list(); n != 1 || m.opened != 1 {
			t.Errorf("%d changes from the past, %d snapshots read", n, m.opened)
		}
	})
}

// Of a hundred readers from the oldest zxid, MaxStreams are served, and one state is built at a time. The others, and those whose turn
// does not come, are rejected. A place that comes free is given again.
func TestHundredReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newFakeMember(t)
		nightOf(m)
		m.First, m.work = m.Kept[0].Index+1, time.Second // a state takes some seconds
		from := past.AtZxid(1<<32 | 1)
		want, _ := m.allChanges()
		results := make(chan error, 100)
		for range 100 {
			go func() {
				to := &collector{}
				err := m.server.Changes(t.Context(), Query{From: from}, to)
				if err == nil && !slices.Equal(to.rows, want) {
					err = fmt.Errorf("%q, want %q", to.rows, want)
				}
				results <- err
			}()
		}
		synctest.Wait()
		if n := len(results); n != 100-MaxStreams {
			t.Errorf("%d are rejected at once", n)
		}
		served, busy := 0, 0
		for range 100 {
			switch err := <-results; {
			case err == nil:
				served++
			case errors.Is(err, ErrBusy):
				busy++
			default:
				t.Error(err)
			}
		}
		if served < 1 || served+busy != 100 || m.most != 1 {
			t.Errorf("%d were served and %d rejected; %d states were built at once", served, busy, m.most)
		}
		if err := m.server.Changes(t.Context(), Query{From: from}, &collector{}); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	})
}

// A caller that leaves ends the work for it, and frees its turn.
func TestCancelledBuild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newFakeMember(t)
		nightOf(m)
		m.First, m.Kept, m.work = m.Kept[0].Index+1, m.Kept[:1], time.Second
		for name, call := range map[string]func(ctx context.Context) error{
			"changes": func(ctx context.Context) error {
				return m.server.Changes(ctx, Query{From: past.AtZxid(1<<32 | 2)}, &collector{})
			},
			"at": func(ctx context.Context) error {
				return m.server.At(ctx, past.AtZxid(1<<32|2), func(*znode.State, past.Point) error { return nil })
			},
		} {
			m.opened = 0
			reads := 0 // of heads, and at last of the whole snapshot
			m.atHalf = func() { reads++ }
			if err := call(t.Context()); err != nil {
				t.Fatal(err)
			}
			m.restart()
			ctx, leave := context.WithCancel(t.Context())
			last, whole := reads, m.opened
			reads, m.opened = 0, 0
			m.atHalf = func() {
				if reads++; reads == last {
					leave()
				}
			}
			if err := call(ctx); !errors.Is(err, context.Canceled) || m.opened >= whole {
				t.Errorf("%s: %v, and %d of %d snapshots were read to their end", name, err, m.opened, whole)
			}
			m.atHalf = nil
			leave()
			if err := call(t.Context()); err != nil {
				t.Errorf("%s: the next one: %v", name, err)
			}
		}
	})
}

// A state that is too large is not built, whether its snapshot is large or it grows while it is built.
func TestLargeStatesAreRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newFakeMember(t)
		nightOf(m)
		at := func() error {
			return m.server.At(t.Context(), past.AtZxid(m.state.Zxid()), func(*znode.State, past.Point) error { return nil })
		}
		m.Kept[1].Bytes = maxImageBytes + 1
		if err := at(); !errors.Is(err, past.ErrTooLarge) || m.opened != 0 {
			t.Errorf("a large snapshot: %v, %d were read", err, m.opened)
		}
		m.Kept = m.Kept[:1]
		c, data := m.Connect("10.0.0.1:1"), strings.Repeat("d", 1<<20)
		for i := range maxImageBytes >> 20 {
			c.Create(fmt.Sprintf("/large-%d", i), data, 0)
		}
		m.apply()
		if err := at(); !errors.Is(err, past.ErrTooLarge) || m.server.kept.log != nil {
			t.Errorf("a state that grows: %v", err)
		}
		err := m.server.Changes(t.Context(), Query{}, &collector{})
		if !errors.Is(err, past.ErrTooLarge) {
			t.Errorf("changes: %v", err)
		}
	})
}

// A state that was built is moved on for the next caller, and is given back when no caller has come for a while.
func TestAtKeepsOneState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newFakeMember(t)
		nightOf(m)
		m.First, m.Kept = m.Kept[0].Index+1, m.Kept[:1]
		var built *znode.State
		at := func(zxid int64) (same bool) {
			t.Helper()
			err := m.server.At(t.Context(), past.AtZxid(zxid), func(s *znode.State, p past.Point) error {
				if p.Zxid != zxid || s.Zxid() != zxid {
					t.Errorf("at %x: %v", zxid, p)
				}
				same, built = s == built, s
				return nil
			})
			if err != nil {
				t.Fatalf("at %x: %v", zxid, err)
			}
			return same
		}
		for i, step := range []struct {
			zxid int64
			same bool
		}{{1<<32 | 3, false}, {1<<32 | 5, true}, {1<<32 | 5, true}, {1<<32 | 8, true}, {1<<32 | 9, true}, {1<<32 | 4, false}} {
			if same := at(step.zxid); same != step.same {
				t.Errorf("step %d: the same state: %t", i, same)
			}
		}
		m.Connect("10.0.0.1:1") // after the chain of the kept state
		m.apply()
		if !at(m.state.Zxid()) {
			t.Error("a new entry needs a new state")
		}
		m.Connect("10.0.0.1:2")
		m.Snapshot()
		m.Connect("10.0.0.1:3")
		m.apply()
		if at(m.state.Zxid()) {
			t.Error("a newer snapshot is not used")
		}
		time.Sleep(keepTime - time.Second)
		if !at(m.state.Zxid()) {
			t.Error("it was given back too early")
		}
		time.Sleep(keepTime + time.Second)
		m.server.turn <- struct{}{}
		if m.server.kept.log != nil {
			t.Error("it was not given back")
		}
	})
}

// The work for a state leaves three quarters of a processor's time to others.
func TestPacer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, begun := pacer{ctx: t.Context()}, time.Now()
		const work = 10 * workTime
		for range work / time.Millisecond {
			if err := p.rest(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
		}
		if share := float64(work) / float64(time.Since(begun)); share > 0.3 {
			t.Errorf("%.0f %% of the time is work", 100*share)
		}
	})
}

// A member whose snapshot is damaged builds the state from an older one, and logs that.
func TestDamagedSnapshotIsLogged(t *testing.T) {
	m := newFakeMember(t)
	c := m.Connect("10.0.0.7:1")
	m.Snapshot()
	wanted := c.Create("/a", "", 0)
	digest := m.State.Digest()
	c.Create("/b", "", 0)
	m.apply()
	image := m.Images[m.Kept[0].Name]
	image[len(image)-1] ^= 1
	lines := new(logtest.Buffer)
	m.server.logger = slog.New(slog.NewTextHandler(lines, nil))
	for range 2 {
		err := m.server.At(t.Context(), past.AtZxid(wanted), func(s *znode.State, _ past.Point) error {
			if s.Digest() != digest {
				t.Error("the state is another one")
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := m.server.Changes(t.Context(), Query{From: past.AtZxid(wanted)}, &collector{}); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(lines.String(), m.Kept[0].Name); n != 2 { // for each state that was built
		t.Errorf("%d lines, want 2:\n%s", n, lines)
	}
}
