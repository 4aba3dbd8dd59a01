package admin

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"rollcall/internal/metrics"
	"rollcall/operator/clients"
	"rollcall/zk/jute"
)

// fakeSource is a member with the connections of two sessions, and a third one that sent the
// command being answered.
type fakeSource struct {
	role    string
	disk    error
	many    int  // so many connections; 0: three
	endless bool // the lists of connections and watches never end
	health  Health
	silent  []string // Stats.SilentVoters
	resets  []string
}

func (f *fakeSource) Health() Health {
	health := f.health
	health.Role = f.role
	return health
}

func (f *fakeSource) Ensemble() Ensemble {
	if f.role == "standalone" {
		return Ensemble{Self: 1, Leader: 1}
	}
	self := uint32(1)
	if f.role == "observer" {
		self = 3
	}
	return Ensemble{Self: self, Leader: 2, Peers: []Peer{
		{ID: 1, QuorumAddress: "a:2888", ElectionAddress: "a:3888", ClientAddress: "0.0.0.0:2181"},
		{ID: 2, QuorumAddress: "b:2888", ElectionAddress: "b:3888"},
		{ID: 3, QuorumAddress: "c:2888", ElectionAddress: "c:3888", IsObserver: true},
	}}
}

func (f *fakeSource) Stats() Stats {
	return Stats{
		InsecurePorts: f.health.InsecurePorts, NoMemory: f.health.NoMemory, SilentVoters: f.silent,
		Role: f.role, Uptime: 90 * time.Second, PacketsReceived: 746, PacketsSent: 806, Connections: 1, OutstandingRequests: 2, Zxid: 0x2000001e9, Nodes: 10,
		Latency: metrics.Summary{Count: 16, Min: 100 * time.Microsecond, Avg: 693750 * time.Nanosecond, Max: 12 * time.Millisecond},
		Updates: metrics.Summary{
			Count: 4, Sum: 10 * time.Millisecond, Min: time.Millisecond, Avg: 2500 * time.Microsecond, Max: 5 * time.Millisecond,
			P50: 2 * time.Millisecond, P95: 4 * time.Millisecond, P99: 5 * time.Millisecond, P999: 5 * time.Millisecond,
		},
		Responses: metrics.Spread{Last: -1, Min: -1, Max: -1}, Proposals: metrics.Spread{Last: 48, Min: 36, Max: 88},
		Ephemerals: 3, DataSize: 44, Sessions: 2, Watches: 5, WatchedPaths: 2, WatchingConnections: 2, DataWatches: 3, Voters: 3,
		Learners: 3, SyncedFollowers: 1, SyncedObservers: 1, LeaderUptime: time.Minute,
	}
}

func (f *fakeSource) Settings(data, log int64) (lines []ConfLine, members string) {
	lines = []ConfLine{{"clientPort", "2181"}, {"dataDirSize", fmt.Sprint(data)}, {"dataLogSize", fmt.Sprint(log)}}
	if f.role != "standalone" {
		members = "server.1=a:2888:3888:participant\nversion=0\n"
	}
	return lines, members
}

func (f *fakeSource) NativeMetrics() []metrics.Native {
	return []metrics.Native{metrics.Gauge("rollcall_term", "a metric of the member's", func() int { return 7 })}
}

func (f *fakeSource) DiskUsage() (data, log int64, err error) { return 510, 1000, f.disk }
func (f *fakeSource) DiskSpace() (DiskSpace, error)           { return DiskSpace{}, errors.New("no files") }

func (f *fakeSource) ResetStats() { f.resets = append(f.resets, "server") }

func (f *fakeSource) ResetConnections() { f.resets = append(f.resets, "connections") }

var began = time.Date(2026, 11, 20, 2, 43, 20, 0, time.UTC)

func (f *fakeSource) Connections() iter.Seq[clients.Connection] {
	if f.many > 0 {
		return slices.Values(slices.Repeat([]clients.Connection{{RemoteAddr: "10.0.0.1:1", Session: 1}}, f.many))
	}
	if f.endless {
		return func(yield func(clients.Connection) bool) {
			for yield(clients.Connection{RemoteAddr: "10.0.0.1:1"}) {
			}
		}
	}
	return slices.Values([]clients.Connection{
		{
			RemoteAddr: "10.0.0.1:46396", AwaitsRead: true, AwaitsWrite: true, QueuedRequests: 2, PacketsReceived: 8, PacketsSent: 9, Session: 0x1000012f99a0001,
			Timeout: 15 * time.Second, EstablishedAt: began, ReplyCount: 9, LastOp: jute.OpGetChildren2, LastXid: 7, LastZxid: 0x20000000a,
			LastReply: 1283859 * time.Millisecond, MinLatency: 900 * time.Microsecond, LastLatency: 2 * time.Millisecond,
			AvgLatency: time.Millisecond, MaxLatency: 4 * time.Millisecond, ExpiresAt: began.Add(9500 * time.Millisecond),
		},
		{
			RemoteAddr: "[::1]:4", TLS: "TLSv1.3", Cipher: "TLS_AES_128_GCM_SHA256", AwaitsRead: true, PacketsReceived: 1, PacketsSent: 1, Session: 0x2000012f99a0001, Timeout: 4 * time.Second,
			EstablishedAt: began, LastXid: -1, ExpiresAt: began.Add(9 * time.Second),
		},
		{RemoteAddr: "10.0.0.2:46440", PacketsReceived: 1, ExpiresAt: began.Add(9100 * time.Millisecond)},
	})
}

func (f *fakeSource) Watches() iter.Seq2[jute.SessionID, []string] {
	return func(yield func(jute.SessionID, []string) bool) {
		for f.endless {
			if !yield(1, []string{"/a"}) {
				return
			}
		}
		_ = yield(0x2000012f99a0001, []string{"/a", "/b"}) && yield(0x1000012f99a0001, []string{"/a"})
	}
}

func (f *fakeSource) HasPublicAncestors(string) bool { return true }

func (f *fakeSource) Sessions() iter.Seq2[jute.SessionID, time.Duration] {
	return func(yield func(jute.SessionID, time.Duration) bool) {
		_ = yield(0x1000012f99a0001, 15*time.Second) && yield(0x2000012f99a0001, 4*time.Second)
	}
}

func (f *fakeSource) Expiries() (iter.Seq2[jute.SessionID, time.Time], bool) {
	ends := map[jute.SessionID]time.Time{0x1000012f99a0001: began.Add(10 * time.Second), 0x2000012f99a0001: began.Add(9 * time.Second)}
	return maps.All(ends), f.role != "follower"
}

func (f *fakeSource) Ephemerals() iter.Seq2[jute.SessionID, string] {
	return func(yield func(jute.SessionID, string) bool) {
		_ = yield(0x1000012f99a0001, "/e1") && yield(0x1000012f99a0001, "/e2") && yield(0x2000012f99a0001, "/f")
	}
}

func newTestWords(t *testing.T, role string, whitelist ...string) (*FourLetterCommands, *fakeSource) {
	t.Helper()
	f := &fakeSource{role: role}
	w, err := NewFourLetterCommands(FourLetterConfig{
		Whitelist: whitelist, Version: "0.1.0-dev", BuildDate: time.Date(2026, 11, 2, 8, 4, 0, 0, time.UTC), Source: f,
	})
	if err != nil {
		t.Fatal(err)
	}
	return w, f
}

// replyTo returns the complete reply to a command.
func (w *FourLetterCommands) replyTo(t *testing.T, word string) string {
	t.Helper()
	var b strings.Builder
	if err := w.WriteReply(word[:4], strings.NewReader(word[4:]), &b); err != nil {
		t.Errorf("%q: %v", word, err)
	}
	return b.String()
}

// fullWriter fails when more than left bytes are written. It counts the writes in asked.
type fullWriter struct{ left, asked int }

var errFull = errors.New("full")

func (f *fullWriter) Write(b []byte) (int, error) {
	f.asked++
	if f.left -= len(b); f.left < 0 {
		return 0, errFull
	}
	return len(b), nil
}
