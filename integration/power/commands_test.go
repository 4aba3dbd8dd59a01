package power

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"rollcall/integration/needs"
	"rollcall/lab/process"
	"rollcall/quorum/disk"
)

// command is a command whose machine loses its power.
type command struct {
	name   string
	args   func(source source, dir string) []string // of the binary; it writes into dir
	before map[string]string                        // what is in dir, by path
	// target is the path in dir that the command makes or replaces. It is either as it was before, or complete. When the command
	// has succeeded, it is complete.
	target  string
	partial bool // in the middle, a part of the target may be there
	// check returns an error unless the directory after a loss of power is complete or, if the command has not
	// succeeded, rejected. If check is nil, the bytes are compared.
	check func(dir string, done bool) error
}

// source is the input of commands: a member that runs, and a backup of it.
type source struct {
	member *process.Member
	token  string // the path of the member's token
	backup string
	config string // a zoo.cfg for a restore or an import; its dataDir is the recorded directory's subdirectory data
	server string // a ZooKeeper server's dataDir
}

var commands = []command{
	{
		name: "backup save", target: "kept.backup",
		args: func(s source, dir string) []string {
			return []string{"backup", "save", "--admin", "unix:" + filepath.Join(s.member.Data, "admin.sock"), "--token-file", s.token, filepath.Join(dir, "kept.backup")}
		},
	},
	{
		name: "dump", target: "dump.json", before: map[string]string{"dump.json": "an older dump\n"},
		args: func(s source, dir string) []string {
			return []string{"dump", "--hosts", s.member.Clients, "--out", filepath.Join(dir, "dump.json"), "/"}
		},
	},
	{
		name: "export", target: "back/version-2",
		args: func(s source, dir string) []string {
			return []string{"export", "--backup", s.backup, filepath.Join(dir, "back")}
		},
	},
	{
		name: "certs", target: "new/certs/host.pem", partial: true,
		args: func(_ source, dir string) []string {
			return []string{"certs", "--out", filepath.Join(dir, "new", "certs"), "host"}
		},
	},
	{
		name: "restore", check: checkRestored,
		args: func(s source, dir string) []string { return []string{"backup", "restore", s.backup, s.config} },
	},
}

// The result of a command that has succeeded survives a loss of power. If the power is lost before, nothing is left that
// looks complete and is not.
func TestCommandsLosePower(t *testing.T) {
	needs.Check(t, needs.Usual)
	s := saved(t)
	for _, c := range commands {
		t.Run(c.name, func(t *testing.T) { c.loses(t, s) })
	}
}

// saved starts a member, which has at least 100 nodes, and saves a backup of it.
func saved(t *testing.T) source {
	t.Helper()
	s := source{token: filepath.Join(t.TempDir(), "token"), backup: filepath.Join(t.TempDir(), "saved.backup")}
	writeFile(t, s.token, "abcdefghijklmnop\n")
	e := process.StartEnsemble(t, process.Config{Size: 1, Tick: tick, Binary: rollcall, Lines: process.AnyHTTP + "admin.tokenFile=" + s.token + "\n"})
	s.member = e.Members[0]
	l := startLoad(t, &recorder{}, e.Members, 1)
	l.await(t, 100)
	l.stop()
	save := commands[0].args(s, filepath.Dir(s.backup))
	save[len(save)-1] = s.backup
	run(t, rollcall, nil, save...)
	return s
}

// loses runs the command, and checks the directories that losses of power after it and in the middle of it may leave.
func (c command) loses(t *testing.T, s source) {
	dir := t.TempDir()
	for name, text := range c.before {
		writeFile(t, filepath.Join(dir, name), text)
	}
	s.config = filepath.Join(t.TempDir(), "zoo.cfg")
	writeFile(t, s.config, fmt.Sprintf("tickTime=1000\ndataDir=%s\nclientPort=1\n", filepath.Join(dir, "data")))
	r := &recorder{}
	d := r.record(t, rollcall, dir, 1)
	before := filesBelow(t, filepath.Join(dir, c.target))
	run(t, d.Binary, d.Env, c.args(s, dir)...)
	complete := filesBelow(t, filepath.Join(dir, c.target))
	changes := r.all()
	rng := rand.New(rand.NewPCG(1, 2))
	for seed := range outages(t, 20) {
		for _, place := range []int{len(changes), 1 + rng.IntN(len(changes))} {
			dirs, o := cut(t, changes, place, 1, uint64(seed))
			var err error
			if done := place == len(changes); c.check != nil {
				err = c.check(dirs[0], done)
			} else if left := filesBelow(t, filepath.Join(dirs[0], c.target)); !same(left, complete) && (done || !same(left, before) && !c.partial) {
				err = fmt.Errorf("%s: there is %v, want %v, or before the end %v", c.target, sizes(left), sizes(complete), sizes(before))
			}
			if err != nil {
				t.Errorf("seed %d: power was lost after change %d of %d, and the disk %v: %v", seed, place, len(changes), o, err)
			}
		}
	}
}

// checkRestored checks the directories of a member that a backup was restored into. If they look as if no restore had begun,
// none may have got as far as its mark.
func checkRestored(dir string, done bool) error {
	data := filepath.Join(dir, "data")
	_, err := disk.MemberDirectory(data)
	switch {
	case errors.Is(err, disk.ErrIncomplete) && !done:
		return nil
	case err != nil:
		return err
	}
	if _, err := os.Stat(filepath.Join(data, "rollcall", "identity.json")); errors.Is(err, fs.ErrNotExist) && !done {
		left, err := os.ReadDir(filepath.Join(data, "rollcall"))
		if slices.ContainsFunc(left, func(e fs.DirEntry) bool { return e.Name() != "lock" && e.Name() != "planting.tmp" }) {
			return fmt.Errorf("a start finds no data, and there is %v", left)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	k, err := read(data, 1, nil)
	if err != nil {
		return err
	}
	k.state.RLock()
	defer k.state.RUnlock()
	if names, _, _ := k.state.Children([]byte("/"), nil, nil); names.Count() < 100 {
		return fmt.Errorf("%d nodes are left of at least 100", names.Count())
	}
	return nil
}

// run runs a command, which must succeed.
func run(t *testing.T, binary string, env []string, args ...string) {
	t.Helper()
	if out, err := output(t, binary, env, args...); err != nil {
		t.Fatalf("rollcall %v: %v\n%s", args, err, out)
	}
}

// output runs a command, and returns its output.
func output(t *testing.T, binary string, env []string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), process.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// filesBelow returns the content of a file, or of all files in a directory, by path relative to it. Without it there is none.
func filesBelow(t *testing.T, path string) map[string][]byte {
	t.Helper()
	found := map[string][]byte{}
	err := filepath.WalkDir(path, func(file string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		name, err := filepath.Rel(path, file)
		if err == nil {
			found[name], err = os.ReadFile(file)
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return found
}

func same(a, b map[string][]byte) bool { return maps.EqualFunc(a, b, bytes.Equal) }

// sizes describes files.
func sizes(files map[string][]byte) map[string]int {
	s := map[string]int{}
	for name, data := range files {
		s[name] = len(data)
	}
	return s
}
