package quorum

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"rollcall/proto"
	"rollcall/quorum/disk"
	"rollcall/quorum/wire"
)

// idleStream is a stream layer of a member that is opened but not run.
type idleStream struct{ testAddr }

func (s idleStream) Addr() net.Addr          { return s.testAddr }
func (idleStream) Accept() (net.Conn, error) { return nil, net.ErrClosed }
func (idleStream) Close() error              { return nil }
func (idleStream) Dial(raft.ServerAddress, time.Duration) (net.Conn, error) {
	return nil, net.ErrClosed
}

var testPeers = []wire.Peer{{ID: 1, Addr: "m1:3888"}, {ID: 2, Addr: "m2:3888"}, {ID: 3, Addr: "m3:3888"}}

func directoryConfig(dir string, self uint32) Config {
	return Config{
		MemberID: self, Peers: testPeers, DataDir: dir, StreamLayer: idleStream{testAddr(testPeers[self-1].Addr)},
		StateMachine: &machine{}, HeartbeatTimeout: testHeartbeat, StallLimit: testStallLimit, SegmentBytes: testSegment,
		SendHello: func(context.Context, wire.Peer) (*proto.HelloReply, error) { return nil, errors.New("nobody") },
	}
}

// Names of files and directories that disk makes. docs/storage.md lists them.
const (
	ownName      = "rollcall"
	identityName = "identity.json"
	logName      = "raft.db"
	walName      = "wal"
	snapshotsDir = "snapshots"
	metaFile     = "meta.json"
	receiving    = "receiving-" // begins the name of a snapshot that is being received
)

// own returns the member's own directory in dir.
func own(dir string) string { return filepath.Join(dir, ownName) }

func openAndClose(t *testing.T, cfg Config) {
	t.Helper()
	n, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o750), os.WriteFile(path, []byte(text), 0o640)); err != nil {
		t.Fatal(err)
	}
}

func TestDirectoryInUse(t *testing.T) {
	t.Parallel()
	cfg := directoryConfig(t.TempDir(), 1)
	n, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(cfg); !errors.Is(err, disk.ErrInUse) || !strings.Contains(err.Error(), "data directory") {
		t.Errorf("second Open: %v, want ErrInUse of the data directory", err)
	}
	if err := Recover(RecoverConfig{DataDir: cfg.DataDir, MemberID: 1, Peers: testPeers[:1], StateMachine: &machine{}}); !errors.Is(err, disk.ErrInUse) {
		t.Errorf("Recover: %v, want ErrInUse", err)
	}
	n.Close()
	openAndClose(t, cfg)
}

// The order in which the configuration lists the servers does not matter.
func TestServersInAnotherOrder(t *testing.T) {
	t.Parallel()
	cfg := directoryConfig(t.TempDir(), 1)
	openAndClose(t, cfg)
	cfg.Peers = []wire.Peer{testPeers[2], testPeers[0], testPeers[1]}
	openAndClose(t, cfg)
}

// openStopped opens the data in the directory of a member that does not run.
func openStopped(t *testing.T, dir string) *disk.Data {
	t.Helper()
	d, err := disk.OpenStopped(disk.Config{DataDir: dir, SegmentBytes: testSegment, RaftLogger: hclog.NewNullLogger()})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// emptyLog removes all entries from the log in the directory of a member that does not run.
func emptyLog(t *testing.T, dir string) {
	t.Helper()
	d := openStopped(t, dir)
	last, _ := d.Log().LastIndex()
	if err := errors.Join(d.Log().DeleteRange(1, last), d.Close()); err != nil {
		t.Fatal(err)
	}
}

// filledDirectory returns the directory of a single member that has applied some commands.
func filledDirectory(t *testing.T) (dir string, cfg Config) {
	t.Helper()
	dir = t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 1)
		e.members[1].dir = dir
		e.start(1)
		for _, c := range []string{"a", "b", "c"} {
			e.propose(c, 1)
		}
		e.stop(1)
	})
	cfg = directoryConfig(dir, 1)
	cfg.Peers = []wire.Peer{{ID: 1, Addr: "m1:3888"}}
	return dir, cfg
}

// On real files: after a stop, everything that was applied is restored from log and snapshot.
func TestFilesSurvive(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 1)
		e.compact()
		e.members[1].dir = dir
		e.start(1)
		all := e.proposeMany(3*minTrailing, 1)
		n := e.members[1].node
		e.wait("a snapshot and a shorter log", func() bool {
			first, _ := n.disk.Log().FirstIndex()
			return first > 1
		})
		e.stop(1)
		write(t, filepath.Join(own(dir), snapshotsDir, "1-9-9.tmp", "state.bin"), "half")
		write(t, filepath.Join(own(dir), "receiving-1.tmp"), "half")
		e.start(1)
		e.awaitApplied(all, 1)
		if e.members[1].machine.restored != 1 {
			t.Error("the snapshot was not used")
		}
		e.stop(1)
		for _, left := range []string{filepath.Join(snapshotsDir, "1-9-9.tmp"), "receiving-1.tmp"} {
			if _, err := os.Stat(filepath.Join(own(dir), left)); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s was left: %v", left, err)
			}
		}
	})

	// If the newest snapshot is damaged and the log does not reach as far, the member does not
	// start.
	snaps, err := filepath.Glob(filepath.Join(own(dir), snapshotsDir, "*", "state.bin"))
	if err != nil || len(snaps) == 0 {
		t.Fatal(snaps, err)
	}
	slices.Sort(snaps)
	for _, damage := range []string{"state.bin", "meta.json"} {
		write(t, filepath.Join(filepath.Dir(snaps[len(snaps)-1]), damage), "{")
		synctest.Test(t, func(t *testing.T) {
			e := newEnsemble(t, 1)
			e.members[1].dir = dir
			if err := e.tryStart(1); err == nil {
				e.members[1].err = e.awaitEnd(1)
			} else if !errors.Is(err, disk.ErrDamaged) {
				t.Errorf("%s damaged: Open: %v, want ErrDamaged", damage, err)
			}
			if m := e.members[1]; m.done != nil && !errors.Is(m.err, disk.ErrDamaged) {
				t.Errorf("%s damaged: Run: %v, want ErrDamaged", damage, m.err)
			}
		})
	}
}

// The newest snapshot was installed, so there is no older log, and it is damaged. There is an older
// snapshot, but a start from it would forget entries that others count on.
func TestDamagedSnapshotIsNotSkipped(t *testing.T) {
	t.Parallel()
	for _, part := range []string{"state.bin", "meta.json"} {
		t.Run(part, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newEnsemble(t, 1)
				e.compact()
				dir := t.TempDir()
				e.members[1].dir = dir
				e.start(1)
				snapshots := func() []string {
					all, _ := filepath.Glob(filepath.Join(own(dir), snapshotsDir, "*-*-*[0-9]"))
					slices.Sort(all)
					return all
				}
				for round := range 2 {
					e.proposeMany(30, 1)
					e.wait("a snapshot", func() bool { return len(snapshots()) > round })
				}
				e.stop(1)
				emptyLog(t, dir)
				write(t, filepath.Join(snapshots()[1], part), "{")
				e.start(1)
				if err := e.awaitEnd(1); !errors.Is(err, disk.ErrDamaged) {
					t.Errorf("Run: %v, want ErrDamaged", err)
				}
				rec := RecoverConfig{DataDir: dir, MemberID: 1, Peers: e.peers, StateMachine: &machine{}}
				if err := Recover(rec); !errors.Is(err, disk.ErrDamaged) {
					t.Errorf("Recover: %v, want ErrDamaged", err)
				}
			})
		})
	}
}

func TestOpenRefusesConfig(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*Config){
		"wildcard":             func(c *Config) { c.Peers = []wire.Peer{{ID: 1, Addr: "0.0.0.0:3888"}} },
		"bind address":         func(c *Config) { c.StreamLayer = idleStream{"0.0.0.0:3888"} },
		"no machine":           func(c *Config) { c.StateMachine = nil },
		"no stream":            func(c *Config) { c.StreamLayer = nil },
		"no ask":               func(c *Config) { c.SendHello = nil },
		"no heartbeat":         func(c *Config) { c.HeartbeatTimeout = 0 },
		"negative heartbeat":   func(c *Config) { c.HeartbeatTimeout = -1 },
		"no stall limit":       func(c *Config) { c.StallLimit = 0 },
		"no directory":         func(c *Config) { c.DataDir = "" },
		"directory and stores": func(c *Config) { c.Stores = memStores() },
		"half of stores":       func(c *Config) { c.DataDir, c.Stores = "", memStores(); c.Stores.Stable = nil },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := directoryConfig(t.TempDir(), 1)
			spoil(&cfg)
			if n, err := Open(cfg); err == nil {
				n.Close()
				t.Error("opened")
			}
		})
	}
}
