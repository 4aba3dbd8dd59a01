package cluster

import (
	"slices"
	"testing"
	"testing/synctest"
)

// A member that comes later, and one that has moved, start with the present members and their own addresses.
// Neither is a member before a change of the list has been made.
func TestNewcomersList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := Start(t, 3, Options{})
		e.Ready()
		e.Add(5)
		e.Kill(2)
		e.Move(2)
		if got, want := e.ServerLine(2, true), "server.2=m2-1:2888:3888:observer;m2:2181"; got != want {
			t.Errorf("line %q, want %q", got, want)
		}
		for id, want := range map[uint32][]string{5: {"m1:3888", "m2:3888", "m3:3888", "m5:3888"}, 2: {"m1:3888", "m3:3888", "m2-1:3888"}} {
			var got []string
			for _, s := range e.members[id].list {
				got = append(got, s.RaftAddr)
			}
			if !slices.Equal(got, want) {
				t.Errorf("member %d starts with %q, want %q", id, got, want)
			}
		}
		if got := e.Members(); !slices.Equal(got, []uint32{1, 2, 3}) || !slices.Equal(e.IDs(), []uint32{1, 2, 3, 5}) {
			t.Errorf("members %v of %v, want 1 to 3 of 1, 2, 3 and 5", got, e.IDs())
		}
	})
}
