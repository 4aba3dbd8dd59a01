package znode

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"rollcall/zk/jute"
)

// historyModel is a plain list of changes beside a changeHistory.
type historyModel struct {
	*rand.Rand
	h     changeHistory
	lists []*acl
	all   []string // every change ever, as changeText has it
	zxids []int64
}

func changeText(event jute.EventType, zxid int64, path string, a, parent *acl) string {
	text := fmt.Sprintf("%v %#x %s %s", event, zxid, path, a.text)
	if parent != nil {
		text += " " + parent.text
	}
	return text
}

func (m *historyModel) append() {
	zxid := int64(1<<32 + 1)
	if n := len(m.zxids); n > 0 {
		zxid = m.zxids[n-1]
		if m.IntN(3) > 0 { // otherwise it is a change of the same transaction
			zxid += 1 + int64(m.IntN(3))*int64(m.IntN(1<<20))
		}
	}
	n := notification{event: jute.EventType(1 + m.IntN(3)), path: "/" + strings.Repeat("p", 1+m.IntN(60)), acl: m.lists[m.IntN(len(m.lists))]}
	if m.IntN(500) == 0 {
		n.path += strings.Repeat("long", 40_000)
	}
	if n.event != jute.EventNodeDataChanged {
		n.parent, n.parentACL = rootPath, m.lists[m.IntN(len(m.lists))]
	}
	m.h.append(&n, zxid)
	m.zxids = append(m.zxids, zxid)
	m.all = append(m.all, changeText(n.event, zxid, n.path, n.acl, n.parentACL))
}

// kept returns what the history must have: every change after since, and maybe more of the transaction of since.
func (m *historyModel) check(t *testing.T) {
	t.Helper()
	first := len(m.all) - int(m.h.count())
	if first > 0 && m.zxids[first-1] > m.h.since {
		t.Fatalf("the history promises all after %#x, and begins after %#x", m.h.since, m.zxids[first-1])
	}
	i := first
	for c := range m.h.all() {
		if got := changeText(c.event, c.zxid, c.path, c.acl, c.parentACL); got != m.all[i] || c.number != uint64(i) {
			t.Fatalf("change %d is %d, %s, want %s", i, c.number, got, m.all[i])
		}
		i++
	}
	if i != len(m.all) {
		t.Fatalf("it has %d changes, want %d", i-first, len(m.all)-first)
	}
	memory := m.h.open.memoryBytes()
	for _, c := range m.h.sealed {
		memory += c.memoryBytes()
	}
	if most := m.h.limit + int64(maxRecordHead) + 1<<18; memory > most { // a long record has a chunk of its own
		t.Errorf("it takes %d bytes, with a limit of %d", memory, m.h.limit)
	}
}

// A plain list has the same changes as the history, whatever is added, dropped because of the limit, and read meanwhile
// from any place.
func TestChangeHistory(t *testing.T) {
	for seed := range 6 {
		m := &historyModel{Rand: rand.New(rand.NewPCG(uint64(seed), 1)), h: changeHistory{limit: MinChangeHistory << (seed % 2)}}
		for i := range 40 {
			m.lists = append(m.lists, forgedList(fmt.Sprint("list ", i, strings.Repeat("x", i*i))))
		}
		if seed%2 == 1 {
			m.lists = append(m.lists, forgedList(strings.Repeat("y", 2*historyChunkBytes)))
		}
		reader, at, overruns := historyView{}, 0, 0
		for step := range 20_000 {
			m.append()
			if step%997 == 0 {
				m.check(t)
			}
			if m.IntN(5) > 0 || step%4096 < 2048*(seed%2) { // the reader sleeps
				continue
			}
			next, ok := m.h.extend(reader)
			if !ok {
				overruns++
				after := m.h.since + int64(m.IntN(5))
				reader = m.h.viewAfter(after)
				at = int(reader.records)
				if first := slices.IndexFunc(m.zxids, func(z int64) bool { return z > after }); first >= 0 && first < at {
					t.Fatalf("the view after %#x begins with change %d, want at most %d", after, at, first)
				}
				next = reader
			}
			reader = next
			for n := m.IntN(20); n > 0 && len(reader.unread) > 0; n-- {
				if c := reader.next(); changeText(c.event, c.zxid, c.path, c.acl, c.parentACL) != m.all[at] {
					t.Fatalf("change %d: %+v, want %s", at, c, m.all[at])
				}
				at++
			}
			if m.IntN(10) == 0 {
				reader = reader.withoutRest()
			}
		}
		if overruns < 2 {
			t.Errorf("seed %d: the reader met %d gaps", seed, overruns)
		}
		m.check(t)
	}
}

// The history is a part of snapshots. The restored one has the same changes, is written as the same bytes, and continues
// as the original does. A snapshot does not change while changes are added.
func TestHistoryInSnapshots(t *testing.T) {
	w := newWorldWithHistory(t, MinChangeHistory)
	k := w.connect().auth("digest", "u:p")
	k.must(k.create("/a", 0))
	other := New(Config{ChangeHistory: MinChangeHistory})
	change := func(i int) {
		k.must(k.createACL(fmt.Sprint("/a/", i), 0, append(aclOf(31, "auth", ""), aclOf(1, "ip", fmt.Sprintf("10.0.%d.0/24", i%200))...)))
		k.must(k.setData("/a", "y", -1))
		k.must(k.delete(fmt.Sprint("/a/", i), -1))
	}
	dropped := false
	for i := range 3000 {
		change(i)
		if i%500 != 499 {
			continue
		}
		sn := w.s().Snapshot()
		before := encode(t, sn)
		change(i + 100_000)
		after := encode(t, sn)
		if !bytes.Equal(after, before) {
			t.Fatal("a snapshot has changed")
		}
		if err := other.RestoreSnapshot(bytes.NewReader(before)); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(encode(t, other.Snapshot()), before) {
			t.Fatal("the restored state is written as other bytes")
		}
		dropped = dropped || other.watches.history.since > 0
		again := w.log[len(w.log)-3:] // what that has done
		for _, l := range again {
			entry, _ := decodedCopy(t, l.Entry)
			other.Lock()
			err := other.ApplyEntry(l.index, l.term, entry)
			other.Unlock()
			if err != nil {
				t.Fatal(err)
			}
		}
		if got, want := encode(t, other.Snapshot()), encode(t, w.s().Snapshot()); !bytes.Equal(got, want) {
			t.Fatal("the restored state differs after the same entries")
		}
	}
	if !dropped {
		t.Error("nothing was dropped because of the limit")
	}
}

// A member with a lower limit keeps the latest changes of another one's snapshot. One without a history keeps none, and
// what it writes promises nothing until a later term has begun.
func TestHistoryOfOtherLimits(t *testing.T) {
	w := newWorldWithHistory(t, 1<<20)
	k := w.connect()
	for i := range 12_000 {
		k.must(k.create(fmt.Sprint("/", strings.Repeat("long", 10), i), 0))
	}
	whole := &w.s().watches.history
	short, off, again := New(Config{ChangeHistory: MinChangeHistory}), New(Config{}), New(Config{ChangeHistory: 1 << 20})
	snapshot := encode(t, w.s().Snapshot())
	for _, s := range []*State{short, off} {
		if err := s.RestoreSnapshot(bytes.NewReader(snapshot)); err != nil {
			t.Fatal(err)
		}
	}
	h := &short.watches.history
	if h.count() >= whole.count() || h.count() < 1000 || h.since <= whole.since || h.keepsAllAfter(h.since-1) || !h.keepsAllAfter(h.since) {
		t.Errorf("it keeps %d of %d changes, all after %#x", h.count(), whole.count(), h.since)
	}
	if off.watches.history.count() != 0 || off.watches.history.keepsAllAfter(off.Zxid()) {
		t.Error("a state without a history keeps changes")
	}
	if err := again.RestoreSnapshot(bytes.NewReader(encode(t, off.Snapshot()))); err != nil {
		t.Fatal(err)
	}
	h = &again.watches.history
	apply := func() {
		l := w.log[len(w.log)-1]
		entry, _ := decodedCopy(t, l.Entry)
		again.Lock()
		defer again.Unlock()
		if err := again.ApplyEntry(l.index, l.term, entry); err != nil {
			t.Fatal(err)
		}
	}
	k.must(k.create("/same-term", 0))
	apply()
	if h.count() != 1 || h.keepsAllAfter(again.Zxid()) {
		t.Errorf("%d changes, all after %#x, in the term of a snapshot without a history", h.count(), h.since)
	}
	w.startTerm(9, 5)
	apply()
	k.must(k.create("/later-term", 0))
	apply()
	if h.keepsAllAfter(9<<32-2) || !h.keepsAllAfter(9<<32-1) {
		t.Errorf("all changes after %#x are kept, want those of term 9", h.since)
	}
}

// A snapshot whose changes make no sense is rejected.
func TestRestoreRejectsChanges(t *testing.T) {
	open := forgedList("open")
	change := func(event jute.EventType, zxid int64, path string) func(p *sectionWriter) {
		return func(p *sectionWriter) {
			p.putBytes([]byte{byte(event)})
			p.putUint64(uint64(zxid))
			p.putText(path)
			p.writeList(open, path)
			if event == jute.EventNodeCreated || event == jute.EventNodeDeleted {
				p.writeList(open, path)
			}
		}
	}
	for _, tt := range []struct {
		name    string
		since   int64
		count   uint64
		changes []func(p *sectionWriter)
		sound   bool
	}{
		{"none", noHistory, 0, nil, true},
		{"sound", 5, 2, []func(*sectionWriter){change(1, 6, "/a"), change(3, 6, "/a")}, true},
		{"the transaction at which it begins", 6, 1, []func(*sectionWriter){change(1, 6, "/a")}, true},
		{"of a transaction before", 6, 1, []func(*sectionWriter){change(1, 5, "/a")}, false},
		{"going back", 5, 2, []func(*sectionWriter){change(1, 7, "/a"), change(3, 6, "/a")}, false},
		{"after the last zxid", 5, 1, []func(*sectionWriter){change(1, 1<<40, "/a")}, false},
		{"beginning after the last zxid", 1 << 40, 0, nil, false},
		{"beginning before the log", -1, 0, nil, false},
		{"some of no history", noHistory, 1, []func(*sectionWriter){change(1, 6, "/a")}, false},
		{"of an unknown kind", 5, 1, []func(*sectionWriter){change(4, 6, "/a")}, false},
		{"of an invalid path", 5, 1, []func(*sectionWriter){change(3, 6, "/a/")}, false},
		{"the root is created", 5, 1, []func(*sectionWriter){change(1, 6, "/")}, false},
		{"fewer than said", 5, 2, []func(*sectionWriter){change(1, 6, "/a")}, false},
		{"more than said", 5, 0, []func(*sectionWriter){change(1, 6, "/a")}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			k := w.connect()
			k.must(k.create("/a", 0))
			open = w.nodeAt("/a").acl
			sn := w.s().Snapshot()
			var out bytes.Buffer
			head := sn.Head()
			head.hasHistory = true
			p := newSectionWriter(&out, &head)
			sn.replicated.writeSections(p)
			p.advanceTo(sectionChanges)
			p.putUint64(uint64(tt.since))
			p.putUint64(tt.count)
			for _, write := range tt.changes {
				write(p)
			}
			if err := p.writeSnapshotEnd(sn.Digest()); err != nil {
				t.Fatal(err)
			}
			_, _, verr := VerifySnapshot(bytes.NewReader(out.Bytes()))
			if err := New(Config{ChangeHistory: 1 << 20}).RestoreSnapshot(bytes.NewReader(out.Bytes())); (err == nil) != tt.sound ||
				(verr == nil) != tt.sound {
				t.Errorf("Restore: %v, Verify: %v", err, verr)
			}
		})
	}
}

// A history knows the last transaction that has changed an ACL, also after a restart. One that sets the same list, or that fails, does
// not count. If a snapshot lacks it, it may be any transaction up to the last one.
func TestACLsChanged(t *testing.T) {
	w := newWorldWithHistory(t, MinChangeHistory)
	k := w.connect()
	changed := func() int64 { return HistoryACLs(w.s()) }
	k.must(k.create("/a", 0))
	if got := changed(); got != 0 {
		t.Errorf("before any change of an ACL: %#x", got)
	}
	k.must(k.setACL("/a", aclOf(1, "world", "anyone"), -1)) // which nobody may change any more
	k.must(k.create("/b", 0))
	k.must(k.setACL("/b", aclOf(19, "world", "anyone"), -1))
	want := w.s().Zxid()
	if got := changed(); got != want {
		t.Errorf("the last ACL was changed at %#x, want %#x", got, want)
	}
	k.must(k.setACL("/b", aclOf(19, "world", "anyone"), -1))
	if r := k.setACL("/a", aclOf(31, "world", "anyone"), -1); r.Code != jute.NoAuth {
		t.Errorf("the ACL of /a was changed: %v", r.Code)
	}
	k.must(k.setData("/b", "x", -1))
	if got := changed(); got != want {
		t.Errorf("the last ACL was changed at %#x, want %#x", got, want)
	}
	other := New(Config{ChangeHistory: MinChangeHistory})
	if err := other.RestoreSnapshot(bytes.NewReader(encode(t, w.s().Snapshot()))); err != nil {
		t.Fatal(err)
	}
	if got := HistoryACLs(other); got != want {
		t.Errorf("after a restart the last ACL was changed at %#x, want %#x", got, want)
	}
	without := New(Config{})
	if err := without.RestoreSnapshot(bytes.NewReader(encode(t, w.s().Snapshot()))); err != nil || HistoryACLs(without) != jute.NoHistory {
		t.Errorf("a state without a history: %v, %#x", err, HistoryACLs(without))
	}
	if err := other.RestoreSnapshot(bytes.NewReader(encode(t, without.Snapshot()))); err != nil || HistoryACLs(other) != w.s().Zxid() {
		t.Errorf("of a snapshot without a history: %v, %#x, want %#x", err, HistoryACLs(other), w.s().Zxid())
	}
}

// BenchmarkChangeHistory measures what keeping a change costs, and how much memory it takes.
func BenchmarkChangeHistory(b *testing.B) {
	h := changeHistory{limit: benchHistory}
	open := forgedList("open")
	paths := make([]string, 1024)
	for i := range paths {
		paths[i] = fmt.Sprintf("/group/of/nodes/with/paths/of/50/bytes/n-%010d", i)
	}
	for i := range b.N {
		h.append(&notification{event: jute.EventNodeDataChanged, path: paths[i%len(paths)], acl: open}, int64(i))
	}
	b.ReportMetric(float64(h.bytes)/float64(h.count()), "B/change")
}
