package archive

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"rollcall/operator/past"
	"rollcall/quorum/disk"
	"rollcall/znode"
)

// Verified is the result of a check of one span.
type Verified struct {
	Log         string
	From, To    past.Point // the oldest and the newest moment; zero if none can be built
	Entries     uint64
	Snapshots   int
	Objects     int // that were read and are sound
	Bytes       int64
	Damage      []string // objects that cannot be used, and moments that cannot be built
	LastIndexed uint64   // index of the last entry
}

// Verify reads every object of a span, builds its oldest state and all that follow, and compares each of its snapshots with the state
// that the entries give, and the entries that several objects have. Damage is in the result. The error is one of the store, or of ctx, and then the check is not complete.
func Verify(ctx context.Context, store Store, l *Log, s Span) (Verified, error) {
	v := verifier{store: store, log: l, span: s, whole: map[string]bool{}, damaged: map[string]bool{}}
	v.result = Verified{Log: l.Name, LastIndexed: s.Last, Snapshots: len(s.states)}
	if s.Last >= s.First {
		v.result.Entries = s.Last - s.First + 1
	}
	if err := v.readStates(ctx); err != nil {
		return v.result, err
	}
	if err := v.buildStates(ctx); err != nil {
		return v.result, err
	}
	if err := v.readOtherRuns(ctx); err != nil {
		return v.result, err
	}
	return v.result, v.compareRuns(ctx)
}

type verifier struct {
	store          Store
	log            *Log
	span           Span
	whole, damaged map[string]bool // objects that were read
	result         Verified
}

// isDamage reports whether an error is about the content of an archive, and not about the way to it.
func isDamage(err error) bool {
	return errors.Is(err, disk.ErrDamaged) || errors.Is(err, past.ErrDamaged) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, znode.ErrCorrupt)
}

// noteDamage notes a damaged object. Another error, such as one of the network, is returned.
func (v *verifier) noteDamage(name string, err error) error {
	if !isDamage(err) {
		return err
	}
	v.damaged[name] = true
	v.addDamage("%v", err)
	return nil
}

// addDamage adds a line to the result. The building of states and the reading of objects may find the same damage.
func (v *verifier) addDamage(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(v.result.Damage, text) {
		v.result.Damage = append(v.result.Damage, text)
	}
}

// readStates reads every snapshot to its end.
func (v *verifier) readStates(ctx context.Context) error {
	sound := v.span.states[:0:0]
	for _, s := range v.span.states {
		err := readState(ctx, v.store, s)
		if err == nil {
			sound = append(sound, s)
			v.result.Objects += s.parts
			v.result.Bytes += s.bytes
			continue
		}
		if err := v.noteDamage(s.dir(), err); err != nil {
			return err
		}
	}
	v.span.states = sound
	return nil
}

// readState reads a snapshot to its end, and compares its digest with that in its name.
func readState(ctx context.Context, store Store, s state) error {
	r, err := openState(ctx, store, s)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }() // it was read
	if _, err = r.VerifyRest(znode.ImageVisitor{}); err != nil {
		return r.wrap(err)
	}
	return nil
}

// buildStates builds all states that it can: from the oldest snapshot on, and after damage from the next one on.
func (v *verifier) buildStates(ctx context.Context) error {
	begin, ok := v.span.Begins()
	if !ok {
		v.addDamage("%s: no moment of the entries %d to %d can be built: there is no snapshot before them",
			v.log.Name, v.span.First, v.span.Last)
	}
	for ok {
		reached, err := v.buildFrom(ctx, begin)
		if err == nil {
			return nil
		}
		if !isDamage(err) {
			return err
		}
		v.addDamage("%v", err)
		if begin, ok = v.snapshotAfter(reached); ok {
			v.addDamage("%s: the moments after index %d and before index %d cannot be built",
				v.log.Name, reached, begin)
		} else {
			v.addDamage("%s: the moments after index %d, up to %d, cannot be built", v.log.Name,
				reached, v.span.Last)
		}
	}
	return nil
}

// snapshotAfter returns the index of the first sound snapshot after an index.
func (v *verifier) snapshotAfter(index uint64) (uint64, bool) {
	for _, s := range v.span.states {
		if s.index > index {
			return s.index, true
		}
	}
	return 0, false
}

// buildFrom builds the state of index begin, and those after it up to the end. It returns the index that it reached.
func (v *verifier) buildFrom(ctx context.Context, begin uint64) (reached uint64, err error) {
	part := v.span
	for len(part.states) > 0 && part.states[0].index < begin {
		part.states = part.states[1:]
	}
	if begin > 0 {
		part.First = begin + 1
	}
	chain := NewChain(v.store, v.log, part)
	chain.noteWhole = func(name string) { v.whole[name] = true }
	l, err := past.OpenOldest(ctx, chain)
	if err != nil {
		return begin, err
	}
	defer l.Close()
	if v.result.From.Index == 0 {
		v.result.From = l.Point()
	}
	l.CompareAll()
	err = l.Advance(past.Moment{}, nil)
	for _, skipped := range l.NewlySkipped() { // it was sound when it was read, and was removed or changed meanwhile
		v.addDamage("%v", skipped)
	}
	v.result.To = l.Point()
	return l.Point().Index, err
}

// readOtherRuns reads the objects with entries of the span that the states did not need, or that are after damage.
func (v *verifier) readOtherRuns(ctx context.Context) error {
	for _, r := range v.log.runs {
		if r.last.Index < v.span.First || r.first() > v.span.Last {
			continue
		}
		if !v.whole[r.name()] {
			failed := error(nil)
			for _, err := range readRun(ctx, v.store, r) {
				failed = err
			}
			if failed != nil {
				if err := v.noteDamage(r.name(), failed); err != nil {
					return err
				}
				continue
			}
		}
		v.result.Objects++
		v.result.Bytes += r.bytes
	}
	return nil
}

// entryOrigin is an entry, and the object in which it was read.
type entryOrigin struct {
	id     EntryID
	object string
}

// compareRuns compares the entries that several objects have. Members of one ensemble send the same ones.
func (v *verifier) compareRuns(ctx context.Context) error {
	seen := map[uint64]entryOrigin{} // of the objects that may overlap with the next one: at most maxRunEntries before its first entry
	reach := uint64(0)
	for i, r := range v.log.runs {
		isLast := i == len(v.log.runs)-1
		overlaps := r.first() <= reach || !isLast && v.log.runs[i+1].first() <= r.last.Index
		reach = max(reach, r.last.Index)
		if r.last.Index < v.span.First || r.first() > v.span.Last || v.damaged[r.name()] || !overlaps {
			continue
		}
		maps.DeleteFunc(seen, func(index uint64, _ entryOrigin) bool { return index < r.first() })
		if err := v.compareRun(ctx, r, seen); err != nil {
			return err
		}
	}
	return nil
}

// compareRun compares the entries of a run with those seen, and adds them. It reports the first that differs.
func (v *verifier) compareRun(ctx context.Context, r run, seen map[uint64]entryOrigin) error {
	for e, err := range readRun(ctx, v.store, r) {
		if err != nil {
			return v.noteDamage(r.name(), err)
		}
		was, found := seen[e.Index]
		switch id := IDOf(e); {
		case !found:
			seen[e.Index] = entryOrigin{id, r.name()}
		case was.id != id:
			v.addDamage("%s and %s have different entries %d: two ensembles with one identity have written here, and later moments may be "+
				"those of either of them", v.store.Location(was.object), v.store.Location(r.name()), e.Index)
			return nil
		}
	}
	return nil
}
