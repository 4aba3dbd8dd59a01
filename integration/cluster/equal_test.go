package cluster

import (
	"testing"

	"rollcall/znode"
)

// A comparison of states counts only if all of them had applied the same entries throughout it.
func TestCompare(t *testing.T) {
	apply := func(s *znode.State, index uint64) {
		s.Lock()
		defer s.Unlock()
		if err := s.ApplyEntry(index, 1, nil); err != nil {
			t.Fatal(err)
		}
	}
	states := func(indexes ...uint64) (all []*znode.State) {
		for _, i := range indexes {
			s := znode.New(znode.Config{})
			for n := range i {
				apply(s, n+1)
			}
			all = append(all, s)
		}
		return all
	}
	same := func(*znode.State, *znode.State) string { return "" }
	other := func(*znode.State, *znode.State) string { return "zxid" }
	for _, tt := range []struct {
		name    string
		states  []*znode.State
		diff    func(a, b *znode.State) string
		how     string
		settled bool
	}{
		{"equal", states(3, 3, 3), same, "", true},
		{"different", states(3, 3), other, "zxid", true},
		{"one behind", states(3, 2), other, "", false},
		{"an entry between the looks at two", states(3, 3), func(_, b *znode.State) string { apply(b, 4); return "index 3, 4" }, "index 3, 4", false},
		{"an entry on the first meanwhile", states(3, 3, 3), func(a, _ *znode.State) string { apply(a, index(a)+1); return "" }, "", false},
		{"one alone", states(3), other, "", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if how, settled := compare(tt.states, tt.diff); how != tt.how || settled != tt.settled {
				t.Errorf("%q, settled %t; want %q, %t", how, settled, tt.how, tt.settled)
			}
		})
	}
}
