package member_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/cluster"
	"rollcall/member"
	"rollcall/operator/backup"
)

// longTick is the tick of ensembles that tests watch for minutes. Members ping each other several times in a tick, and that took most of
// the tests' processor time.
const longTick = 5 * time.Second

// Each member makes its own backups when they are due, also after a restart, keeps the newest, and tries again after a
// failure.
func TestOwnBackups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "backups")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		e := cluster.Start(t, 3, cluster.Options{Tick: longTick, Adjust: func(cfg *member.Config) {
			cfg.Backup = backup.Schedule{Dir: dir, Interval: 2 * time.Minute, KeptFiles: 2}
		}})
		e.Ready()
		e.Joined()
		one := e.Followers()[0]
		count := func() (all []string, own int) {
			t.Helper()
			entries, err := os.ReadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			for _, entry := range entries {
				all = append(all, entry.Name())
			}
			return all, len(slices.DeleteFunc(slices.Clone(all), func(name string) bool { return !strings.HasPrefix(name, "member-"+string(rune('0'+one))) }))
		}
		check := func(when string, total, want int) {
			t.Helper()
			if all, own := count(); len(all) != total || own != want {
				t.Errorf("%s: there are %q, want %d, %d of member %d", when, all, total, want, one)
			}
		}
		time.Sleep(30 * time.Second)
		check("at first", 3, 1)
		e.Kill(one)
		e.Boot(one)
		time.Sleep(30 * time.Second)
		check("after a restart", 3, 1)
		time.Sleep(2 * time.Minute)
		check("when the next one was due", 6, 2)
		before, _ := count()
		time.Sleep(2 * time.Minute)
		check("when another one was due", 6, 2)
		after, _ := count()
		if slices.ContainsFunc(after[:1], func(name string) bool { return name == before[0] }) {
			t.Errorf("the oldest is still there: %q", after)
		}
		for _, name := range after {
			f, err := os.Open(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			if h, _, err := backup.Verify(f); err != nil || !h.Confirmed {
				t.Errorf("%s: %+v: %v", name, h, err)
			}
			_ = f.Close()
		}
		if err := os.Rename(dir, dir+"-away"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Minute)
		figures := backupsMade(e.Member(one))
		if figures["failed"] == 0 || figures["written"] != 2 { // since the restart
			t.Errorf("without the directory: %v; there were %q, then %q", figures, before, after)
		}
		if err := os.Rename(dir+"-away", dir); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		if now := backupsMade(e.Member(one)); now["written"] != 3 || now["failed"] < figures["failed"] {
			t.Errorf("with the directory again: %v, before %v", now, figures)
		}
		check("with the directory again", 6, 2)
	})
}

// backupsMade returns the backups that a member has made and has failed to make since its start.
func backupsMade(m *member.Member) map[string]float64 {
	for _, metric := range m.NativeMetrics() {
		if metric.Name == "rollcall_backups_total" {
			return metric.Values()
		}
	}
	return nil
}

// A backup that no leader has confirmed is kept, and the log warns of it.
func TestOwnBackupWithoutLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "backups")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		var text bytes.Buffer
		log := slog.New(slog.NewTextHandler(&text, nil))
		e := cluster.Start(t, 3, cluster.Options{
			Logger: func(uint32) *slog.Logger { return log },
			Adjust: func(cfg *member.Config) {
				cfg.Backup = backup.Schedule{Dir: dir, Interval: 2 * time.Minute, KeptFiles: 1}
			},
		})
		e.Ready()
		e.Joined()
		time.Sleep(30 * time.Second)
		synctest.Wait()
		const warning = `level=WARN msg="backup made, but no leader has confirmed it`
		if strings.Contains(text.String(), warning) {
			t.Errorf("with a leader the log has %s", text.String())
		}
		last := e.Followers()[0]
		for _, id := range e.IDs() {
			if id != last {
				e.Kill(id)
			}
		}
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		if !strings.Contains(text.String(), warning) {
			t.Errorf("without a leader the log has %s", text.String())
		}
		names, err := filepath.Glob(filepath.Join(dir, fmt.Sprintf("member-%d-*", last)))
		if err != nil || len(names) != 1 {
			t.Fatalf("there are %q: %v", names, err)
		}
		f, err := os.Open(names[0])
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = f.Close() }()
		if h, _, err := backup.Verify(f); err != nil || h.Confirmed {
			t.Errorf("%s: %+v: %v", names[0], h, err)
		}
	})
}
