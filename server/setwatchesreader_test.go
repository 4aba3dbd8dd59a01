package server

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"rollcall/zk/jute"
)

// A record that is read in parts of any size has the same contents as Decode returns. A part takes no more memory than
// its paths.
func TestSetWatchesReader(t *testing.T) {
	list := func(name string, n int) [][]byte {
		paths := [][]byte{}
		for i := range n {
			paths = append(paths, fmt.Appendf(nil, "/%s%d", name, i))
		}
		return paths
	}
	whole := jute.SetWatches2{RelativeZxid: 7, Data: list("d", 5), Exist: list("e", 0), Child: list("c", 9), Persistent: list("p", 1), Recursive: list("r", 3)}
	old := whole
	old.Persistent, old.Recursive = [][]byte{}, [][]byte{}
	for _, tt := range []struct {
		op   jute.Op
		body []byte
		want jute.SetWatches2
	}{
		{jute.OpSetWatches2, whole.Append(nil), whole},
		{jute.OpSetWatches, jute.SetWatches{RelativeZxid: 7, Data: whole.Data, Exist: whole.Exist, Child: whole.Child}.Append(nil), old},
	} {
		for most := 1; most < 20; most++ {
			r := newSetWatchesReader(tt.op, tt.body)
			got := jute.SetWatches2{RelativeZxid: 7, Data: [][]byte{}, Exist: [][]byte{}, Child: [][]byte{}, Persistent: [][]byte{}, Recursive: [][]byte{}}
			for r.hasMore() {
				part := r.next(most)
				if n := len(slices.Concat(part.Data, part.Exist, part.Child, part.Persistent, part.Recursive)); n == 0 || n > most ||
					part.RelativeZxid != 7 {
					t.Fatalf("most %d: a part of %d: %+v", most, n, part)
				}
				got.Data, got.Exist, got.Child = append(got.Data, part.Data...), append(got.Exist, part.Exist...), append(got.Child, part.Child...)
				got.Persistent, got.Recursive = append(got.Persistent, part.Persistent...), append(got.Recursive, part.Recursive...)
			}
			if r.err() != nil || !reflect.DeepEqual(got, tt.want) {
				t.Errorf("most %d: %+v, %v; want %+v", most, got, r.err(), tt.want)
			}
		}
	}
}

// A long record costs no more memory than its parts: it is read before anybody else's turn.
func TestSetWatchesReaderAllocatesParts(t *testing.T) {
	none, paths := [][]byte{}, slices.Repeat([][]byte{[]byte("/a")}, 100_000)
	body := jute.SetWatches2{Data: paths, Exist: none, Child: none, Persistent: none, Recursive: none}.Append(nil)
	if allocs := testing.AllocsPerRun(3, func() {
		for r := newSetWatchesReader(jute.OpSetWatches2, body); r.hasMore(); {
			r.next(128)
		}
	}); allocs > 32 {
		t.Errorf("%v allocations for %d parts", allocs, len(paths)/128)
	}
}

// Null lists and a frame that ends early are seen as by Decode.
func TestSetWatchesReaderRefuses(t *testing.T) {
	none := [][]byte{}
	sound := jute.SetWatches2{Data: [][]byte{[]byte("/a"), nil}, Exist: none, Child: nil, Persistent: none, Recursive: none}.Append(nil)
	r := newSetWatchesReader(jute.OpSetWatches2, sound)
	if part := r.next(9); part.Child != nil || part.Exist == nil || part.Data[1] != nil || r.err() != nil {
		t.Errorf("%+v, %v", part, r.err())
	}
	for n := range len(sound) {
		r := newSetWatchesReader(jute.OpSetWatches2, sound[:n])
		for r.hasMore() {
			r.next(1)
		}
		if r.err() == nil {
			t.Errorf("no error of %d of %d bytes", n, len(sound))
		}
	}
}

// No step under the tree's lock sets more than pathsPerLock paths, and no turn more than pathsPerPart.
func TestSetWatchesSteps(t *testing.T) {
	none := [][]byte{}
	body := jute.SetWatches2{
		Data: none, Exist: pathList(slices.Repeat([]string{"/none"}, pathsPerPart+1)), Child: none,
		Persistent: pathList(slices.Repeat([]string{"/p"}, 3*pathsPerPart)), Recursive: none,
	}
	count := func(part *jute.SetWatches2) int {
		return len(slices.Concat(part.Data, part.Exist, part.Child, part.Persistent, part.Recursive))
	}
	want, total := count(&body), 0
	for r := newSetWatchesReader(jute.OpSetWatches2, body.Append(nil)); r.hasMore(); {
		ofTurn := 0
		for step := range r.steps(pathsPerPart, pathsPerLock) {
			n := count(step)
			if n > pathsPerLock {
				t.Errorf("%d paths under one hold of the lock", n)
			}
			ofTurn += n
		}
		if total += ofTurn; ofTurn > pathsPerPart || r.hasMore() && ofTurn < pathsPerPart {
			t.Errorf("%d paths in a turn", ofTurn)
		}
	}
	if total != want {
		t.Errorf("%d paths in all, want %d", total, want)
	}
}
