package kills

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"rollcall/integration/process"
	"rollcall/quorum/disk"
	"rollcall/znode"
)

// former is the last version before a change of the format of entries or the version of snapshots.
// A change of either adds the commit before it to formers.
type former struct {
	commit  string
	format  uint32 // the highest format of entries that it knows
	refuses string // its message about data of the newest version, as a regular expression
	hurried []constant
}

var formers = []former{
	{
		commit: "8c4d22e3e678b042a245cbb26fad357b81d03f90", format: 1, // snapshots of version 2
		refuses: "start raft: data is damaged|has format [2-6], this version knows up to 1", hurried: formerHurried,
	},
	{
		commit: "ed49b2650255581accdea3398e9a968ee2a0aa18", format: 2, // snapshots of version 3
		refuses: "has format [3-6], this version knows up to 2|it has version [4-6], this program knows 2 to 3", hurried: formerHurried,
	},
	{
		commit: "8bc6cada8055dd4430fd92dc158ff2d2e958fcd0", format: 3, // snapshots of version 3
		refuses: "has format [4-6], this version knows up to 3|it has version [4-6], this program knows 2 to 3", hurried: laterHurried,
	},
	{
		commit: "9f388cc2352295685692929e579c2c5de52788d8", format: 4, // snapshots of version 4
		refuses: "has format [56], this version knows up to 4|it has version [56], this program knows 2 to 4", hurried: laterHurried,
	},
	{
		commit: "f0a5ad626495712a7e0251f6b76b3413b514889c", format: 5, // snapshots of version 5
		refuses: "has format 6, this version knows up to 5|it has version 6, this program knows 2 to 5", hurried: laterHurried,
	},
}

// constant is a constant to which the binary gives another value.
type constant struct{ file, old, new string }

// formerHurried lists the constants that process.BuildHurried changed in the first versions.
var formerHurried = []constant{
	{"quorum/node.go", "snapshotInterval = 10 * time.Second", "snapshotInterval = 300 * time.Millisecond"},
	{"quorum/trailing.go", "DefaultTrailingBytes = 64 << 20", "DefaultTrailingBytes = 4 << 10"},
	{"quorum/trailing.go", "minTrailing = 128", "minTrailing = 32"},
	{"quorum/wal.go", "walSegment = 16 << 20", "walSegment = 128 << 10"},
}

// laterHurried lists those of versions in which quorum/disk has the files.
var laterHurried = append(slices.Clone(formerHurried[:3]),
	constant{"quorum/disk/wal.go", "walSegment = 16 << 20", "walSegment = 128 << 10"})

// build builds the version's binary, as hurried as the one under test.
func (f former) build(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	git := func(args ...string) ([]byte, error) {
		cmd := exec.Command("git", append([]string{"-c", "safe.directory=*"}, args...)...)
		cmd.Dir = filepath.Join("..", "..")
		var said bytes.Buffer
		cmd.Stderr = &said
		out, err := cmd.Output()
		if err != nil {
			err = fmt.Errorf("git %s: %w: %s", args[0], err, strings.TrimSpace(said.String()))
		}
		return out, err
	}
	if _, err := git("cat-file", "-e", f.commit+"^{commit}"); err != nil {
		t.Fatalf("commit %s, whose binary this test runs, is not in this clone: deepen it with git fetch --unshallow (%v)", f.commit, err)
	}
	sources, err := git("archive", f.commit)
	if err != nil {
		t.Fatal(err)
	}
	tar := exec.Command("tar", "-x", "-C", dir)
	tar.Stdin = bytes.NewReader(sources)
	if out, err := tar.CombinedOutput(); err != nil {
		t.Fatalf("tar: %v: %s", err, out)
	}
	for _, h := range f.hurried {
		file := filepath.Join(dir, h.file)
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if n := bytes.Count(text, []byte(h.old)); n != 1 {
			t.Fatalf("%s has %q %d times at %s, want once", h.file, h.old, n, f.commit)
		}
		if err := os.WriteFile(file, bytes.Replace(text, []byte(h.old), []byte(h.new), 1), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	binary := filepath.Join(dir, "rollcall-former")
	build := exec.Command("go", "build", "-buildvcs=false", "-o", binary, "./cmd/rollcall")
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build of %s: %v\n%s", f.commit, err, out)
	}
	return binary
}

// Members of the former version are upgraded one by one under load. While one of them is still of
// the former version, the others are rolled back. Then all are upgraded again. Leaders of both
// versions catch up members of the other version by snapshots. No acknowledged write is lost, and
// members are equal throughout. Once all have been upgraded, the former binary refuses the data.
func TestUpgrade(t *testing.T) {
	for _, f := range formers {
		t.Run(fmt.Sprint("from format ", f.format), func(t *testing.T) {
			t.Parallel()
			upgrade(t, f)
		})
	}
}

func upgrade(t *testing.T, f former) {
	began := time.Now()
	old := f.build(t)
	r := &run{t: t, sum: &totals{kills: map[role]int{}, kinds: map[disk.LogKind]int{}}, rng: rand.New(rand.NewPCG(1, 9)), left: map[string]bool{}}
	r.Ensemble = process.StartEnsemble(t, process.Config{
		Binary: old, Flags: []string{"-v"}, Size: 3, Tick: tick, Lines: "snapCount=100\nmaxClientCnxns=0\n",
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r.load(ctx)
	change := func(m *process.Member, to string) {
		t.Helper()
		r.terminate(m)
		m.Binary = to
		r.Start(m)
		r.awaitAllServing()
	}
	changeBehind := func(m *process.Member, to string) { // the leader then sends it a snapshot
		t.Helper()
		r.terminate(m)
		r.goOn(m)
		before := len(printed(m))
		m.Binary = to
		r.Start(m)
		if err := process.Until(t.Context(), fmt.Sprintf("member %d is sent a snapshot", m.ID), func() bool {
			r.again(r.Members, r.restart)
			return strings.Contains(printed(m)[before:], "raft: Installed remote snapshot")
		}); err != nil {
			t.Fatal(err)
		}
		r.awaitAllServing()
	}
	judge := func(lowest uint32) {
		t.Helper()
		if r.judge(ctx); t.Failed() {
			t.FailNow()
		}
		if got := r.minFormat(); got != lowest {
			t.Fatalf("the lowest format announced is %d, want %d", got, lowest)
		}
	}
	judge(f.format)

	// The first leader stays at the former version until the end.
	last := r.leads()
	first := slices.DeleteFunc(slices.Clone(r.Members), func(m *process.Member) bool { return m == last })
	for _, m := range first {
		changeBehind(m, rollcall)
	}
	judge(f.format)
	changeBehind(last, old) // a member of the new version leads by now
	judge(f.format)

	for _, m := range first {
		change(m, old)
	}
	judge(f.format)

	for _, m := range r.Members {
		change(m, rollcall)
	}
	judge(znode.FormatLevel)
	r.awaitWrites() // in entries of the new format
	m := r.leads()  // whose log has them
	r.terminate(m)
	m.Binary = old
	r.Start(m)
	if _, err := m.Process.Status(t.Context()); err != nil {
		t.Fatal(err)
	}
	if words := lastWords(m); !regexp.MustCompile(f.refuses).MatchString(words) {
		t.Errorf("the former version does not refuse the data with the expected message:\n%s", words)
	}
	m.Binary = rollcall
	r.Start(m)
	r.awaitAllServing()
	judge(znode.FormatLevel)
	fmt.Printf("upgrade from format %d, roll back, upgrade: %d comparisons of three members, %d writes acknowledged, in %v\n",
		f.format, r.sum.comparisons, r.acked(), time.Since(began).Round(time.Second))
}

// terminate stops a member with SIGTERM, as an operator does.
func (r *run) terminate(m *process.Member) {
	r.t.Helper()
	if err := m.Process.Signal(syscall.SIGTERM); err != nil {
		r.t.Fatal(err)
	}
	if status, err := m.Process.Status(r.t.Context()); err != nil || status != 0 {
		r.t.Fatalf("member %d after SIGTERM: exit status %d, %v; want 0", m.ID, status, err)
	}
}

// awaitWrites waits until a write of each writer is acknowledged that was sent after the call.
func (r *run) awaitWrites() {
	r.t.Helper()
	for _, w := range r.writers {
		before, _ := w.outcomes()
		if err := process.Until(r.t.Context(), "a write of "+w.dir, func() bool {
			acked, _ := w.outcomes()
			return acked > before+window // at most window of them were in flight
		}); err != nil {
			r.t.Fatal(err)
		}
	}
}

// acked returns how many writes were acknowledged.
func (r *run) acked() (n int) {
	for _, w := range r.writers {
		acked, _ := w.outcomes()
		n += acked
	}
	return n
}

// minFormat returns the lowest format announced, from the folder of the first member.
func (r *run) minFormat() uint32 {
	r.t.Helper()
	dir := r.t.TempDir()
	if err := freeze(r.Members[:1], dir); err != nil {
		r.t.Fatal(err)
	}
	s, _, err := compare([]string{folder(dir, r.Members[0])})
	if err != nil {
		r.t.Fatal(err)
	}
	return s.MinFormat()
}
