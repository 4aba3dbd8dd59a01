package server

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// A connectionList agrees with a plain list, whatever is added and removed, and has fewer gaps than
// connections, except for the first few.
func TestRoster(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var r connectionList
	var plain []*conn
	next, most := uint64(0), 0
	for step := range 20_000 {
		leaves := 40
		if step/5000%2 == 1 {
			leaves = 60
		}
		switch n := rng.IntN(100); {
		case n >= leaves:
			next++
			c := &conn{localNumber: next}
			r.add(c)
			plain = append(plain, c)
		case len(plain) > 0:
			i := rng.IntN(len(plain))
			if !r.remove(plain[i]) || r.remove(plain[i]) {
				t.Fatalf("step %d: connection %d was not removed once", step, plain[i].localNumber)
			}
			plain = slices.Delete(plain, i, i+1)
		}
		if r.n != len(plain) || len(r.entries)-r.n > max(minGaps, r.n) {
			t.Fatalf("step %d: %d connections at %d places, want %d", step, r.n, len(r.entries), len(plain))
		}
		most = max(most, len(r.entries)-r.n)
		if step%50 != 0 {
			continue
		}
		first := rng.Uint64N(next + 2)
		want := slices.DeleteFunc(slices.Clone(plain), func(c *conn) bool { return c.localNumber < first })
		if got := r.appendFrom(make([]*conn, 0, len(want)+1), first); !slices.Equal(got, want) {
			t.Fatalf("step %d: %d connections from %d, want %d", step, len(got), first, len(want))
		}
		if n := len(want) / 2; !slices.Equal(r.appendFrom(make([]*conn, 0, n), first), want[:n]) {
			t.Fatalf("step %d: the first %d from %d are others", step, n, first)
		}
	}
	if most < minGaps { // to close them takes time for each connection
		t.Errorf("at most %d gaps: they are closed at each removal", most)
	}
	if r.remove(&conn{localNumber: next + 1}) || r.remove(&conn{}) {
		t.Error("a connection was removed that had never been added")
	}
}
