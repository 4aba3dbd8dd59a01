package past_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"rollcall/operator/past"
	"rollcall/operator/past/pasttest"
	"rollcall/proto"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// begin is the first stamp in the tests, 2026-03-01T03:00:00Z.
var begin = time.Date(2026, 3, 1, 3, 0, 0, 0, time.UTC).UnixMilli()

func atMs(ms int64) past.Moment { return past.AtTime(time.UnixMilli(ms)) }

func open(t *testing.T, c past.Chain, m past.Moment) *past.Log {
	t.Helper()
	l, err := past.Open(t.Context(), c, m)
	if err != nil {
		t.Fatalf("%v: %v", m, err)
	}
	t.Cleanup(l.Close)
	return l
}

// recorded is an ensemble with the state after each of its entries.
type recorded struct {
	*pasttest.Ensemble
	zxids   []int64 // after each entry
	stamps  []int64
	digests []uint64
	sizes   []int
}

func (r *recorded) note() {
	r.zxids, r.stamps = append(r.zxids, r.State.Zxid()), append(r.stamps, r.NowMs)
	r.digests, r.sizes = append(r.digests, r.State.Digest()), append(r.sizes, r.State.TreeView().NodeCount())
}

// record writes entries whose clock steps back twice, with a snapshot after some of them.
func record(t *testing.T, snapshotEvery int) *recorded {
	r := &recorded{Ensemble: pasttest.New(t, begin)}
	c := r.Connect("10.0.0.7:1")
	r.note()
	for i := range 40 {
		switch r.NowMs += 10; i {
		case 10, 25:
			r.NowMs -= 75
		case 17:
			r.StartTerm()
		}
		c.Create(fmt.Sprintf("/n%02d", i), "x", 0)
		r.note()
		if snapshotEvery > 0 && i%snapshotEvery == 0 {
			r.Snapshot()
		}
	}
	return r
}

// A state at a zxid or a time is the one that the members had, from whichever snapshot it was built. Clocks step back, so that
// a time finds the state before the first entry with a later stamp.
func TestOpen(t *testing.T) {
	for _, every := range []int{0, 1, 7} {
		r := record(t, every)
		for i, zxid := range r.zxids {
			l := open(t, r, past.AtZxid(zxid))
			if l.Point().Zxid != zxid || l.State().Digest() != r.digests[i] {
				t.Errorf("every %d: at 0x%x: %v", every, zxid, l.Point())
			}
		}
		for ms := begin; ms < begin+400; ms += 5 {
			last := slices.IndexFunc(r.stamps, func(stamp int64) bool { return stamp > ms }) - 1
			if last < -1 {
				last = len(r.stamps) - 1
			}
			if l := open(t, r, atMs(ms)); l.Point().Zxid != r.zxids[last] || l.State().TreeView().NodeCount() != r.sizes[last] {
				t.Errorf("every %d: at %d ms: %v, want zxid 0x%x", every, ms-begin, l.Point(), r.zxids[last])
			}
		}
		if l := open(t, r, past.Moment{}); l.State().Digest() != r.State.Digest() {
			t.Errorf("every %d: the newest state is at %v", every, l.Point())
		}
	}
}

// A zxid within an entry gives the state after its transaction, and Advance continues there.
func TestWithinAnEntry(t *testing.T) {
	e := pasttest.New(t, begin)
	c := e.Connect("10.0.0.7:1")
	c.Create("/a", "", 0)
	first := e.State.Zxid()
	e.Apply(c.SetTxn("/a", "1"), c.SetTxn("/a", "12"), c.SetTxn("/a", "123"), c.SetTxn("/a", "1234"))
	l := open(t, e, past.AtZxid(first+1))
	for n := 1; n <= 4; n++ {
		changes := 0
		err := l.Advance(past.AtZxid(first+int64(n)), func(*znode.Change) error { changes++; return nil })
		if err != nil || (n > 1) != (changes == 1) {
			t.Fatalf("%d: %d changes, %v", n, changes, err)
		}
		data, stat, code := l.State().TreeView().GetData([]byte("/a"), nil)
		if code != jute.OK || len(data) != n || stat.Version != int32(n) || l.Point().Zxid != first+int64(n) {
			t.Errorf("%d: %q %+v %v at %v", n, data, stat, code, l.Point())
		}
	}
	if l.State().Digest() != e.State.Digest() {
		t.Error("after all parts of the entry, the digest is another one")
	}
}

// A moment that cannot be built is rejected, with the moments that can.
func TestMomentsOutside(t *testing.T) {
	r := record(t, 0)
	r.Snapshot()
	middle := r.Kept[0]
	r.NowMs += 1000
	r.StartTerm()
	last := r.Connect("10.0.0.8:1")
	last.Create("/z", "", 0)
	for _, tt := range []struct {
		name string
		drop bool
		m    past.Moment
		want error
		text string
	}{
		{"a time before the first entry", false, atMs(begin - 1), past.ErrTooEarly, "the first entry of the ensemble is of 2026-03-01T03:00:00.000Z"},
		{"a zxid after the last", false, past.AtZxid(r.State.Zxid() + 1), past.ErrTooLate, fmt.Sprintf("newest moment that can be built is zxid 0x%x", r.State.Zxid())},
		{"a zxid between two terms", false, past.AtZxid(2<<32 + 99), past.ErrNeverGiven, "the next one in the log is zxid 0x300000000"},
		{"a time before the snapshot", true, atMs(begin + 20), past.ErrTooEarly, "oldest moment that can be built is zxid 0x2"},
		{"a zxid before the snapshot", true, past.AtZxid(1<<32 + 3), past.ErrTooEarly, "oldest moment that can be built is zxid 0x2"},
	} {
		if tt.drop {
			r.Kept = []past.Snapshot{middle}
			r.First = middle.Index + 1
		}
		if _, err := past.Open(t.Context(), r, tt.m); !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	if l := open(t, r, past.AtZxid(2<<32+22)); l.Point().Index != middle.Index {
		t.Errorf("at the zxid of the oldest snapshot: %v", l.Point())
	}
	l := open(t, r, past.Moment{})
	for _, m := range []past.Moment{past.AtZxid(2<<32 + 5), atMs(begin + 300)} {
		if err := l.Advance(m, nil); !errors.Is(err, past.ErrTooEarly) {
			t.Errorf("back to %v: %v", m, err)
		}
	}
	r.Kept = nil
	if _, err := past.Open(t.Context(), r, atMs(begin+300)); !errors.Is(err, past.ErrDamaged) ||
		!strings.Contains(err.Error(), "begins with entry") {
		t.Errorf("without a snapshot: %v", err)
	}
}

// A damaged chain is named: a gap, an entry that cannot be read, and a snapshot that is not what the entries before it give.
func TestDamage(t *testing.T) {
	for _, tt := range []struct {
		name   string
		damage func(r *recorded)
		text   string
	}{
		{"a gap", func(r *recorded) { r.Log = slices.Delete(r.Log, 20, 21) }, "entry 22 follows entry 20"},
		{"an entry of other bytes", func(r *recorded) { r.Log[20].Data = []byte{0xff} }, "entry 21 cannot be read"},
		{"a snapshot of another state", func(r *recorded) {
			other := pasttest.New(t, begin)
			c := other.Connect("10.0.0.7:1")
			for other.State.Index() < r.Kept[2].Index {
				c.Create(fmt.Sprintf("/n%d", other.State.Index()), "y", 0)
			}
			other.Snapshot()
			r.Images[r.Kept[2].Name] = other.Images[other.Kept[0].Name]
		}, "is not what the members had"},
		{"an entry that differs", func(r *recorded) { r.Log[15].Data = slices.Clone(r.Log[14].Data) }, "is not what the members had"},
	} {
		r := record(t, 7)
		tt.damage(r)
		l, err := past.OpenOldest(t.Context(), r)
		if err == nil {
			err = l.Advance(past.Moment{}, nil)
			l.Close()
		}
		if !errors.Is(err, past.ErrDamaged) || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// Advance reports the changes between two moments, in order, and each once. It waits at the end of a chain that follows a
// running ensemble, and ends with its context.
func TestAdvance(t *testing.T) {
	e := pasttest.New(t, begin)
	c := e.Connect("10.0.0.7:1")
	from := c.Create("/a", "", 0)
	c.Create("/a/e", "", jute.Ephemeral)
	e.NowMs += 1000
	c.Close()
	var got []string
	note := func(c *znode.Change) error {
		got = append(got, fmt.Sprintf("%x.%d %d %s", c.Zxid, c.TxnPart, c.Kind, c.Path))
		return nil
	}
	l := open(t, e, past.AtZxid(from))
	ctx, stop := context.WithCancel(t.Context())
	if err := l.Advance(past.Moment{}, note); err != nil {
		t.Fatal(err)
	}
	want := []string{"100000002.1 1 /a/e", "100000003.1 6 ", "100000003.2 2 /a/e"}
	if !slices.Equal(got, want) {
		t.Errorf("changes %q, want %q", got, want)
	}
	waits := 0
	e.Follow = func(ctx context.Context) error {
		if waits++; waits == 3 {
			stop()
			return ctx.Err()
		}
		e.Connect("10.0.0.8:1")
		return nil
	}
	followed, err := past.Open(ctx, e, atMs(begin))
	if err != nil {
		t.Fatal(err)
	}
	defer followed.Close()
	got = nil
	if err := followed.Advance(past.Moment{}, note); !errors.Is(err, context.Canceled) {
		t.Errorf("a followed chain ends with %v", err)
	}
	if want := append(want[1:], "100000004.1 5 ", "100000005.1 5 "); !slices.Equal(got, want) {
		t.Errorf("followed changes %q, want %q", got, want)
	}
	full := errors.New("no room")
	if err := open(t, e0(e), past.AtZxid(from)).Advance(past.Moment{}, func(*znode.Change) error { return full }); !errors.Is(err, full) {
		t.Errorf("a reader that fails: %v", err)
	}
}

// e0 returns e without Follow.
func e0(e *pasttest.Ensemble) *pasttest.Ensemble {
	e.Follow = nil
	return e
}

// An entry of a deposed leader changes nothing, but its stamp counts, as it does for snapshots.
func TestIgnoredEntry(t *testing.T) {
	e := pasttest.New(t, begin)
	e.Append(&proto.Entry{Format: znode.FormatLevel, Term: 9, Nonce: 9, TimeMs: begin + 500})
	e.NowMs += 10
	zxid := e.Connect("10.0.0.7:1")
	_ = zxid
	if l := open(t, e, atMs(begin+100)); l.Point().Index != 3 {
		t.Errorf("%v", l.Point())
	}
	e.Snapshot()
	if l := open(t, e, atMs(begin+100)); l.Point().Index != 3 {
		t.Errorf("with a snapshot: %v", l.Point())
	}
}
