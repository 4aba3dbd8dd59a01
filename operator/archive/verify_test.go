package archive

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"rollcall/operator/past"
	"rollcall/quorum/disk"
	"rollcall/quorum/history"
)

// damagedWorld is an archive with two snapshots and some objects with entries.
func damagedWorld(t *testing.T) (*ensemble, *memory) {
	e := newEnsemble(t)
	e.write(12, 1)
	m := newMember(t, e, 1)
	m.snapshot(0)
	store := newMemory()
	s := m.sender(store)
	s.batchBytes = 3000
	m.must(sendAll(s))
	s.lastState.Store(nil)
	e.write(12, 2)
	m.snapshot(0)
	m.must(sendAll(s))
	if l := onlyLog(t, store); len(l.states) != 2 || len(l.runs) < 3 {
		t.Fatalf("%d snapshots, %d objects", len(l.states), len(l.runs))
	}
	return e, store
}

// verifyAll verifies all spans, and returns the damage.
func verifyAll(t *testing.T, store Store) (damage []string) {
	t.Helper()
	l := onlyLog(t, store)
	for _, s := range l.Spans {
		v, err := Verify(t.Context(), store, l, s)
		if err != nil {
			t.Fatal(err)
		}
		damage = append(damage, v.Damage...)
	}
	return damage
}

// content returns the decompressed contents of an object.
func content(t *testing.T, object []byte) []byte {
	t.Helper()
	r, err := history.Decompress(io.NopCloser(bytes.NewReader(object)))
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A byte that changes anywhere in an archive is found, unless the content is the same nevertheless. The damage names the object.
func TestChangedBytes(t *testing.T) {
	_, store := damagedWorld(t)
	if damage := verifyAll(t, store); len(damage) > 0 {
		t.Fatalf("sound: %q", damage)
	}
	harmless := 0
	for _, name := range slices.Sorted(maps.Keys(store.objects)) {
		sound := store.objects[name]
		step := max(len(sound)/40, 1)
		for at := 0; at < len(sound); at += step {
			changed := bytes.Clone(sound)
			changed[at] ^= 1 << (at % 8)
			store.objects[name] = changed
			damage := verifyAll(t, store)
			if len(damage) == 0 && bytes.Equal(content(t, changed), content(t, sound)) {
				harmless++ // a bit of the compression that is not used
			} else if !strings.Contains(strings.Join(damage, "\n"), name) {
				t.Fatalf("byte %d of %s: %q", at, name, damage)
			}
		}
		store.objects[name] = sound
	}
	t.Logf("%d changed bytes do not change the content", harmless)
}

// An object that is gone, cut short, longer, or another one's content is damage that names it, and the moments that cannot be built.
func TestOtherDamage(t *testing.T) {
	_, store := damagedWorld(t)
	l := onlyLog(t, store)
	run := l.runs[1].name()
	stateName := l.states[0].partName(1, true)
	for _, tt := range []struct {
		name, object string
		change       func(b []byte) []byte
		want         []string
	}{
		{"cut", run, func(b []byte) []byte { return b[:len(b)-9] }, []string{run, "cannot be built"}},
		{"empty", run, func([]byte) []byte { return []byte{} }, []string{run, "cannot be built"}},
		{"longer", run, func(b []byte) []byte { return append(bytes.Clone(b), 'x') }, []string{run}},
		{"twice", run, func(b []byte) []byte { return append(bytes.Clone(b), b...) }, []string{run}},
		{"another's", run, func([]byte) []byte { return store.objects[l.runs[0].name()] }, []string{run, "under another name"}},
		{"a cut snapshot", stateName, func(b []byte) []byte { return b[:len(b)/2] }, []string{stateName}},
		{"a longer snapshot", stateName, func(b []byte) []byte { return append(bytes.Clone(b), b...) }, []string{stateName}},
		{"another snapshot", stateName, func([]byte) []byte { return store.objects[l.states[1].partName(1, true)] }, []string{stateName, "it is of index"}},
	} {
		sound := store.objects[tt.object]
		store.objects[tt.object] = tt.change(sound)
		damage := strings.Join(verifyAll(t, store), "\n")
		for _, want := range tt.want {
			if !strings.Contains(damage, want) {
				t.Errorf("%s: no %q in %q", tt.name, want, damage)
			}
		}
		if tt.object == stateName && strings.Contains(damage, "cannot be built") {
			t.Errorf("%s: the entries are there, and %q", tt.name, damage)
		}
		if strings.Count(damage, tt.object) != 1 {
			t.Errorf("%s: the object is named more than once: %q", tt.name, damage)
		}
		store.objects[tt.object] = sound
	}
	sound := store.objects[run]
	delete(store.objects, run)
	found := onlyLog(t, store)
	if len(found.Spans) != 2 {
		t.Errorf("an object is gone: %+v", found.Spans)
	}
	store.objects[run] = sound
	delete(store.objects, l.states[0].partName(1, true))
	if found := onlyLog(t, store); len(found.Unfinished) != 0 || len(found.states) != 1 {
		t.Errorf("a snapshot without its parts: %+v", found)
	}
}

// A snapshot that is not what the entries give is damage, although each object is sound by itself.
func TestWrongSnapshot(t *testing.T) {
	_, store := damagedWorld(t)
	e := newEnsemble(t)
	e.write(12, 9)
	m := newMember(t, e, 1)
	m.snapshot(0)
	s := m.sender(newMemory())
	m.must(sendAll(s))
	other := s.cfg.Store.(*memory)
	l, wrong := onlyLog(t, store), onlyLog(t, other).states[0]
	if l.states[0].index != wrong.index {
		t.Fatalf("snapshots of %d and %d", l.states[0].index, wrong.index)
	}
	delete(store.objects, l.states[0].partName(1, true))
	store.objects[wrong.partName(1, true)] = other.objects[wrong.partName(1, true)]
	if damage := strings.Join(verifyAll(t, store), "\n"); !strings.Contains(damage, "is not what the members had") {
		t.Errorf("%q", damage)
	}
	l = onlyLog(t, store)
	for i := range l.Spans[0].states {
		l.Spans[0].states[i].bytes = 1 << 40
	}
	if v, err := Verify(t.Context(), store, l, l.Spans[0]); err != nil ||
		!strings.Contains(fmt.Sprint(v.Damage), "is not what the members had") {
		t.Errorf("a large one: %v, %q", err, v.Damage)
	}
}

// An object whose entries do not match its name is damaged, also if its name and its checksums are right.
func TestWrongName(t *testing.T) {
	_, m := newMemberWith(t, 5)
	entries, err := m.ReadEntries(0, 1<<20)
	m.must(err)
	sound, _, err := encodeRun(testLog, 1, EntryID{}, entries)
	m.must(err)
	for name, change := range map[string]func(r *run){
		"":                    func(*run) {},
		"another last entry":  func(r *run) { r.last.Sum ^= 1 },
		"another term":        func(r *run) { r.last.Term++ },
		"an entry more":       func(r *run) { r.last.Index++ },
		"an entry less":       func(r *run) { r.last.Index-- },
		"another first entry": func(r *run) { r.before.Index++ },
	} {
		r := sound
		change(&r)
		content, err := r.encode(entries)
		m.must(err)
		store := newMemory()
		m.must(store.Put(t.Context(), r.name(), content))
		var failed error
		for _, err := range readRun(t.Context(), store, r) {
			failed = err
		}
		if (failed != nil) != (name != "") ||
			failed != nil && (!errors.Is(failed, disk.ErrDamaged) || !strings.Contains(failed.Error(), r.name())) {
			t.Errorf("%q: %v", name, failed)
		}
	}
}

// The objects of two logs that were one, put into one archive by hand, are never mixed: a state comes from one of them,
// or there is an error.
func TestTwoPasts(t *testing.T) {
	for seed := range uint64(12) {
		both, digests := newMemory(), map[uint64]bool{}
		for i := range uint64(2) {
			store := newMemory()
			e := newEnsemble(t)
			m := newMember(t, e, uint32(1+i))
			s := m.sender(store)
			s.batchBytes = 1 << 20
			for part, count := range []int{6, 5, 5 + int(i^seed%2), 5} {
				e.NowMs += int64(min(uint64(part), 1) * i) // real entries also have the nonce of their leader's term
				e.write(count, seed+uint64(part)+min(uint64(part), 1)*i*100)
				m.follow(0)
				m.must(sendAll(s))
			}
			digests[e.State.Digest()] = true
			for name, b := range store.objects {
				both.objects[name] = b
			}
		}
		l := onlyLog(t, both)
		built, err := past.OpenOldest(t.Context(), NewChain(both, l, l.Spans[0]))
		if err != nil {
			t.Fatal(err)
		}
		err = built.Advance(past.Moment{}, nil)
		built.Close()
		if err == nil && !digests[built.State().Digest()] ||
			err != nil && !strings.Contains(err.Error(), "is not that of the objects before it") {
			t.Fatalf("seed %d: %v, %v; spans %+v", seed, built.Point(), err, l.Spans)
		}
	}
}

// Where two senders sent the same entries, one damaged object is no loss: every moment can be built, and verify names the object.
func TestDamageIsCovered(t *testing.T) {
	e, store := damagedWorld(t)
	m := newMember(t, e, 2)
	m.follow(0)
	s := m.sender(store)
	s.setPosition(EntryID{}) // it has an old list
	m.must(sendAll(s))
	l := onlyLog(t, store)
	for _, r := range l.runs {
		sound := store.objects[r.name()]
		changed := bytes.Clone(sound)
		changed[len(changed)/2] ^= 0x10
		store.objects[r.name()] = changed
		built, err := past.OpenOldest(t.Context(), NewChain(store, l, l.Spans[0]))
		if err == nil {
			err = built.Advance(past.Moment{}, nil)
			built.Close()
		}
		if err != nil || built.State().Digest() != e.State.Digest() {
			t.Fatalf("%s is damaged: %v", r.name(), err)
		}
		if damage := strings.Join(verifyAll(t, store), "\n"); !strings.Contains(damage, r.name()) || strings.Contains(damage, "cannot be built") {
			t.Errorf("%s: %q", r.name(), damage)
		}
		store.objects[r.name()] = sound
	}
}

// An error of the store is no damage: the check is not complete.
func TestVerifyIsNotComplete(t *testing.T) {
	_, store := damagedWorld(t)
	l := onlyLog(t, store)
	broken := errors.New("500 InternalError")
	for n := range 8 {
		if _, err := Verify(t.Context(), &failingStore{store, n, broken}, l, l.Spans[0]); !errors.Is(err, broken) {
			t.Errorf("error at the %d. object: %v", n, err)
		}
	}
}

// Names are read as they were made, and others are none.
func FuzzNames(f *testing.F) {
	r := run{log: testLog, before: EntryID{Index: 7, Term: 3, Sum: 9}, last: EntryID{Index: 12, Term: 4, Sum: 0xffffffff}, member: 200}
	s := state{log: testLog, index: 9, term: 2, digest: 1, member: 3, attempt: 1 << 63, at: past.AtTime(pastTime).Time()}
	f.Add(r.name())
	f.Add(s.dir())
	f.Add(strings.Replace(r.name(), "member-200", "member-0200", 1))
	f.Add("ensemble-00/entries/x")
	if got, ok := parseRun(r.name()); !ok || got != r {
		f.Fatalf("%+v, %t", got, ok)
	}
	if got, ok := parseState(s.dir()); !ok || got != s {
		f.Fatalf("%+v, %t", got, ok)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if r, ok := parseRun(name); ok && (r.name() != name || r.first() < 1 || r.last.Index < r.first()) {
			t.Errorf("%q is %+v", name, r)
		}
		if s, ok := parseState(name); ok && s.dir() != name {
			t.Errorf("%q is %+v", name, s)
		}
	})
}

// The objects of a year, one a minute, are joined in less than a second. To compare each with all others would take hours.
func TestYear(t *testing.T) {
	minutes := 366 * 24 * 60
	if testing.Short() {
		minutes /= 20
	}
	l := Log{Name: testLog}
	place := EntryID{}
	for i := range uint64(minutes) {
		r := run{log: testLog, before: place, last: EntryID{Index: place.Index + 1 + i%3, Term: 1 + i/10_000, Sum: uint32(i) * 7}, member: uint32(1 + i%3)}
		l.runs = append(l.runs, r)
		place = r.last
	}
	begun := time.Now()
	l.findSpans()
	if len(l.Spans) != 1 || l.Spans[0].Last != place.Index {
		t.Errorf("%d spans, the first up to %d, want %d", len(l.Spans), l.Spans[0].Last, place.Index)
	}
	t.Logf("%d objects in %v", minutes, time.Since(begun))
}
