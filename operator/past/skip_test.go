package past_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"rollcall/operator/past"
	"rollcall/znode"
)

// The ways in which a snapshot cannot be used: it has vanished, or its head or its end is damaged.
var spoilers = map[string]func(r *recorded, s past.Snapshot){
	"vanished":     func(r *recorded, s past.Snapshot) { delete(r.Images, s.Name) },
	"damaged head": func(r *recorded, s past.Snapshot) { r.Images[s.Name][12] ^= 1 },
	"damaged end":  func(r *recorded, s past.Snapshot) { b := r.Images[s.Name]; b[len(b)-1] ^= 1 },
}

// Whichever snapshot cannot be used, every state is the one that the members had, and the snapshot is named if it was needed.
func TestSnapshotIsSkipped(t *testing.T) {
	for name, spoil := range spoilers {
		for number := range 6 {
			r := record(t, 7)
			spoiled := r.Kept[number]
			spoil(r, spoiled)
			named := 0
			for i, zxid := range r.zxids {
				l := open(t, r, past.AtZxid(zxid))
				if l.State().Digest() != r.digests[i] {
					t.Fatalf("%s %s: the state at 0x%x is another one", name, spoiled.Name, zxid)
				}
				for _, err := range l.NewlySkipped() {
					if named++; !errors.Is(err, past.ErrDamaged) && !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), spoiled.Name) {
						t.Errorf("%s %s: skipped with %v", name, spoiled.Name, err)
					}
				}
				if again := l.NewlySkipped(); len(again) > 0 {
					t.Errorf("%s %s: named again: %v", name, spoiled.Name, again)
				}
			}
			if named == 0 {
				t.Errorf("%s %s: not named", name, spoiled.Name)
			}
			if l := open(t, r, past.Moment{}); l.State().Digest() != r.State.Digest() {
				t.Errorf("%s %s: the newest state is another one", name, spoiled.Name)
			}
		}
	}
}

// A state that moves over a snapshot which cannot be used continues with the entries.
func TestPassesSkippedSnapshot(t *testing.T) {
	for name, spoil := range spoilers {
		r := record(t, 7)
		spoil(r, r.Kept[1])
		l, err := past.OpenOldest(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		l.CompareAll()
		changes := 0
		err = l.Advance(past.Moment{}, func(*znode.Change) error { changes++; return nil })
		if err != nil || changes != 41 || l.State().Digest() != r.State.Digest() || len(l.NewlySkipped()) != 1 {
			t.Errorf("%s: %d changes, %v", name, changes, err)
		}
	}
}

// If the log begins with a snapshot that cannot be used, the next one is the beginning. Earlier moments are errors that name the first one.
func TestOldestIsSkipped(t *testing.T) {
	for name, spoil := range spoilers {
		r := record(t, 7)
		oldest, next := r.Kept[1], r.Kept[2]
		r.Kept, r.First = r.Kept[1:], oldest.Index+1
		spoil(r, oldest)
		l, err := past.OpenOldest(t.Context(), r)
		if err != nil || l.Point().Index != next.Index {
			t.Fatalf("%s: the oldest state: %v", name, err)
		}
		l.Close()
		between := past.AtZxid(r.zxids[next.Index-5])
		if _, err := past.Open(t.Context(), r, between); !errors.Is(err, past.ErrTooEarly) || !strings.Contains(err.Error(), oldest.Name) {
			t.Errorf("%s: between the first two snapshots: %v", name, err)
		}
		if reaches, err := past.Reaches(t.Context(), r, between); err != nil || reaches && name != "damaged end" { // only heads are read
			t.Errorf("%s: reaches %t, %v", name, reaches, err)
		}
		for _, s := range r.Kept[1:] {
			spoil(r, s)
		}
		if _, err := past.Open(t.Context(), r, past.Moment{}); err == nil ||
			!strings.Contains(err.Error(), "no snapshot before that can be read") {
			t.Errorf("%s: without any snapshot: %v", name, err)
		}
	}
}

// An error that is not about a snapshot, such as one of the network, is returned: the next snapshot would meet it, too.
func TestOtherErrorsAreReturned(t *testing.T) {
	r := record(t, 7)
	r.OpenError = func(past.Snapshot) error { return fmt.Errorf("connection refused") }
	for _, m := range []past.Moment{{}, past.AtZxid(r.zxids[20])} {
		if _, err := past.Open(t.Context(), r, m); err == nil || !strings.Contains(err.Error(), "connection refused") {
			t.Errorf("%v: %v", m, err)
		}
	}
}

// A later chain of the same log may lack the snapshots that the state has not passed yet.
func TestExtendSkips(t *testing.T) {
	for name, spoil := range spoilers {
		r := record(t, 7)
		l := open(t, r, past.AtZxid(r.zxids[15]))
		after := r.Kept[3]
		spoil(r, after)
		l.Extend(r)
		passes, err := l.PassesSnapshot(past.AtZxid(r.zxids[after.Index-1]))
		if want := name == "damaged end"; err != nil || !passes && want {
			t.Errorf("%s: passes %t, %v", name, passes, err)
		}
		if err := l.Advance(past.Moment{}, nil); err != nil || l.State().Digest() != r.State.Digest() || len(l.NewlySkipped()) != 1 {
			t.Errorf("%s: %v", name, err)
		}
	}
}
