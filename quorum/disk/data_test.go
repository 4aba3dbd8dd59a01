package disk

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"rollcall/internal/stages"
	"rollcall/operator/logs/logtest"
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
	return storeGuard{raftRunning: func() bool { return false }, operations: &operations{}, startReads: &startReadCounter{}}
}

// A stall limit is required: without one, a disk that hangs would go unnoticed.
func TestOpenWithoutStallLimit(t *testing.T) {
	cfg := directoryConfig(t.TempDir(), 1)
	cfg.StallLimit = 0
	if _, err := Open(cfg); err == nil || !strings.Contains(err.Error(), "StallLimit") {
		t.Errorf("without a stall limit: %v", err)
	}
}

// lateStore takes a time for each write of entries.
type lateStore struct {
	*raft.InmemStore
	takes time.Duration
}

func (s *lateStore) StoreLogs(logs []*raft.Log) error {
	time.Sleep(s.takes)
	return s.InmemStore.StoreLogs(logs)
}

// A sync that takes Config.SlowSync or longer is counted, recorded and logged, with at most one line in a second.
func TestSlowSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines logtest.Buffer
		store, recorder := &lateStore{InmemStore: raft.NewInmemStore()}, stages.New(stages.Thresholds{}, time.Now)
		d, err := Open(Config{
			Stores:      Stores{Log: store, Stable: store, Snapshots: raft.NewInmemSnapshotStore()},
			RaftRunning: func() bool { return true }, EndMember: func(err error) { t.Error(err) },
			StallLimit: testStallLimit, SlowSync: 50 * time.Millisecond, Stages: recorder,
			Logger: slog.New(slog.NewTextHandler(&lines, nil)),
		})
		if err != nil {
			t.Fatal(err)
		}
		write := func(takes time.Duration, first, last uint64) {
			t.Helper()
			store.takes = takes
			if err := d.Log().StoreLogs(entries(first, last, []byte("content"))); err != nil || !d.Durability().AwaitDurable(last) {
				t.Fatal(err)
			}
		}
		write(50*time.Millisecond-1, 1, 1)
		if _, slow := d.WriteDurations(); slow != 0 || lines.String() != "" || len(recorder.Records(nil).Causes) != 0 {
			t.Fatalf("a sync that was fast enough: %d slow ones, %s", slow, lines.Take())
		}
		write(50*time.Millisecond, 2, 4)
		write(60*time.Millisecond, 5, 5)
		time.Sleep(time.Second)
		write(70*time.Millisecond, 6, 6)
		got := lines.Take()
		for _, want := range []string{
			`level=WARN msg="slow sync" took=50ms first=2 entries=3 bytes=213 skipped=0`,
			`level=WARN msg="slow sync" took=70ms first=6 entries=1 bytes=71 skipped=1`,
		} {
			if !strings.Contains(got, want) {
				t.Errorf("no line %s in\n%s", want, got)
			}
		}
		if n := strings.Count(got, "\n"); n != 2 || strings.Contains(got, "content") {
			t.Errorf("%d lines:\n%s", n, got)
		}
		causes := recorder.Records(nil).Causes
		if _, slow := d.WriteDurations(); slow != 3 || len(causes) != 3 {
			t.Fatalf("%d slow syncs, and the causes %+v", slow, causes)
		}
		for i, took := range []time.Duration{50, 60, 70} {
			if c := causes[i]; c.Kind != stages.SlowSync || c.To-c.From != stages.Time(took*time.Millisecond) {
				t.Errorf("sync %d: %+v; want %v ms", i, c, int(took))
			}
		}
	})
}
