package formats

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"rollcall/config"
	"rollcall/leader"
	"rollcall/member"
	"rollcall/operator/archive"
	"rollcall/operator/archive/location"
	"rollcall/operator/backup"
	"rollcall/operator/past"
	"rollcall/quorum/disk"
	"rollcall/quorum/history"
	"rollcall/server"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// The directories in directoriesFile.
const (
	dataName    = "data"    // of a member
	archiveName = "archive" // where the member sent its log
)

// startMember starts a standalone member until the end of the test, and returns its address.
func startMember(t *testing.T, dir string) (m *member.Member, addr string) {
	t.Helper()
	clients, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m, err = member.New(member.Config{
		ID: 1, Servers: []member.Server{{ID: 1, GrpcAddr: "127.0.0.1:1", RaftAddr: "127.0.0.1:2"}}, ClientListener: clients,
		Logger: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
		Settings: config.Settings{
			Dir: filepath.Join(dir, dataName), Tick: 200 * time.Millisecond, MinTimeout: time.Second, MaxTimeout: time.Hour,
			Limits: server.Limits{MaxClientConns: -1}, History: history.Limits{Age: 10_000 * time.Hour, Bytes: 1 << 30},
			Reaping: leader.Reaping{Interval: time.Hour}, Rules: znode.Rules{TTLNodes: true},
			Archive: location.Settings{To: filepath.Join(dir, archiveName)},
		}.WithDefaults(),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the member ended: %v", err)
		}
	})
	return m, clients.Addr().String()
}

// lines is the text of a state: a line for each node and each session.
type lines struct{ all []string }

func (l *lines) add(format string, args ...any) error {
	l.all = append(l.all, fmt.Sprintf(format, args...))
	return nil
}

func (l *lines) text() string { return strings.Join(l.all, "\n") + "\n" }

// visitor returns a visitor that adds what it visits. The owners of sessions are left out: a start of the member changes
// them.
func (l *lines) visitor() znode.ImageVisitor {
	return znode.ImageVisitor{
		Session: func(s znode.Session) error {
			return l.add("session %v timeout=%v password=%x created=%d", s.ID, s.Timeout, s.Password, s.CreatedMs)
		},
		SessionEnd: func(e znode.SessionEnd) error {
			return l.add("ended %v number=%d zxid=0x%x at=%d reason=%v timeout=%v ephemerals=%d", e.Session, e.Number, e.Zxid, e.AtMs, e.Reason,
				e.Timeout, e.EphemeralCount)
		},
		Node: func(n znode.ImageNode) error {
			if n.Path == "/zookeeper/config" || n.Path == "/zookeeper/history" {
				return nil // a start of the member may change them
			}
			return l.add("node %s data=%s acl=%s zxids=0x%x,0x%x,0x%x times=%d,%d versions=%d,%d children=%d owner=%v container=%t ttl=%d", n.Path,
				dataText(n.Data), aclText(n.ACL), n.Czxid, n.Mzxid, n.Pzxid, n.Ctime, n.Mtime, n.Version, n.Aversion, n.CreateCount, n.OwnerSession,
				n.Container, n.TTLMs)
		},
	}
}

// dataText returns data as text, and long data as their hash.
func dataText(data []byte) string {
	switch {
	case data == nil:
		return "null"
	case len(data) > 64:
		return fmt.Sprintf("%d-bytes-sha256-%x", len(data), sha256.Sum256(data))
	}
	return fmt.Sprintf("%q", data)
}

func aclText(list []jute.ACL) string {
	var entries []string
	for _, a := range list {
		entries = append(entries, fmt.Sprintf("%s:%s:%v", a.ID.Scheme, a.ID.ID, a.Perms))
	}
	return strings.Join(entries, ",")
}

// textOf returns the text of a member's state.
func textOf(t *testing.T, m *member.Member) string {
	t.Helper()
	s := m.State()
	s.RLock()
	snapshot := s.Snapshot()
	s.RUnlock()
	file, err := os.Create(filepath.Join(t.TempDir(), "state"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var l lines
	if _, err := snapshot.WriteTo(file); err != nil {
		t.Fatal(err)
	}
	if _, err := file.Seek(0, 0); err != nil {
		t.Fatal(err)
	}
	if _, _, err := znode.ReadImage(file, l.visitor()); err != nil {
		t.Fatal(err)
	}
	return l.text()
}

// historyChains returns the parts of the past in the directory of a member that does not run. Some of its segments must be
// compressed.
func historyChains(t *testing.T, dir string) (all []past.Chain) {
	t.Helper()
	own := disk.OwnDirectory(filepath.Join(dir, dataName))
	dirs := history.Directories{Data: own, Log: own}
	list, err := history.List(dirs, 0)
	if err != nil || len(list.Damaged)+len(list.Unused)+len(list.Others) > 0 {
		t.Fatalf("%+v, %v", list, err)
	}
	compressed := false
	for _, s := range list.Spans {
		compressed = compressed || slices.ContainsFunc(s.Segments, func(s history.Segment) bool { return s.Compressed })
		all = append(all, past.NewKept(s, history.DirectorySource{Directories: dirs}, nil))
	}
	if !compressed {
		t.Error("no segment of the history is compressed")
	}
	return all
}

// archiveChains returns the parts of the past in the archive, after a check of all objects, and the last entry in it.
func archiveChains(t *testing.T, dir string) (all []past.Chain, last uint64) {
	t.Helper()
	store := archive.NewDirectory(filepath.Join(dir, archiveName))
	logs, err := archive.List(t.Context(), store)
	if err != nil {
		t.Fatal(err)
	}
	for i := range logs {
		if len(logs[i].Unknown) > 0 {
			t.Errorf("unknown objects: %q", logs[i].Unknown)
		}
		for _, s := range logs[i].Spans {
			v, err := archive.Verify(t.Context(), store, &logs[i], s)
			if err != nil || len(v.Damage) > 0 {
				t.Errorf("the archive: %q, %v", v.Damage, err)
			}
			all, last = append(all, archive.NewChain(store, &logs[i], s)), max(last, s.Last)
		}
	}
	return all, last
}

// digestsOf returns a line for each of some moments, with the digest of the state that the chains have at it.
func digestsOf(t *testing.T, name string, chains []past.Chain, zxids []int64) []string {
	t.Helper()
	var all []string
	for _, zxid := range zxids {
		for _, c := range slices.Backward(chains) {
			l, err := past.Open(t.Context(), c, past.AtZxid(zxid))
			if err != nil {
				t.Logf("%s: 0x%x: %v", name, zxid, err)
				continue
			}
			all = append(all, fmt.Sprintf("%s zxid=0x%x digest=%s", name, l.State().Zxid(), backup.FormatDigest(l.State().Digest())))
			l.Close()
			break
		}
	}
	return all
}
