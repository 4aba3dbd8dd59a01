package disk

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

var testServers = []string{"server.1=m1:3888", "server.2=m2:3888", "server.3=m3:3888"}

// directoryConfig returns the configuration of a member of testServers that does not run.
func directoryConfig(dir string, member uint32) Config {
	return Config{
		MemberID: member, ServerList: testServers, DataDir: dir, RaftRunning: func() bool { return false },
		Logger: slog.New(slog.DiscardHandler), RaftLogger: hclog.NewNullLogger(), SegmentBytes: testSegment, StallLimit: testStallLimit,
	}
}

// own returns the member's own directory in dir.
func own(dir string) string { return filepath.Join(dir, memberDirName) }

func openAndClose(t *testing.T, cfg Config) {
	t.Helper()
	d, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o750), os.WriteFile(path, []byte(text), 0o640)); err != nil {
		t.Fatal(err)
	}
}

func memStores() Stores {
	s := raft.NewInmemStore()
	return Stores{Log: s, Stable: s, Snapshots: raft.NewInmemSnapshotStore()}
}

// unguarded is a guard of stores that no raft uses.
func unguarded() storeGuard {
	return storeGuard{raftRunning: func() bool { return false }, operations: &operations{}}
}

// A stall limit is required: without one, a disk that hangs would go unnoticed.
func TestOpenWithoutStallLimit(t *testing.T) {
	cfg := directoryConfig(t.TempDir(), 1)
	cfg.StallLimit = 0
	if _, err := Open(cfg); err == nil || !strings.Contains(err.Error(), "StallLimit") {
		t.Errorf("without a stall limit: %v", err)
	}
}
