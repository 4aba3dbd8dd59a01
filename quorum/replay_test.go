package quorum

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"rollcall/quorum/disk"
)

// The data of a member that was stopped have all entries, in order, whether its log was compacted or not, and however
// often they are read.
func TestReplay(t *testing.T) {
	t.Parallel()
	for _, compacted := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			e, all := lost(t, 3, map[bool]int{false: 3, true: 3 * minTrailing}[compacted])
			var first disk.DataEnd
			for i := range 2 {
				m := &machine{}
				extent, err := Replay(ReplayConfig{DataDir: e.members[1].dir, StateMachine: m, SegmentBytes: testSegment})
				if err != nil {
					t.Fatal(err)
				}
				if got := m.commands(); !slices.Equal(got, all) || len(m.gaps) > 0 {
					t.Errorf("compacted %t: %d commands of %d, and gaps at %v", compacted, len(got), len(all), m.gaps)
				}
				if extent.Index != m.Index || extent.Term == 0 || m.restored != map[bool]int{true: 1}[compacted] {
					t.Errorf("compacted %t: %+v, the machine is at %d after %d snapshots", compacted, extent, m.Index, m.restored)
				}
				if i > 0 && (extent.Index != first.Index || extent.Term != first.Term) {
					t.Errorf("the second time it goes to %+v, the first time to %+v", extent, first)
				}
				first = extent
			}
		})
	}
}

// A directory whose state no member could serve is rejected, with the reason.
func TestReplayRefuses(t *testing.T) {
	t.Parallel()
	if _, err := Replay(ReplayConfig{DataDir: t.TempDir(), StateMachine: &machine{}}); !errors.Is(err, disk.ErrNoData) {
		t.Errorf("no directory of ours: %v, want ErrNoData", err)
	}
	dir, cfg := filledDirectory(t)
	refused := func(m *machine, want string) {
		t.Helper()
		if _, err := Replay(ReplayConfig{DataDir: dir, StateMachine: m}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	refused(&machine{refuse: "b"}, `machine refuses "b"`)
	change := func(change func(n *Node) error) {
		t.Helper()
		n, err := Open(cfg)
		if err != nil {
			t.Fatal(err)
		}
		refused(&machine{}, disk.ErrInUse.Error())
		if err := change(n); err != nil {
			t.Fatal(err)
		}
		n.Close()
	}
	change(func(n *Node) error { return n.disk.Stable().Set(keyDamage, []byte("another digest")) })
	refused(&machine{}, "another digest")
}
