package power

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"rollcall/integration/needs"
	"rollcall/lab/process"
	"rollcall/quorum/disk"
)

// filling is a command that fills the directories of a member.
type filling struct {
	name  string
	args  func(s source) []string // of the binary, as an error of the command repeats them
	keys  string                  // of the zoo.cfg, besides the directories
	apart bool                    // the log is in a directory of its own
}

var fillings = []filling{
	{
		name: "restore",
		args: func(s source) []string { return []string{"backup", "restore", s.backup, s.config} },
	},
	{
		name: "restore with the log apart", apart: true,
		args: func(s source) []string {
			return []string{"backup", "restore", "--sessions=close", s.backup, s.config}
		},
	},
	{
		name: "import",
		args: func(s source) []string { return []string{"import", "--config=" + s.config, "--no-logs=true", s.server} },
	},
}

// fault is the fault of a command at one of its calls that change files.
type fault struct {
	name  string
	kills bool // the process is killed; otherwise the call fails, because the disk is full
	stays bool // the disk stays full: from then on, nothing can be made or written
}

var faults = []fault{{name: "kill -9", kills: true}, {name: "a full disk"}, {name: "a disk that stays full", stays: true}}

// outcome describes the directories that a command was to fill, as a start finds them.
type outcome string

const (
	refused   outcome = "refused"   // it does not start there
	complete  outcome = "complete"  // it has the state
	untouched outcome = "untouched" // it has nothing, and the command has not begun
)

// A restore or an import that is killed, or whose disk is full, leaves directories in which no member starts, or complete ones. The same
// command, run again, completes them. They are as before only if the command has not begun to fill them, and an error says so then.
func TestFillingIsInterrupted(t *testing.T) {
	needs.Check(t, needs.Usual)
	s := saved(t)
	s.server = exported(t, s.backup)
	for _, f := range fillings {
		t.Run(f.name, func(t *testing.T) {
			i := newInterruption(t, f, s)
			for _, kind := range faults {
				i.play(t, kind)
			}
		})
	}
}

// exported returns a ZooKeeper server's dataDir with what a backup has.
func exported(t *testing.T, backup string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "zookeeper")
	run(t, rollcall, nil, "export", "--backup", backup, dir)
	return dir
}

// interruption runs a command again and again, each time with a fault at another call.
type interruption struct {
	dir   string // has the directories that are to be filled
	conf  string // zoo.cfg
	apart bool   // the log is not in the directory of the data
	args  []string
	d     *recorded
	calls int    // how many calls of the command change files
	state uint64 // the digest of the state that it writes
}

// newInterruption runs the command once without a fault.
func newInterruption(t *testing.T, f filling, s source) *interruption {
	t.Helper()
	s.config = filepath.Join(t.TempDir(), "zoo.cfg")
	i := &interruption{dir: t.TempDir(), conf: s.config, apart: f.apart, args: f.args(s)}
	text := "tickTime=1000\nadmin.enableServer=false\n" + f.keys
	for n, dir := range i.dirs() {
		text += []string{"dataDir", "dataLogDir"}[n] + "=" + dir + "\n"
	}
	writeFile(t, i.conf, text)
	r := &recorder{}
	i.d = r.record(t, rollcall, i.dir, 1)
	at := &place{recorded: i.d}
	out, err := i.fill(t, at)
	if err != nil {
		t.Fatalf("rollcall %v: %v\n%s", i.args, err, out)
	}
	left, state, err := i.left()
	if err != nil || left != complete {
		t.Fatalf("the directories are %s: %v", left, err)
	}
	i.calls, i.state = at.calls, state
	return i
}

// dirs returns the directories that are filled, first the data directory.
func (i *interruption) dirs() []string {
	if i.apart {
		return []string{filepath.Join(i.dir, "data"), filepath.Join(i.dir, "log")}
	}
	return []string{filepath.Join(i.dir, "data")}
}

// play runs the command with a fault at some of its calls.
func (i *interruption) play(t *testing.T, kind fault) {
	rng := rand.New(rand.NewPCG(uint64(process.Setting(t, "ROLLCALL_FIRST", 0, 0)), 1))
	places, found := sample(rng, i.calls, outages(t, 6)), map[outcome]int{}
	for _, n := range places {
		at := &place{recorded: i.d, fault: kind, n: n}
		out, failed := i.fill(t, at)
		left, err := i.judge(kind, out, failed)
		if found[left]++; err == nil && left == refused && found[refused] == 1 {
			err = i.refusesToServe(t)
		}
		if err == nil && left != complete {
			err = i.repeat(t)
		}
		if err != nil {
			t.Errorf("%s at call %d of %d, %s: the directories are %s: %v\n%s", kind.name, n, i.calls, at.what, left, err, out)
		}
	}
	fmt.Printf("power: %s: %s at %d of %d calls: %v\n", t.Name(), kind.name, len(places), i.calls, found)
	if found[refused] == 0 {
		t.Errorf("%s: no directories were refused: %v", kind.name, found)
	}
}

// sample returns so many of the numbers from 1 to n: the first and last ones, among which marks are made and removed, and random ones.
func sample(rng *rand.Rand, n, size int) (places []int) {
	all := rng.Perm(n)
	distance := func(place int) int { return min(place, n-1-place, size/3) }
	slices.SortStableFunc(all, func(a, b int) int { return distance(a) - distance(b) })
	for _, place := range all[:min(n, size)] {
		places = append(places, place+1)
	}
	return places
}

// fill runs the command in new directories, with the fault at its place.
func (i *interruption) fill(t *testing.T, at *place) (out string, err error) {
	t.Helper()
	for _, dir := range i.dirs() {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	i.d.format(t)
	i.d.setRefusal(at.refuses)
	defer i.d.setRefusal(nil)
	return output(t, i.d.Binary, i.d.Env, i.args...)
}

// judge returns the outcome of the command, and an error unless that is right.
func (i *interruption) judge(kind fault, out string, failed error) (outcome, error) {
	left, state, err := i.left()
	switch {
	case err != nil:
	case left == complete && state != i.state:
		err = fmt.Errorf("the state has the digest %x, want %x", state, i.state)
	case left != complete && failed == nil:
		err = errors.New("the command has succeeded")
	case failed != nil && !kind.kills:
		err = i.advises(out, left)
	}
	return left, err
}

// advises checks the error of a command that has found no space.
func (i *interruption) advises(out string, left outcome) error {
	want := map[outcome]string{
		refused:   "No member starts there until the data directories are filled. The way out: free space there, and",
		untouched: "Nothing was written: the data directories are as they were, and a member that starts there begins without data. The way out: free space there, and",
		complete:  "The data directories are complete, and a member that starts there has everything. If a start says after a loss of power that they were not filled to the end,",
	}[left] + " run the command again: rollcall " + strings.Join(i.args, " ")
	if !strings.Contains(out, want) {
		return fmt.Errorf("the error does not say %q", want)
	}
	return nil
}

// left returns the outcome that a start finds in the directories, and the digest of a complete state.
func (i *interruption) left() (outcome, uint64, error) {
	dirs := i.dirs()
	own := filepath.Join(dirs[0], "rollcall")
	_, err := disk.MemberDirectory(dirs[0])
	switch {
	case errors.Is(err, disk.ErrIncomplete):
		return refused, 0, namesCommand(filepath.Join(own, markName), err, strings.Join(i.args, " "))
	case err != nil:
		return "", 0, err
	}
	if _, err := os.Stat(filepath.Join(own, "identity.json")); errors.Is(err, fs.ErrNotExist) {
		return untouched, 0, holdsNothing(dirs)
	}
	logs := ""
	if i.apart {
		logs = dirs[1]
	}
	k, err := readBoth(dirs[0], logs, 1, nil)
	if err != nil {
		return "", 0, err
	}
	return complete, k.state.Digest(), nil
}

// namesCommand returns an error unless err names the command to run again. Only a mark that could not be written names any command.
func namesCommand(mark string, err error, args string) error {
	if strings.Contains(err.Error(), "run the command that fills it again: rollcall "+args+". ") {
		return nil
	}
	text, rerr := os.ReadFile(mark)
	if rerr != nil || strings.Contains(string(text), "\n") {
		return errors.Join(fmt.Errorf("the command is not named: %w", err), rerr)
	}
	return nil
}

// holdsNothing returns an error if there is more in directories than a command leaves that has not begun to fill them.
func holdsNothing(dirs []string) error {
	for _, dir := range dirs {
		left, err := os.ReadDir(filepath.Join(dir, "rollcall"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if slices.ContainsFunc(left, func(e fs.DirEntry) bool { return e.Name() != "lock" }) {
			return fmt.Errorf("a start finds no data, and there is %v", left)
		}
	}
	return nil
}

// refusesToServe starts a member in the directories. It must end with an error that names the command.
func (i *interruption) refusesToServe(t *testing.T) error {
	t.Helper()
	out, err := output(t, rollcall, nil, "serve", i.conf)
	if want := "run the command that fills it again: rollcall "; err == nil || !strings.Contains(out, want) {
		return fmt.Errorf("serve: %w, without %q:\n%s", err, want, out)
	}
	return nil
}

// repeat runs the command again, without a fault.
func (i *interruption) repeat(t *testing.T) error {
	t.Helper()
	out, err := output(t, rollcall, nil, i.args...)
	if err != nil {
		return fmt.Errorf("the command cannot be repeated: %w\n%s", err, out)
	}
	left, state, err := i.left()
	if err != nil || left != complete || state != i.state {
		return fmt.Errorf("after the command was repeated the directories are %s, digest %x, want %x: %w", left, state, i.state, err)
	}
	return nil
}

// place is the call at which a fault happens.
type place struct {
	*recorded
	fault
	n     int // the number of the call; 0: at none
	calls int // so far
	what  string
}

// refuses is for recorded.refuses.
func (p *place) refuses(c *process.Call) syscall.Errno {
	what, writes := p.change(c)
	if what == "" {
		return 0
	}
	p.calls++
	switch {
	case p.calls == p.n:
		if p.what = what; p.kills {
			_ = unix.Kill(c.Thread, unix.SIGKILL)
		}
		return unix.ENOSPC
	case p.n > 0 && p.calls > p.n && p.stays && writes:
		return unix.ENOSPC
	}
	return 0
}

// change describes a call that changes a file or directory, or makes it durable, or returns "". It reports whether the call needs space.
func (d *recorded) change(c *process.Call) (what string, writes bool) {
	switch c.Number {
	case unix.SYS_OPENAT, unix.SYS_MKDIRAT, unix.SYS_UNLINKAT, unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2, unix.SYS_LINKAT:
		path, ours := d.path(c, 0, 1)
		_, err := os.Lstat(path)
		makes := c.Number == unix.SYS_MKDIRAT || c.Number == unix.SYS_OPENAT && c.Args[2]&unix.O_CREAT != 0
		empties := c.Number == unix.SYS_OPENAT && c.Args[2]&unix.O_TRUNC != 0
		if !ours || makes && err == nil && !empties || !makes && (err != nil || c.Number == unix.SYS_OPENAT && !empties) {
			return "", false
		}
		return fmt.Sprintf("system call %d of %s", c.Number, path), c.Number != unix.SYS_UNLINKAT
	case unix.SYS_WRITE, unix.SYS_PWRITE64, unix.SYS_FTRUNCATE, unix.SYS_FALLOCATE, unix.SYS_FSYNC, unix.SYS_FDATASYNC:
		if _, ours := d.opened(c.Thread, c.Args[0]); !ours {
			return "", false
		}
		return fmt.Sprintf("system call %d of %s", c.Number, d.nameOf(c.Thread, c.Args[0])),
			c.Number != unix.SYS_FSYNC && c.Number != unix.SYS_FDATASYNC
	}
	return "", false
}
