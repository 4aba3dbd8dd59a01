package quorum

import (
	"encoding/json"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/quorum/disk"
)

const seededIndex, seededTerm = 100, 7

// seed fills a member's empty directory with a state of one command.
func (e *ensemble) seed(id uint32, command string) {
	e.t.Helper()
	m := e.members[id]
	if m.dir == "" {
		m.dir = filepath.Join(e.t.TempDir(), "data")
	}
	if err := Seed(e.seedConfig(id, command)); err != nil {
		e.t.Fatal(err)
	}
}

func (e *ensemble) seedConfig(id uint32, command string) SeedConfig {
	return SeedConfig{
		DataDir: e.members[id].dir, MemberID: id, Peers: e.peers, StateMachine: &machine{}, SegmentBytes: testSegment,
		Index: seededIndex, Term: seededTerm, WriteState: stateOf(&machine{Index: seededIndex, Commands: []string{command}}),
	}
}

func stateOf(m *machine) func(io.Writer) error {
	return func(w io.Writer) error { return json.NewEncoder(w).Encode(m) }
}

// A seeded disk is the only voter of a new ensemble, whatever its number. The others start empty and copy its state. The
// ensemble continues in a later term.
func TestSeed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 3)
		e.seed(2, "old")
		e.start(1, 2, 3)
		e.wait("all to vote", func() bool { return len(e.members[2].node.status.VoterIDs()) == 3 })
		e.propose("new", 1, 2, 3)
		e.awaitApplied([]string{"old", "new"}, 1, 2, 3)
		if term := e.members[2].node.status.Term(); term <= seededTerm {
			t.Errorf("the term is %d, and that of the state %d", term, seededTerm)
		}
	})
}

// Two seeded disks are of two ensembles. Neither takes the other one in, and a member without data waits for the end of one.
func TestSeededTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 3)
		e.seed(1, "old")
		e.seed(2, "old")
		e.start(1, 2, 3)
		time.Sleep(time.Minute)
		for id, m := range e.members {
			if voters := m.node.status.VoterIDs(); len(voters) > 1 || id == 3 && (len(voters) != 0 || m.node.HasData()) {
				t.Errorf("member %d has the voters %v", id, voters)
			}
		}
		e.kill(2)
		e.members[2].dir = ""
		e.members[2].stores = memStores()
		e.start(2)
		e.wait("all to vote", func() bool { return len(e.members[1].node.status.VoterIDs()) == 3 })
	})
}

// Seed rejects a state from which no ensemble could start, and leaves the directory empty.
func TestSeedRefuses(t *testing.T) {
	tests := []struct {
		name  string
		spoil func(*SeedConfig)
		want  string
	}{
		{"index", func(p *SeedConfig) { p.Index = disk.BootstrapIndex }, "index 1 of a seed is not above 1"},
		{"term", func(p *SeedConfig) { p.Term = 0 }, "term 0"},
		{"late term", func(p *SeedConfig) { p.Term = MaxSeedTerm + 1 }, "is not between"},
		{"last term", func(p *SeedConfig) { p.Term = MaxSeedTerm }, ""},
		{"stranger", func(p *SeedConfig) { p.MemberID = 9 }, "this member, 9"},
		{"observer", func(p *SeedConfig) { p.Peers = slices.Clone(p.Peers); p.Peers[0].Observer = true }, "member 1 has no vote"},
		{"other index", func(p *SeedConfig) { p.WriteState = stateOf(&machine{Index: seededIndex - 1}) }, "it goes to index 99"},
		{"earlier term", func(p *SeedConfig) { p.WriteState = stateOf(&machine{Index: seededIndex}); p.Term = 1 }, ""},
		{"no state", func(p *SeedConfig) { p.WriteState = func(io.Writer) error { return nil } }, "the state that was written"},
		{"full disk", func(p *SeedConfig) {
			p.WriteState = func(w io.Writer) error {
				_, err := w.Write(make([]byte, 1<<20))
				return errors.Join(err, errors.New("no space"))
			}
		}, "no space"},
	}
	for _, tt := range tests {
		e := newEnsemble(t, 3)
		e.members[1].dir = t.TempDir()
		p := e.seedConfig(1, "old")
		tt.spoil(&p)
		err := Seed(p)
		if tt.want == "" {
			if err != nil {
				t.Errorf("%s: %v", tt.name, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
		if err := Seed(e.seedConfig(1, "old")); err != nil {
			t.Errorf("%s: the next try: %v", tt.name, err)
		}
	}
}

// A directory in which a member has run is not filled, nor is one that was filled. The directory is as before.
func TestSeedKeepsData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 1)
		e.seed(1, "old")
		again := e.seedConfig(1, "other")
		if err := Seed(again); !errors.Is(err, disk.ErrHasData) {
			t.Errorf("%v", err)
		}
		e.start(1)
		e.propose("new", 1)
		e.stop(1)
		if err := Seed(again); !errors.Is(err, disk.ErrHasData) {
			t.Errorf("%v", err)
		}
		e.start(1)
		e.awaitApplied([]string{"old", "new"}, 1)
	})
}
