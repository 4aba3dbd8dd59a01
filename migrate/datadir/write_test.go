package datadir

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"rollcall/zk/jute"
)

// Read reads the state that Write has written, with the digest of the tree.
func TestWrite(t *testing.T) {
	for _, name := range golden {
		s := mustRead(t, filepath.Join("testdata", name))
		s.Epoch = 7
		dir := t.TempDir()
		if err := s.Write(dir); err != nil {
			t.Fatal(err)
		}
		again, report, err := Read([]Directory{{Data: dir}}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if report.Digests != 1 || report.SnapshotZxid != s.Zxid || len(report.Notes) != 0 {
			t.Errorf("%+v", report)
		}
		if a, b := dump(again), dump(s); a != b {
			t.Errorf("%s: read\n%s; written\n%s", name, a, b)
		}
		for _, file := range []string{"currentEpoch", "acceptedEpoch"} {
			if text, err := os.ReadFile(filepath.Join(dir, versionDirName, file)); err != nil || string(text) != "7" {
				t.Errorf("%s: %q, %v", file, text, err)
			}
		}
		if err := s.Write(dir); err == nil || !strings.Contains(err.Error(), "is there already") {
			t.Errorf("a second Write: %v", err)
		}
	}
}

// The remains of a Write that was interrupted are replaced.
func TestWriteAgain(t *testing.T) {
	s := mustRead(t, filepath.Join("testdata", "plain"))
	dir := t.TempDir()
	partial := filepath.Join(dir, versionDirName+".partial")
	if err := os.MkdirAll(partial, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(partial, "snapshot.9999"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Write(dir); err != nil {
		t.Fatal(err)
	}
	if a, b := dump(mustRead(t, dir)), dump(s); a != b {
		t.Errorf("read\n%s; written\n%s", a, b)
	}
}

// In a directory that another user can change, that user could put a link in the place of a file before it is written. Write writes
// nothing there.
func TestWriteAmongOthers(t *testing.T) {
	s := mustRead(t, filepath.Join("testdata", "plain"))
	for _, below := range []string{"", "new"} {
		dir := t.TempDir()
		if err := os.Chmod(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		err := s.Write(filepath.Join(dir, below))
		if want := "other users may write in the directory " + dir; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", below, err, want)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
			t.Errorf("%q: %v, %v was written", below, err, left)
		}
	}
}

// A link in the place of the unfinished directory is removed and not followed.
func TestWriteFollowsNoLink(t *testing.T) {
	s := mustRead(t, filepath.Join("testdata", "plain"))
	dir, elsewhere := t.TempDir(), t.TempDir()
	if err := os.Symlink(elsewhere, filepath.Join(dir, versionDirName+".partial")); err != nil {
		t.Fatal(err)
	}
	if err := s.Write(dir); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(elsewhere); err != nil || len(left) != 0 {
		t.Errorf("%v, %v was written through the link", err, left)
	}
}

// Write rejects a state from which ZooKeeper would not start, or would lose a node.
func TestWriteRefuses(t *testing.T) {
	for _, tt := range []struct {
		name  string
		spoil func(s *State)
		want  string
	}{
		{"no root", func(s *State) { s.removeSubtree(s.Get("/")) }, "the node / is missing"},
		{"no quotas", func(s *State) { s.removeSubtree(s.Get("/zookeeper/quota")) }, "the node /zookeeper/quota is missing"},
		{"no session", func(s *State) { clear(s.Sessions) }, "which is missing"},
		{"zxid", func(s *State) { s.Zxid = -1 }, "below zero"},
		{"epoch", func(s *State) { s.Epoch = 1 << 31 }, "too high"},
	} {
		s := mustRead(t, filepath.Join("testdata", "plain"))
		tt.spoil(s)
		dir := t.TempDir()
		if err := s.Write(dir); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v; want %q", tt.name, err, tt.want)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
			t.Errorf("%s: %v, %v are left", tt.name, left, err)
		}
	}
}

// BenchmarkRead reads a snapshot of a million nodes of 100 bytes (10,000 with -short).
func BenchmarkRead(b *testing.B) {
	nodes := 1_000_000
	if testing.Short() {
		nodes = 10_000
	}
	s := NewState()
	for _, path := range []string{"/", "/zookeeper", quotaPath} {
		if err := s.Add(Node{Path: path, ACL: jute.OpenACL}); err != nil {
			b.Fatal(err)
		}
	}
	for i := range nodes {
		path := fmt.Sprintf("/d%d", i/1000)
		if i%1000 != 0 {
			path += fmt.Sprintf("/node-%010d", i)
		}
		if err := s.Add(Node{Path: path, Data: make([]byte, 100), ACL: jute.OpenACL, Czxid: int64(i)}); err != nil {
			b.Fatal(err)
		}
	}
	s.Zxid = int64(nodes)
	dir := b.TempDir()
	if err := s.Write(dir); err != nil {
		b.Fatal(err)
	}
	s = nil
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for b.Loop() {
		got, _, err := Read([]Directory{{Data: dir}}, Options{})
		if err != nil || got.Len() != nodes+3 {
			b.Fatal(got, err)
		}
		s = got
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(nodes), "bytes/node")
	b.ReportMetric(float64(after.Sys)/1e6, "MB-of-system")
	runtime.KeepAlive(s)
}
