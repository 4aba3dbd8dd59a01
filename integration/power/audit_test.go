package power

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"rollcall/integration/needs"
	"rollcall/lab/process"
	"rollcall/operator/audit"
)

// With audit.required, a change that was acknowledged has a line on the disk, also while files are rotated. Without it, a member
// that was stopped has left all its lines there. What a loss of power leaves is taken for an audit log by the next start.
func TestAuditLosesPower(t *testing.T) {
	needs.Check(t, needs.Usual)
	t.Run("required", func(t *testing.T) {
		r, dir, e := startAudited(t, "audit.required=true\naudit.fileSize=65536\n")
		l := startLoad(t, r, e.Members, 1)
		l.await(t, 250)
		acked := l.stop()
		e.KillAll()
		changes, rng := r.all(), rand.New(rand.NewPCG(1, 2))
		if files := filesBelow(t, dir); len(files) < 2 {
			t.Fatalf("the audit log was not rotated: %v", sizes(files))
		}
		for seed := range outages(t, 30) {
			place := 1 + rng.IntN(len(changes))
			dirs, o := cut(t, changes, place, 1, uint64(seed))
			err := hasLines(linesOf(t, dirs[0]), before(acked, place))
			if err == nil {
				err = openAudit(dirs[0])
			}
			if err != nil {
				t.Errorf("seed %d: power was lost after change %d of %d, and the disk %v: %v", seed, place, len(changes), o, err)
			}
		}
	})
	t.Run("stopped", func(t *testing.T) {
		r, dir, e := startAudited(t, "")
		l := startLoad(t, r, e.Members, 1)
		l.await(t, 50)
		l.stop()
		e.StopAll()
		changes, complete := r.all(), filesBelow(t, dir)
		dirs, o := cut(t, changes, len(changes), 1, 0)
		if left := filesBelow(t, dirs[0]); !same(left, complete) {
			t.Errorf("power was lost after the member had stopped, and the disk %v: there is %v, want %v", o, sizes(left), sizes(complete))
		}
		rng := rand.New(rand.NewPCG(1, 2))
		for seed := range outages(t, 30) {
			place := 1 + rng.IntN(len(changes))
			dirs, o := cut(t, changes, place, 1, uint64(seed))
			if err := openAudit(dirs[0]); err != nil {
				t.Errorf("seed %d: power was lost after change %d of %d, and the disk %v: %v", seed, place, len(changes), o, err)
			}
		}
	})
}

// startAudited starts a member alone, whose audit log is in dir, which is recorded.
func startAudited(t *testing.T, lines string) (r *recorder, dir string, e *process.Ensemble) {
	t.Helper()
	r, dir = &recorder{}, t.TempDir()
	d := r.record(t, rollcall, dir, 1)
	e = process.StartEnsemble(t, process.Config{
		Size: 1, Tick: tick, Binary: d.Binary, Env: d.Env,
		Lines: "audit.enable=true\naudit.file=" + filepath.Join(dir, "audit.log") + "\n" + lines,
	})
	return r, dir, e
}

// linesOf returns the contents of all files of an audit log.
func linesOf(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	files := filesBelow(t, dir)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		all.Write(files[name])
	}
	return all.String()
}

// hasLines returns an error if a node was created without a line about it.
func hasLines(lines string, acked []acknowledged) error {
	for _, a := range acked {
		if a.session == 0 && !strings.Contains(lines, `"`+a.path+`"`) {
			return fmt.Errorf("no line is about %v; there are %d bytes", a, len(lines))
		}
	}
	return nil
}

// openAudit opens an audit log as a start does.
func openAudit(dir string) error {
	l, err := audit.Open(audit.Config{Settings: audit.Settings{Enable: true, Required: true, File: filepath.Join(dir, "audit.log")}})
	if err != nil {
		return err
	}
	l.Start()
	l.Close()
	return nil
}
