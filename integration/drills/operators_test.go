package drills

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"rollcall/integration/needs"
	"rollcall/lab/drill"
	"rollcall/lab/process"
	"rollcall/lab/report"
	"rollcall/lab/result"
	"rollcall/lab/target"
)

// starting is locked while an ensemble starts.
var starting sync.Mutex

// runDrills runs drills on members that run a binary, and returns their results.
func runDrills(t *testing.T, binary, other string, timeout time.Duration, names ...string) []result.Drill {
	t.Helper()
	j, err := target.OpenJournal(filepath.Join(t.TempDir(), "state"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = j.Close() }()
	start := func(ctx context.Context, cfg target.ProcessConfig) (target.Target, error) {
		starting.Lock() // two ensembles of one process that look for free addresses at the same time find the same ones
		defer starting.Unlock()
		cfg.Journal, cfg.Binary, cfg.Other, cfg.Beside, cfg.Dir = j, binary, other, true, t.TempDir()
		return target.NewProcesses(ctx, cfg)
	}
	p, err := start(t.Context(), target.ProcessConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), process.Patience)
		defer cancel()
		if err := p.Close(ctx); err != nil || len(j.Entries()) > 0 {
			t.Errorf("Close: %v; left in the journal: %v", err, j.Entries())
		}
	}()
	cfg := drill.Config{
		Target: p, Own: start, Timeout: timeout, Tick: target.DefaultTick, Seed: 7, Repeat: 1,
		Live: report.NewLive(io.Discard, report.LiveOptions{}),
	}
	runner, err := cfg.Check(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	drills, err := drill.Select(names)
	if err != nil {
		t.Fatal(err)
	}
	run, err := runner.Run(t.Context(), drills)
	if err != nil {
		t.Error(err)
	}
	if err := runner.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if left := memberNames(p); !slices.Equal(left, []string{"1", "2", "3"}) {
		t.Errorf("after the drills the members are %q", left)
	}
	return run.Drills
}

func memberNames(p target.Target) (names []string) {
	for _, m := range p.Members() {
		names = append(names, m.Name)
	}
	return names
}

// operators has the drills of what operators do, in two halves that run at the same time, with the rule that fails when
// the binary is tampered with. "": the drill fails as a whole.
var operators = []map[string]string{
	{"upgrade": "", "member-replaced": "", "certificates-rotated": "stays-connected"},
	{"member-added": "", "backup-restored": "backup-complete", "secret-rotated": "stays-connected", "move-in": "sessions-moved"},
}

func namesOf(drills map[string]string) (names []string) {
	for name := range drills {
		names = append(names, name)
	}
	return names
}

// patient is the timeout of sessions that a busy machine does not end.
const patient = 5 * time.Second

// Rollcall keeps its promises while operators work.
func TestOperatorsWork(t *testing.T) {
	needs.Check(t, needs.Nightly)
	for i, half := range operators {
		t.Run(fmt.Sprintf("half %d", i+1), func(t *testing.T) {
			t.Parallel()
			for _, d := range runDrills(t, rollcall, rollcall, patient, namesOf(half)...) {
				t.Logf("%s took %v", d.Name, time.Duration(d.Took)*time.Millisecond)
				if d.Outcome != result.Pass {
					t.Errorf("%s: %s %s %+v", d.Name, d.Outcome, d.Reason, broken(d))
				}
				if rule := half[d.Name]; rule != "" &&
					!slices.ContainsFunc(d.Verdicts, func(v result.Verdict) bool { return v.Rule == rule && v.Judged > 0 }) {
					t.Errorf("%s: %s has judged nothing", d.Name, rule)
				}
			}
		})
	}
}

// broken returns the verdicts of broken promises.
func broken(d result.Drill) []result.Verdict {
	return slices.DeleteFunc(slices.Clone(d.Verdicts), func(v result.Verdict) bool { return v.Outcome != result.Fail })
}

// tampered is a program that looks like Rollcall. It adds and replaces no members, restores and imports nothing, and starts its
// member anew once instead of reading files again.
const tampered = `#!/bin/sh
serve() { setpriv --pdeathsig KILL 'ROLLCALL' serve "$config" & child=$!; }
again() {
	[ "$once" ] || { once=1; kill -KILL $child; wait $child; serve; }
	echo "the ensemble's secrets were reloaded, keys reloaded"
}
case "$1 $2" in
"serve "*)
	config=$2
	serve
	trap again HUP
	trap 'kill $child; wait $child; exit' TERM
	while :; do wait $child; sleep 0.05; done ;;
"members add" | "members replace") echo 'it is tampered with' >&2; exit 1 ;;
"import "* | "backup restore") ;;
*) exec 'ROLLCALL' "$@" ;;
esac
`

// The drills fail if the commands do not do what they say.
func TestOperatorsAreTampered(t *testing.T) {
	needs.Check(t, needs.Nightly)
	needs.Check(t, needs.Usual)
	dir := t.TempDir()
	binary, other := filepath.Join(dir, "rollcall"), filepath.Join(dir, "other")
	for path, text := range map[string]string{binary: strings.ReplaceAll(tampered, "ROLLCALL", rollcall), other: "#!/bin/sh\necho 'no such format'\nexit 1\n"} {
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for i, half := range operators {
		t.Run(fmt.Sprintf("half %d", i+1), func(t *testing.T) {
			t.Parallel()
			for _, d := range runDrills(t, binary, other, drill.MinTimeout, namesOf(half)...) {
				t.Logf("%s took %v", d.Name, time.Duration(d.Took)*time.Millisecond)
				rule := half[d.Name]
				fails := slices.ContainsFunc(broken(d), func(v result.Verdict) bool { return v.Rule == rule })
				if d.Outcome != result.Fail || rule != "" && !fails ||
					rule == "" && !strings.Contains(d.Reason, "no such format") && !strings.Contains(d.Reason, "tampered") {
					t.Errorf("%s: %s, %s, %+v; want that it fails, by %q", d.Name, d.Outcome, d.Reason, broken(d), rule)
				}
			}
		})
	}
}
