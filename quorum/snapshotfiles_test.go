package quorum

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/hashicorp/raft"

	"rollcall/quorum/disk"
	"rollcall/quorum/wire"
)

// storeSnapshot stores a snapshot of term 2, and returns its name.
func storeSnapshot(t *testing.T, s raft.SnapshotStore, index uint64, body string, servers raft.Configuration) string {
	t.Helper()
	_, trans := raft.NewInmemTransport("")
	sink, err := s.Create(1, index, 2, servers, 1, trans)
	if err == nil {
		_, err = io.WriteString(sink, body)
		err = errors.Join(err, sink.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	return sink.ID()
}

// snapshot reports whether a member has stored a snapshot.
func (e *ensemble) snapshot(id uint32) bool {
	e.t.Helper()
	newest, err := e.members[id].node.disk.NewestSnapshotIndex()
	if err != nil {
		e.t.Fatal(err)
	}
	return newest > 0
}

// logged returns the bounds of the log in a directory that is not in use.
func logged(t *testing.T, dir string) (bounds [2]uint64) {
	t.Helper()
	log, err := disk.OpenLogReader(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	bounds[0], _ = log.FirstIndex()
	bounds[1], _ = log.LastIndex()
	return bounds
}

// raise makes the index in a snapshot's metadata greater by one bit, or the term.
func raise(t *testing.T, snapshot, field string) {
	t.Helper()
	path := filepath.Join(snapshot, metaFile)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := strings.Index(string(text), `"`+field+`":`) + len(field) + 3
	for !greaterDigit(text[at]) {
		at++
	}
	for bit := byte(8); ; bit >>= 1 {
		if d := text[at] ^ bit; d > text[at] && d <= '9' {
			text[at] = d
			break
		}
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// greaterDigit reports whether flipping one bit makes the digit greater.
func greaterDigit(d byte) bool { return d != '7' && d != '9' }

// A wrong bit in a snapshot's metadata never costs an entry of the log: the member continues
// without that snapshot, or reports what is wrong.
func TestFlippedSnapshotDeletesNothing(t *testing.T) {
	t.Parallel()
	for _, field := range []string{"Index", "Term"} {
		t.Run(field, func(t *testing.T) {
			dir := t.TempDir()
			var all []string
			synctest.Test(t, func(t *testing.T) {
				e := newEnsemble(t, 1)
				e.compact()
				e.members[1].dir = dir
				e.start(1)
				all = e.proposeMany(30, 1)
				e.wait("a snapshot", func() bool { return e.snapshot(1) })
				for _, c := range []string{"x", "y", "z"} {
					e.propose(c, 1)
				}
				all = append(all, "x", "y", "z")
				e.stop(1)
			})
			snaps, _ := filepath.Glob(filepath.Join(own(dir), snapshotsDir, "*"))
			for _, s := range snaps {
				raise(t, s, field)
			}
			before := logged(t, dir)
			synctest.Test(t, func(t *testing.T) {
				e := newEnsemble(t, 1)
				e.members[1].dir = dir
				if err := e.tryStart(1); err == nil && before[0] == 1 {
					e.awaitApplied(all, 1)
					e.stop(1)
				} else if err == nil {
					t.Error("started without the beginning of the log")
				} else if !errors.Is(err, disk.ErrDamaged) || !strings.Contains(err.Error(), metaFile) || !strings.Contains(err.Error(), "other members") {
					t.Errorf("Open: %v, want ErrDamaged, naming %s", err, metaFile)
				}
			})
			if after := logged(t, dir); after[0] != before[0] || after[1] < before[1] {
				t.Errorf("the log was %v and is %v", before, after)
			}
		})
	}
}

// A snapshot without voters keeps a member from starting.
// Otherwise the member would wait for ever for a leader.
func TestSnapshotOfOtherServers(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		servers raft.Configuration
		want    error
	}{
		"none":      {raft.Configuration{}, disk.ErrDamaged},
		"strangers": {raft.Configuration{Servers: []raft.Server{{ID: "m1", Address: "m1:3888"}}}, disk.ErrDamaged},
		"observers": {wire.RaftConfiguration([]wire.Peer{{ID: 1, DiskID: 1, Addr: "m1:3888", Observer: true}}), disk.ErrDamaged},
	} {
		t.Run(name, func(t *testing.T) {
			dir, cfg := filledDirectory(t)
			m := &machine{Index: 4, Commands: []string{"a", "b", "c"}}
			body, err := json.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			d := openStopped(t, dir)
			at := storeSnapshot(t, d.Snapshots(), 4, string(body), tt.servers)
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			n, err := Open(cfg)
			if err == nil {
				n.Close()
			}
			if !errors.Is(err, tt.want) || !strings.Contains(err.Error(), at) {
				t.Errorf("Open: %v, want %v, naming %s", err, tt.want, at)
			}
		})
	}
}

// A snapshot of a newer version is reported as such, and the member says that nothing is damaged.
func TestSnapshotOfNewerVersion(t *testing.T) {
	t.Parallel()
	body, err := json.Marshal(&machine{Index: 900, Newer: true})
	if err != nil {
		t.Fatal(err)
	}
	newer := func(err error) bool {
		return errors.Is(err, disk.ErrNewerFormat) && !errors.Is(err, disk.ErrDamaged) &&
			strings.Contains(err.Error(), "start the newer version") &&
			regexp.MustCompile(`snapshot \S*\b2-\d+-`).MatchString(err.Error()) && !strings.Contains(err.Error(), "other members")
	}
	for _, log := range []string{"follows", "ends before", "is gone"} {
		t.Run("log "+log, func(t *testing.T) {
			dir, cfg := filledDirectory(t)
			index := map[string]uint64{"follows": 3, "ends before": 900, "is gone": 900}[log]
			d := openStopped(t, dir)
			storeSnapshot(t, d.Snapshots(), index, strings.Replace(string(body), "900", fmt.Sprint(index), 1), wire.RaftConfiguration([]wire.Peer{{ID: 1, DiskID: d.ID(), Addr: "m1:3888"}}))
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			if log == "is gone" {
				emptyLog(t, dir)
			}
			synctest.Test(t, func(t *testing.T) {
				e := newEnsemble(t, 1)
				e.members[1].dir = dir
				err := e.tryStart(1)
				if err == nil {
					err = e.awaitEnd(1)
				}
				if !newer(err) {
					t.Errorf("start: %v", err)
				}
			})
			if err := Recover(RecoverConfig{DataDir: dir, MemberID: 1, Peers: cfg.Peers, StateMachine: &machine{}}); !newer(err) {
				t.Errorf("Recover: %v", err)
			}
		})
	}
}
