package archive

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"rollcall/operator/logs/logtest"
	"rollcall/operator/past"
	"rollcall/quorum/disk"
)

// newLateMember returns a member that has received a snapshot of the ensemble's state, and so has no entry before that.
func newLateMember(t *testing.T, e *ensemble, id uint32) *member {
	m := newMember(t, e, id)
	m.has, m.dropped = uint64(len(e.Log)), uint64(len(e.Log))
	m.snapshot(0)
	return m
}

// writeAndSnapshot makes some changes and stores a snapshot of the state after them. It returns its index.
func (m *member) writeAndSnapshot(seed uint64) uint64 {
	m.t.Helper()
	m.writeAndFollow(15, seed)
	m.snapshot(0)
	return m.has
}

// damageSnapshot changes a byte of the stored snapshot of an index.
func (m *member) damageSnapshot(index uint64) {
	m.t.Helper()
	found, err := filepath.Glob(filepath.Join(m.dirs().Data, "*", fmt.Sprintf("*-%d-*", index), disk.SnapshotStateFile))
	if err != nil || len(found) != 1 {
		m.t.Fatalf("%d snapshots of index %d, %v", len(found), index, err)
	}
	b, err := os.ReadFile(found[0])
	m.must(err)
	b[len(b)/2] ^= 1
	m.must(os.WriteFile(found[0], b, 0o600))
}

// loggingSender returns a Sender of the member and what it logs.
func (m *member) loggingSender(store Store) (*Sender, *logtest.Buffer) {
	s, lines := m.sender(store), new(logtest.Buffer)
	s.cfg.Logger = slog.New(slog.NewTextHandler(lines, nil))
	return s, lines
}

// A member whose oldest snapshot is damaged begins the archive with the next one, and says so. If none can be read, it takes one.
func TestBeginsWithUndamagedSnapshot(t *testing.T) {
	e := newEnsemble(t)
	e.write(5, 1)
	m := newLateMember(t, e, 1)
	first := m.has
	second := m.writeAndSnapshot(2)
	m.writeAndFollow(5, 3)
	m.damageSnapshot(first)
	store := newMemory()
	s, lines := m.loggingSender(store)
	m.must(sendAll(s))
	e.checkArchive(t, store, 1)
	if l := onlyLog(t, store); l.Spans[0].First != second+1 || s.Stats().ArchivedIndex != m.has {
		t.Errorf("the archive has %+v, want it to begin after %d", l.Spans, second)
	}
	if text := lines.String(); !strings.Contains(text, "a snapshot of this member cannot be read; the archive begins with a later one") {
		t.Errorf("no line of it: %s", text)
	}
	m.damageSnapshot(second)
	if err := sendAll(m.sender(newMemory())); !errors.Is(err, errSnapshotNeeded) || m.snapshotRequests != 1 {
		t.Errorf("without a snapshot that can be read: %v, %d snapshots were requested", err, m.snapshotRequests)
	}
}

// If the snapshot that is due is damaged, the member takes a new one.
func TestDueSnapshotIsDamaged(t *testing.T) {
	e := newEnsemble(t)
	m := newMember(t, e, 1)
	m.damageSnapshot(m.writeAndSnapshot(1))
	s := m.sender(newMemory())
	m.must(sendAll(s))
	if m.snapshotRequests != 1 || s.Stats().Failures != 1 {
		t.Errorf("%d snapshots were requested, %d failures", m.snapshotRequests, s.Stats().Failures)
	}
}

// Each lost entry is counted once, however often an attempt to make a beginning is repeated, and also if it begins with a later snapshot
// at last.
func TestLostEntriesAreCountedOnce(t *testing.T) {
	e := newEnsemble(t)
	e.write(20, 1)
	store := newMemory()
	before := newMember(t, e, 1)
	before.follow(0)
	before.must(sendAll(before.sender(store)))
	e.write(20, 2)
	m := newLateMember(t, e, 2)
	first := m.has
	second := m.writeAndSnapshot(3)
	s, lines := m.loggingSender(store)
	full := errors.New("507 InsufficientStorage")
	store.put = func(string) error { return full }
	m.leads.Store(false) // or else it would try again to send the part
	for range 3 {
		if err := sendAll(s); !errors.Is(err, full) {
			t.Fatal(err)
		}
		if n := s.Stats().LostEntries; n != first-before.has {
			t.Fatalf("%d entries are lost, want %d", n, first-before.has)
		}
	}
	m.damageSnapshot(first)
	m.leads.Store(true)
	store.put = nil
	m.must(sendAll(s))
	if n := s.Stats().LostEntries; n != second-before.has {
		t.Errorf("%d entries are lost, want %d", n, second-before.has)
	}
	if n := strings.Count(lines.String(), "the archive has a gap"); n != 2 {
		t.Errorf("%d lines, want one for each beginning:\n%s", n, lines)
	}
	e.checkArchive(t, store, 2)
	s.position = nil
	m.must(sendAll(s))
	if n := s.Stats().LostEntries; n != second-before.has {
		t.Errorf("later %d entries are lost, want %d", n, second-before.has)
	}
}

// A member that has sent a snapshot as the beginning, and then fails, does not send it again.
func TestBeginningIsSentOnce(t *testing.T) {
	e := newEnsemble(t)
	e.write(20, 1)
	m := newLateMember(t, e, 1)
	m.writeAndFollow(20, 2)
	store := newMemory()
	s := m.sender(store)
	store.put = func(name string) error {
		if _, isRun := parseRun(name); isRun {
			return errors.New("503 SlowDown")
		}
		return nil
	}
	for range 3 {
		if err := sendAll(s); err == nil {
			t.Fatal("a round without entries succeeded")
		}
	}
	store.put = nil
	m.must(sendAll(s))
	if l := onlyLog(t, store); len(l.states) != 1 {
		t.Errorf("%d snapshots", len(l.states))
	}
	e.checkArchive(t, store, 1)
	store.objects = map[string][]byte{} // another bucket is there
	s.position, s.nextStates = nil, time.Now().Add(time.Hour)
	m.must(sendAll(s))
	e.checkArchive(t, store, 1)
}

// fork returns two members of two ensembles with one identity: their first entries are the same, and the later ones are not.
func fork(t *testing.T, store Store) (members [2]*member, senders [2]*Sender) {
	for i := range members {
		e := newEnsemble(t)
		e.write(10, 1)
		members[i] = newMember(t, e, 1)
		members[i].follow(0)
		senders[i] = members[i].sender(store)
		members[i].must(sendAll(senders[i])) // both are at the end of the same archive
		e.write(10, 100+uint64(i))
		members[i].follow(0)
	}
	return members, senders
}

// Two ensembles with one identity, as after all directories were copied: the second to send finds the entries of the first, and sends
// nothing. If both send at the same moment, both find that in the next round. A new leader finds it, too.
func TestClonedEnsembles(t *testing.T) {
	store := newMemory()
	members, senders := fork(t, store)
	members[0].must(sendAll(senders[0]))
	count := len(store.objects)
	for range 2 {
		if err := sendAll(senders[1]); !errors.Is(err, ErrOtherPast) {
			t.Errorf("the second ensemble: %v", err)
		}
	}
	if len(store.objects) != count {
		t.Errorf("%d objects more", len(store.objects)-count)
	}
	members[0].must(sendAll(senders[0]))
	if damage := verifyAll(t, store); len(damage) > 0 {
		t.Errorf("%q", damage)
	}

	for _, secondBatch := range []int{1 << 20, 2500} {
		store = newMemory()
		members, senders = fork(t, store)
		store.hide = func(string) bool { return true }
		senders[0].batchBytes, senders[1].batchBytes = 1<<20, secondBatch
		for i := range senders {
			members[i].must(sendAll(senders[i]))
		}
		store.hide = nil
		if damage := strings.Join(verifyAll(t, store), "\n"); !strings.Contains(damage, "have different entries") {
			t.Errorf("verify: %q", damage)
		}
		for i, m := range members {
			m.writeAndFollow(1, 7)
			for _, s := range []*Sender{senders[i], m.sender(store)} {
				if err := sendAll(s); !errors.Is(err, ErrOtherPast) {
					t.Errorf("ensemble %d after both have sent: %v", i, err)
				}
			}
		}
	}
}

// Names of objects that no member has stored neither stop the archive nor make it skip an entry.
func TestForeignNames(t *testing.T) {
	e, m := newMemberWith(t, 40)
	last := m.has
	m.has = 20
	store := newMemory()
	s := m.sender(store)
	m.must(sendAll(s))
	at := func(index uint64) EntryID { return EntryID{Index: index, Term: e.Log[index-1].Term, Sum: 77} }
	middle := last/2 + 1
	whole := state{log: testLog, index: middle, term: at(middle).Term, at: pastTime, digest: 5, member: 1}
	ahead := state{log: testLog, index: 1 << 60, term: 9, at: pastTime, digest: 5, member: 1}
	foreign := []string{
		run{log: testLog, before: at(19), last: at(20), member: 9}.name(),
		run{log: testLog, before: at(15), last: EntryID{Index: 25, Term: 2, Sum: 8}, member: 9}.name(),
		run{log: testLog, before: at(20), last: at(middle), member: 9}.name(),
		run{log: testLog, before: at(last - 1), last: EntryID{Index: last + 9, Term: 7, Sum: 1}, member: 9}.name(),
		run{log: testLog, before: EntryID{Index: 1 << 60, Term: 7}, last: EntryID{Index: 1<<60 + 9, Term: 7, Sum: 1}, member: 9}.name(),
		whole.partName(1, true), ahead.partName(1, true),
	}
	for _, name := range foreign {
		m.must(store.Put(t.Context(), name, []byte("junk")))
	}
	m.has = last - 3
	m.must(sendAll(s)) // it has a place
	m.has = last
	m.must(sendAll(m.sender(store))) // a new leader
	sent := uint64(0)
	for _, r := range onlyLog(t, store).runs {
		if slices.Contains(foreign, r.name()) {
			continue
		}
		if sent+1 != r.first() {
			t.Errorf("after entry %d comes %d", sent, r.first())
		}
		sent = r.last.Index
	}
	if sent != last {
		t.Errorf("%d entries were sent, want %d", sent, last)
	}
	if m.snapshotRequests == 0 {
		t.Error("a foreign snapshot counts as one of the log")
	}
	maps.DeleteFunc(store.objects, func(name string, _ []byte) bool { return slices.Contains(foreign, name) })
	e.checkArchive(t, store, 1)
	if built, err := past.Open(t.Context(), NewChain(store, onlyLog(t, store), onlyLog(t, store).Spans[0]), past.Moment{}); err != nil ||
		built.State().Digest() != e.State.Digest() {
		t.Error(err)
	}
}

// A member that has just been elected, and has applied less than is in the archive, sends nothing, and continues when it has more.
func TestBehindArchive(t *testing.T) {
	e := newEnsemble(t)
	e.write(20, 1)
	store := newMemory()
	first, second := newMember(t, e, 1), newMember(t, e, 2)
	first.snapshot(0)
	s := first.sender(store)
	s.batchBytes = 1 << 20
	first.must(sendAll(s))
	count := len(store.objects)
	second.follow(0)
	second.has -= 5
	s = second.sender(store)
	second.must(sendAll(s))
	if n := s.Stats().ArchivedIndex; len(store.objects) != count || n != second.has {
		t.Errorf("%d objects more; the place is %d, want %d", len(store.objects)-count, n, second.has)
	}
	if n := s.lastState.Load(); n != nil {
		t.Errorf("a snapshot of entries that the member has not applied counts as its newest one: %+v", n)
	}
	second.has += 5
	second.writeAndSnapshot(2)
	second.must(sendAll(s))
	e.checkArchive(t, store, 1)
}
