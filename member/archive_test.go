package member_test

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/cluster"
	"rollcall/member"
	"rollcall/operator/archive"
	"rollcall/operator/archive/location"
	"rollcall/operator/past"
	"rollcall/zk/jute"
)

// archived returns what an archive has of its only log, which must be whole, and the digest of its newest state.
func archived(t *testing.T, dir string) (v archive.Verified, digest uint64) {
	t.Helper()
	store := archive.NewDirectory(dir)
	logs, err := archive.List(t.Context(), store)
	if err != nil || len(logs) != 1 || len(logs[0].Spans) != 1 {
		t.Fatalf("%+v, %v", logs, err)
	}
	l := &logs[0]
	v, err = archive.Verify(t.Context(), store, l, l.Spans[0])
	if err != nil || len(v.Damage) > 0 {
		t.Fatalf("%+v, %v", v, err)
	}
	built, err := past.Open(t.Context(), archive.NewChain(store, l, l.Spans[0]), past.Moment{})
	if err != nil {
		t.Fatal(err)
	}
	defer built.Close()
	return v, built.State().Digest()
}

func archiveFailures(m *member.Member) (n float64) {
	for _, metric := range m.NativeMetrics() {
		if metric.Name == "rollcall_archive_failures_total" {
			for _, value := range metric.Values() {
				n += value
			}
		}
	}
	return n
}

// The leader sends the log to the archive, and when it dies or loses its leadership, the next one continues. Every acknowledged write is
// there an interval later.
func TestArchive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		to := filepath.Join(dir, "archive")
		e := cluster.Start(t, 3, cluster.Options{Tick: longTick, Adjust: func(cfg *member.Config) {
			cfg.Archive = location.Settings{To: to, Interval: 20 * time.Second}
			cfg.Stores, cfg.Dir = nil, filepath.Join(dir, string(rune('0'+cfg.ID)))
			cfg.SnapCount = 50
		}})
		leader := e.Ready()
		e.Joined()
		c := e.Connect(longTick * 4)
		write := func(count int) {
			for range count {
				if _, err := c.Create("/n", []byte("data"), jute.PersistentSequential); err == nil {
					continue
				}
				if err := c.WaitConnected(time.Minute); err != nil { // it was connected to the deposed leader
					t.Fatal(err)
				}
			}
		}
		write(100)
		time.Sleep(time.Minute)
		if failed := archiveFailures(e.Member(leader)); failed == 0 {
			t.Error("the directory does not exist, and no failure was counted")
		}
		if err := os.Mkdir(to, 0o700); err != nil {
			t.Fatal(err)
		}
		for round := range 3 {
			time.Sleep(90 * time.Second)
			v, digest := archived(t, to)
			if failed := archiveFailures(e.Member(leader)); round > 0 && failed > 0 {
				t.Errorf("round %d: %v failures after taking over", round, failed)
			}
			if state := e.Member(leader).State(); v.To.Zxid != state.Zxid() || digest != state.Digest() {
				t.Errorf("round %d: the archive ends at %v, digest %x; the leader is at 0x%x", round, v.To, digest, state.Zxid())
			}
			if deposed := leader; round == 1 { // it does not know that, and reaches the archive
				e.Isolate(deposed)
				e.Wait("another leader", time.Minute, func() bool {
					leader = e.Leader()
					return leader != 0 && leader != deposed
				})
				write(60)
				e.Rejoin(deposed)
			} else {
				e.Stop(leader) // its disk is a real one: a kill would leave its lock
				leader = e.Ready()
				write(60)
			}
			for _, id := range e.IDs() {
				if !e.Running(id) {
					e.Boot(id)
				}
			}
			e.Joined()
		}
		time.Sleep(90 * time.Second)
		v, digest := archived(t, to)
		state := e.Member(leader).State()
		if v.To.Zxid != state.Zxid() || digest != state.Digest() || v.Snapshots == 0 {
			t.Errorf("the archive ends at %v, digest %x, with %d snapshots; the leader is at 0x%x", v.To, digest, v.Snapshots, state.Zxid())
		}
	})
}
