package archive

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"rollcall/operator/past"
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
	if l := theLog(t, store); len(l.states) != 2 || len(l.runs) < 3 {
		t.Fatalf("%d snapshots, %d objects", len(l.states), len(l.runs))
	}
	return e, store
}

// verifyAll verifies all spans, and returns the damage.
func verifyAll(t *testing.T, store Store) (damage []string) {
	t.Helper()
	l := theLog(t, store)
	for _, s := range l.Spans {
		v, err := Verify(t.Context(), store, l, s)
		if err != nil {
			t.Fatal(err)
		}
		damage = append(damage, v.Damage...)
	}
	return damage
}

// content returns what an object has, not compressed.
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
	l := theLog(t, store)
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
		store.objects[tt.object] = sound
	}
	sound := store.objects[run]
	delete(store.objects, run)
	found := theLog(t, store)
	if len(found.Spans) != 2 {
		t.Errorf("an object is gone: %+v", found.Spans)
	}
	store.objects[run] = sound
	delete(store.objects, l.states[0].partName(1, true))
	if found := theLog(t, store); len(found.Unfinished) != 0 || len(found.states) != 1 {
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
	l, wrong := theLog(t, store), theLog(t, other).states[0]
	if l.states[0].index != wrong.index {
		t.Fatalf("snapshots of %d and %d", l.states[0].index, wrong.index)
	}
	delete(store.objects, l.states[0].partName(1, true))
	store.objects[wrong.partName(1, true)] = other.objects[wrong.partName(1, true)]
	if damage := strings.Join(verifyAll(t, store), "\n"); !strings.Contains(damage, "is not what the members had") {
		t.Errorf("%q", damage)
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
	l := theLog(t, store)
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
	l := theLog(t, store)
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
