package znode

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"rollcall/proto"
	"rollcall/zk/jute"
)

// comeback is a connection whose events are recorded with their zxids. While it has a replay, they go there.
type comeback struct {
	w      *world
	ids    []*proto.Identity
	replay *Replay
	events []comebackEvent
}

type comebackEvent struct {
	event jute.EventType
	path  string
	zxid  int64
}

func (e comebackEvent) String() string {
	return fmt.Sprintf("%s(%s) %#x", names[e.event], e.path, e.zxid)
}

func (c *comeback) QueueEvent(t jute.EventType, path string, zxid int64) {
	if c.replay != nil {
		c.replay.QueueLive(t, path, zxid)
		return
	}
	c.events = append(c.events, comebackEvent{t, path, zxid})
}

func (c *comeback) Identities() []*proto.Identity { return c.ids }
func (*comeback) AdjustWatchMemory(int)           {}

// begin begins a replay of the changes after a zxid.
func (c *comeback) begin(after int64, persistent, recursive []string) ReplayStart {
	s := c.w.s()
	s.RLock()
	defer s.RUnlock()
	r, start := BeginReplay(s, after, c)
	c.replay = r
	set := func(path string, mode jute.AddWatchMode) {
		_ = s.AddWatch([]byte(path), mode, c)
		if r != nil {
			r.AddWatch([]byte(path), mode)
		}
	}
	for _, path := range persistent {
		set(path, jute.AddWatchPersistent)
	}
	for _, path := range recursive {
		set(path, jute.AddWatchPersistentRecursive)
	}
	return start
}

// step makes the three calls of a replay, and sends at most room events.
func (c *comeback) step(room int, between func()) (ended bool) {
	s := c.w.s()
	under := func(do func() error) error {
		s.RLock()
		defer s.RUnlock()
		return do()
	}
	err := under(func() error { return c.replay.Extend() })
	if err == nil {
		between()
		c.replay.Match()
		between()
		err = under(func() (err error) {
			ended, err = c.replay.Send(func(t jute.EventType, path string, zxid int64) bool {
				c.events = append(c.events, comebackEvent{t, path, zxid})
				room--
				return room > 0
			})
			if ended {
				c.replay = nil
			}
			return err
		})
	}
	if err != nil {
		c.w.t.Fatal(err)
	}
	return ended
}

func (c *comeback) finish() {
	for !c.step(1<<30, func() {}) {
	}
}

func (c *comeback) want(t testing.TB, want ...string) {
	t.Helper()
	got := []string{}
	for _, e := range c.events {
		got = append(got, strings.Fields(e.String())[0])
	}
	if c.events = nil; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestReplay checks which watch misses which events.
func TestReplay(t *testing.T) {
	w := newWorldWithHistory(t, 1<<20)
	k := w.connect()
	k.must(k.create("/a", 0))
	k.must(k.create("/a/old", 0))
	before := w.s().Zxid()
	k.must(k.create("/a/b", 0))
	k.must(k.create("/a/b/c", 0))
	k.must(k.setData("/a", "1", -1))
	k.must(k.setData("/a/b", "1", -1))
	k.must(k.setACL("/a", jute.OpenACL, -1))
	k.must(k.delete("/a/b/c", -1))
	k.must(k.delete("/a/old", -1))
	k.multi(mk("/a/m", 0), put("/a/m", -1), rm("/a/m", -1))
	k.multi(mk("/a/fails", 0), check("/nobody", -1))
	k.must(k.create("/ab", 0))
	for _, tt := range []struct {
		name                  string
		persistent, recursive []string
		want                  string
	}{
		{"persistent", []string{"/a"}, nil, "Children(/a) Changed(/a) Children(/a) Children(/a) Children(/a)"},
		{"persistent on a leaf that is gone", []string{"/a/old"}, nil, "Deleted(/a/old)"},
		{"persistent on no node", []string{"/none"}, nil, ""},
		{"persistent, created and deleted meanwhile", []string{"/a/m"}, nil, "Created(/a/m) Changed(/a/m) Deleted(/a/m)"},
		{
			"recursive", nil, []string{"/a"}, "Created(/a/b) Created(/a/b/c) Changed(/a) Changed(/a/b) Deleted(/a/b/c) Deleted(/a/old) " +
				"Created(/a/m) Changed(/a/m) Deleted(/a/m)",
		},
		{"recursive on the root", nil, []string{"/"}, "Created(/a/b) Created(/a/b/c) Changed(/a) Changed(/a/b) Deleted(/a/b/c) Deleted(/a/old) " +
			"Created(/a/m) Changed(/a/m) Deleted(/a/m) Created(/ab)"},
		{"persistent on the root", []string{"/"}, nil, "Children(/)"},
		{"both", []string{"/a/b"}, []string{"/a/b/c"}, "Created(/a/b) Created(/a/b/c) Children(/a/b) Changed(/a/b) Deleted(/a/b/c) Children(/a/b)"},
		{"a name that begins the same", nil, []string{"/ab"}, "Created(/ab)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := &comeback{w: w}
			if start := c.begin(before, tt.persistent, tt.recursive); start != ReplayBegun {
				t.Fatalf("start %d", start)
			}
			c.finish()
			c.want(t, strings.Fields(tt.want)...)
		})
	}
}

// A zxid that the history does not reach gets no replay.
func TestReplayStarts(t *testing.T) {
	w := newWorldWithHistory(t, MinChangeHistory)
	k := w.connect()
	begins := func(after int64) ReplayStart { return (&comeback{w: w}).begin(after, []string{"/"}, nil) }
	for _, tt := range []struct {
		after int64
		want  ReplayStart
	}{
		{1, ReplayBegun},
		{w.s().Zxid(), ReplayBegun},
		{w.s().Zxid() + 1, ReplayAhead},
		{1 << 62, ReplayAhead},
		{0, ReplayNone},
		{-1, ReplayNone},
		{-1 << 63, ReplayNone},
	} {
		if got := begins(tt.after); got != tt.want {
			t.Errorf("after %#x: %d, want %d", tt.after, got, tt.want)
		}
	}
	for i := range 10_000 {
		k.must(k.create(fmt.Sprint("/", strings.Repeat("long", 10), i), 0))
	}
	since := w.s().watches.history.since
	if begins(1) != ReplayTooOld || begins(since-1) != ReplayTooOld || begins(since) != ReplayBegun {
		t.Errorf("all after %#x are kept", since)
	}
	w = newWorld(t)
	if got := begins(1); got != ReplayNone {
		t.Errorf("without a history: %d", got)
	}
}

// An event is replayed to a client that might have seen it then, and may read the node now if that exists.
func TestReplayPermissions(t *testing.T) {
	secret := append(aclOf(31, "auth", ""), aclOf(31&^jute.PermRead, "world", "anyone")...)
	owner := func(w *world) *client { return w.connect().auth("digest", "u:p") }
	for _, tt := range []struct {
		name string
		do   func(k *client)
		want string // for a stranger; the owner sees all
		all  string
	}{
		{"open", func(k *client) { k.must(k.create("/n", 0)); k.must(k.setData("/n", "1", -1)) }, "Created(/n) Changed(/n)", "Created(/n) Changed(/n)"},
		{"secret then and now", func(k *client) { k.must(k.createACL("/n", 0, secret)) }, "", "Created(/n)"},
		{"secret then", func(k *client) {
			k.must(k.createACL("/n", 0, secret))
			k.must(k.setACL("/n", jute.OpenACL, -1))
			k.must(k.setData("/n", "1", -1))
		}, "Changed(/n)", "Created(/n) Changed(/n)"},
		{"secret now", func(k *client) {
			k.must(k.create("/n", 0))
			k.must(k.setACL("/n", secret, -1))
		}, "", "Created(/n)"},
		{"secret then, gone now", func(k *client) {
			k.must(k.create("/n", 0))
			k.must(k.setACL("/n", secret, -1))
			k.must(k.setData("/n", "1", -1))
			k.must(k.delete("/n", -1))
		}, "Created(/n)", "Created(/n) Changed(/n) Deleted(/n)"},
		{"another node with its name is secret", func(k *client) {
			k.must(k.create("/n", 0))
			k.must(k.delete("/n", -1))
			k.must(k.createACL("/n", 0, secret))
		}, "Deleted(/n)", "Created(/n) Deleted(/n) Created(/n)"}, // or a cache would keep the former node
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorldWithHistory(t, 1<<20)
			k := owner(w)
			before := w.s().Zxid()
			tt.do(k)
			stranger, same := &comeback{w: w, ids: w.connect().ids}, &comeback{w: w, ids: k.ids}
			for c, want := range map[*comeback]string{stranger: tt.want, same: tt.all} {
				c.begin(before, nil, []string{"/n"})
				c.finish()
				c.want(t, strings.Fields(want)...)
			}
		})
	}
	t.Run("children of a secret parent", func(t *testing.T) {
		w := newWorldWithHistory(t, 1<<20)
		k := owner(w)
		k.must(k.createACL("/n", 0, secret))
		before := w.s().Zxid()
		k.must(k.create("/n/child", 0))
		c := &comeback{w: w, ids: w.connect().ids}
		c.begin(before, []string{"/n", "/n/child"}, nil)
		c.finish()
		c.want(t, "Created(/n/child)")
	})
	t.Run("hidden after the beginning", func(t *testing.T) { // as a live event, which was sent before
		w := newWorldWithHistory(t, 1<<20)
		k := owner(w)
		c := &comeback{w: w, ids: w.connect().ids}
		c.begin(w.s().Zxid(), nil, []string{"/n"})
		k.must(k.create("/n", 0))
		k.must(k.setACL("/n", secret, -1))
		c.finish()
		c.want(t, "Created(/n)")
	})
}

// An event of a watch from before the replay comes once, although a watch of the replay that is set after the change is for
// it, too. A null path is watched by nothing.
func TestWatchOfReplayIsSetLater(t *testing.T) {
	w := newWorldWithHistory(t, 1<<20)
	k := w.connect()
	k.must(k.create("/a", 0))
	c := &comeback{w: w}
	c.begin(1<<62, nil, []string{"/a"})
	c.begin(w.s().Zxid(), nil, nil)
	k.must(k.create("/a/b", 0))
	k.must(k.create("/a/c", 0))
	k.must(k.create("/d", 0))
	w.s().RLock()
	c.replay.AddWatch(nil, jute.AddWatchPersistentRecursive)
	for _, path := range []string{"/a", "/a/c"} {
		_ = w.s().AddWatch([]byte(path), jute.AddWatchPersistent, c)
		c.replay.AddWatch([]byte(path), jute.AddWatchPersistent)
	}
	w.s().RUnlock()
	k.must(k.setData("/a/c", "1", -1))
	c.finish()
	c.want(t, "Created(/a/b)", "Children(/a)", "Created(/a/c)", "Children(/a)", "Changed(/a/c)")
}

// A replay that is overtaken by the history's limit ends with an error.
func TestReplayOverrun(t *testing.T) {
	w := newWorldWithHistory(t, MinChangeHistory)
	k := w.connect()
	c := &comeback{w: w}
	c.begin(w.s().Zxid(), nil, []string{"/"})
	for i := range 10_000 {
		k.must(k.create(fmt.Sprint("/", strings.Repeat("long", 10), i), 0))
	}
	w.s().RLock()
	defer w.s().RUnlock()
	if err := c.replay.Extend(); !errors.Is(err, ErrHistoryOverrun) {
		t.Errorf("%v, want %v", err, ErrHistoryOverrun)
	}
}

// A replay of a state that a snapshot has replaced ends with an error, although the history of the snapshot has as many changes.
func TestReplayOfReplacedState(t *testing.T) {
	w := newWorldWithHistory(t, 1<<20)
	k := w.connect()
	k.must(k.create("/a", 0))
	c := &comeback{w: w}
	c.begin(w.s().Zxid(), []string{"/"}, nil)
	snapshot := encode(t, w.s().Snapshot())
	if err := w.s().RestoreSnapshot(bytes.NewReader(snapshot)); err != nil {
		t.Fatal(err)
	}
	w.s().RLock()
	defer w.s().RUnlock()
	if err := c.replay.Extend(); !errors.Is(err, ErrHistoryOverrun) {
		t.Errorf("%v, want %v", err, ErrHistoryOverrun)
	}
}

// A call of Match and a call of Send do a bounded part of the work. What the replay holds is counted until it is sent.
func TestReplayWorksInSteps(t *testing.T) {
	w := newWorldWithHistory(t, 1<<20)
	k := w.connect()
	long := "/" + strings.Repeat("x", 2000)
	k.must(k.create("/live", 0))
	k.must(k.create(long, 0))
	c := &comeback{w: w}
	c.begin(1<<62, []string{"/live"}, nil)
	c.begin(w.s().Zxid(), []string{"/watched"}, nil)
	if n := c.replay.MemoryBytes(); n != replayWatchBytes {
		t.Errorf("a watch takes %d bytes", n)
	}
	send := func() (ended bool) {
		w.s().RLock()
		defer w.s().RUnlock()
		ended, err := c.replay.Send(func(jute.EventType, string, int64) bool { return true })
		if err != nil {
			t.Fatal(err)
		}
		return ended
	}
	for range maxLastChanges + 1 {
		k.must(k.setData("/live", "x", -1))
	}
	if n := c.replay.LiveBytes(); n != (maxLastChanges+1)*(liveEventBytes+len("/live")) {
		t.Errorf("the live events take %d bytes", n)
	}
	if send() {
		t.Errorf("Send has matched more than %d changes", maxLastChanges)
	}
	for range 25 { // fewer than a chunk has
		k.must(k.setData(long, "x", -1))
	}
	w.s().RLock()
	err := c.replay.Extend()
	w.s().RUnlock()
	if err != nil {
		t.Fatal(err)
	}
	before := c.replay.RemainingChanges()
	c.replay.Match()
	// the first two are those from before the replay
	if n, most := before-c.replay.RemainingChanges(), 2+maxLastChanges+1+maxMatchSteps/(len(long)/pathBytesPerStep); n > most {
		t.Errorf("Match has read %d changes, want at most %d", n, most)
	}
	for range maxMatched + 2 {
		k.must(k.create("/watched", 0))
		k.must(k.delete("/watched", -1))
	}
	if send() {
		t.Error("the replay has ended")
	}
	w.s().RLock()
	err = c.replay.Extend()
	w.s().RUnlock()
	if err != nil {
		t.Fatal(err)
	}
	if c.replay.Match(); len(c.replay.matched) != maxMatched {
		t.Errorf("Match has found %d events, want %d", len(c.replay.matched), maxMatched)
	}
	for range 10 {
		if send() {
			break
		}
		w.s().RLock()
		err = c.replay.Extend()
		w.s().RUnlock()
		if c.replay.Match(); err != nil {
			t.Fatal(err)
		}
	}
	if !send() || c.replay.LiveBytes() != 0 {
		t.Errorf("the replay has not ended, or holds %d bytes", c.replay.LiveBytes())
	}
}

// While a replay waits, it keeps no part of the history alive.
func TestWaitingReplayKeepsNothing(t *testing.T) {
	w := newWorldWithHistory(t, 1<<20)
	k := w.connect()
	c := &comeback{w: w}
	before := w.s().Zxid()
	for i := range 100 {
		k.must(k.create(fmt.Sprint("/", i), 0))
	}
	c.begin(before, nil, []string{"/"})
	c.step(7, func() {})
	if r := c.replay; r.matched != nil || r.view.unread != nil || r.view.lists != nil || r.view.records != 7 {
		t.Errorf("it keeps %d events and %d bytes at change %d", len(r.matched), len(r.view.unread), r.view.records)
	}
	c.finish()
	if len(c.events) != 100 {
		t.Errorf("%d events", len(c.events))
	}
}

// A client that was there all the time gets the same events in the same order as one that comes back, whatever it names
// as its last zxid, whatever is changed while its events are replayed, however little it takes at a time, and whichever
// watches it has had on that connection before. With -short, 4 of 20 seeds run.
func TestRandomReplays(t *testing.T) {
	seeds := 20
	if testing.Short() {
		seeds = 4
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			randomReplays(t, rand.New(rand.NewPCG(uint64(seed), 3)))
		})
	}
}

func randomReplays(t *testing.T, r *rand.Rand) {
	paths := []string{"/a", "/a/b", "/a/b/c", "/a/b/c/d", "/a/bx", "/x", "/x/y", "/x/secret", "/x/secret/z", "/"}
	some := func() (list []string) {
		for _, path := range paths {
			if r.IntN(4) == 0 {
				list = append(list, path)
			}
		}
		return list
	}
	w := newWorldWithHistory(t, 1<<20)
	k := w.connect().auth("digest", "u:p")
	secret := append(aclOf(31, "auth", ""), aclOf(31&^jute.PermRead, "world", "anyone")...)
	change := func() {
		path := paths[r.IntN(len(paths)-1)]
		acl := jute.OpenACL
		if strings.HasSuffix(path, "secret") { // always or never, so that it does not matter when it is checked
			acl = secret
		}
		switch r.IntN(5) {
		case 0, 1:
			k.createACL(path, 0, acl)
		case 2:
			k.delete(path, -1)
		case 3:
			k.setData(path, "y", -1)
		case 4:
			above := paths[r.IntN(len(paths)-1)]
			k.multi(mk(above+"/m", 0), put(above+"/m", -1), rm(above+"/m", -1))
		}
	}
	for range 150 {
		change()
	}
	replayed := 0
	for round := range 60 {
		ids := k.ids
		if r.IntN(2) == 0 {
			ids = ids[:1]
		}
		persistent, recursive, live := some(), some(), some()
		always, back := &comeback{w: w, ids: ids}, &comeback{w: w, ids: ids}
		always.begin(1<<62, persistent, recursive)
		since := w.s().Zxid()
		for range r.IntN(40) {
			change()
		}
		back.begin(1<<62, live, nil) // no replay: watches of the connection from before
		already := map[string]bool{}
		for _, path := range live {
			already[path] = true
		}
		liveSince := w.s().Zxid()
		shadow := &comeback{w: w, ids: ids}
		shadow.begin(1<<62, live, nil)
		for range r.IntN(3) {
			change()
		}
		if start := back.begin(since, persistent, recursive); start != ReplayBegun {
			t.Fatalf("round %d: start %d", round, start)
		}
		begun := w.s().Zxid()
		between := func() {
			for range r.IntN(4) {
				change()
			}
		}
		for left := 200; !back.step(1+r.IntN(5), func() {
			if left > 0 {
				between()
			}
		}); left-- {
		}
		change()
		compareReplay(t, always.events, shadow.events, back.events, liveSince, begun)
		if replayed += len(back.events); t.Failed() {
			t.Fatalf("round %d: persistent %v, recursive %v, live %v, since %#x", round, persistent, recursive, live, since)
		}
		for _, c := range []*comeback{always, back, shadow} {
			for w.s().Watches().DropWatches(c) {
			}
		}
	}
	if replayed < 500 {
		t.Errorf("%d events in all", replayed)
	}
}

// compareReplay checks the events of a connection that had live watches from liveSince on, and then a replay that began
// at begun. always has the events of the replay's watches, shadow the events of the live watches.
func compareReplay(t *testing.T, always, shadow, got []comebackEvent, liveSince, begun int64) {
	t.Helper()
	var want []comebackEvent
	for _, e := range shadow { // before the replay
		if e.zxid <= begun {
			want = append(want, e)
		}
	}
	n := len(want)
	want = append(want, always...)
	for _, e := range shadow { // during the replay, and after it, what the watches of the replay are not for
		if e.zxid > begun && !slices.Contains(always, e) {
			want = append(want, e)
		}
	}
	if !slices.IsSortedFunc(got[min(n, len(got)):], func(a, b comebackEvent) int { return int(a.zxid - b.zxid) }) {
		t.Errorf("out of order: %v", got)
	}
	texts := func(list []comebackEvent) (all []string) {
		for _, e := range list {
			all = append(all, e.String())
		}
		slices.Sort(all)
		return all
	}
	if a, b := texts(got), texts(want); !slices.Equal(a, b) {
		t.Errorf("got %v, want %v", got, want)
	}
	var own []comebackEvent // exactly in order
	for _, e := range got[min(n, len(got)):] {
		if slices.Contains(always, e) {
			own = append(own, e)
		}
	}
	if !slices.Equal(own, always) {
		t.Errorf("got %v, want the order of %v", own, always)
	}
}
