package target

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"rollcall/integration/needs"
)

// Groups are made where the kernel has the limit of memory. If it has none, the error says what to do.
func TestFindMemoryGroups(t *testing.T) {
	for name, tt := range map[string]struct {
		files            map[string]string
		dir, limit, want string
	}{
		"version 1":              {map[string]string{"memory/memory.limit_in_bytes": "1", "cgroup.controllers": "memory"}, "memory", "memory.limit_in_bytes", ""},
		"version 2":              {map[string]string{"cgroup.controllers": "cpu memory\n", "cgroup.subtree_control": "memory\n"}, ".", "memory.max", ""},
		"version 2, not passed":  {map[string]string{"cgroup.controllers": "memory\n", "cgroup.subtree_control": "cpu\n"}, "", "", "echo +memory >"},
		"version 2 without it":   {map[string]string{"cgroup.controllers": "cpu hugememory\n"}, "", "", "limits no memory here"},
		"no groups of processes": {nil, "", "", "limits no memory here"},
	} {
		root := t.TempDir()
		for file, text := range tt.files {
			path := filepath.Join(root, file)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		got, err := findMemoryGroups(root)
		if tt.want != "" {
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s: %v, want %q", name, err, tt.want)
			}
		} else if err != nil || got.dir != filepath.Join(root, tt.dir) || got.limit != tt.limit {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// A process in a group is the one that was started, and the kernel knows its limit. The group is removed with the ensemble's parts.
func TestMemoryGroup(t *testing.T) {
	needs.Check(t, needs.MemoryGroups(CheckMemory))
	journal, err := OpenJournal(filepath.Join(t.TempDir(), "journal"))
	if err != nil {
		t.Fatal(err)
	}
	defer journal.Close()
	p := &Processes{cfg: ProcessConfig{Memory: 1 << 30}, dir: filepath.Join(t.TempDir(), fmt.Sprintf("rollcall-test-%d", os.Getpid()))}
	p.journal = journal
	m := &member{Member: Member{Name: "1"}}
	if err := p.makeGroup(m); err != nil {
		t.Fatal(err)
	}
	groups, err := findMemoryGroups(groupRoot)
	if err != nil {
		t.Fatal(err)
	}
	if limit, err := os.ReadFile(filepath.Join(m.group, groups.limit)); err != nil || strings.TrimSpace(string(limit)) != "1073741824" {
		t.Errorf("the limit is %q, %v", limit, err)
	}
	argv := insideGroup(m.group, "sh", "-c", "echo $$; cat /proc/$$/cgroup; exit 7")
	cmd := exec.Command(argv[0], argv[1:]...)
	out, err := cmd.Output()
	if err == nil || cmd.ProcessState.ExitCode() != 7 || !strings.HasPrefix(string(out), fmt.Sprintf("%d\n", cmd.Process.Pid)) ||
		!strings.Contains(string(out), "/"+filepath.Base(m.group)+"\n") {
		t.Errorf("%v, %s", err, out)
	}
	if err := p.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(m.group); err == nil {
		t.Errorf("%s is left", m.group)
	}
	if got := insideGroup("", "a", "b"); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("without a group: %q", got)
	}
	if _, err := (&ProcessConfig{Journal: journal, Memory: MinMemory - 1}).complete(); err == nil ||
		!strings.Contains(err.Error(), "must be at least") {
		t.Errorf("%v", err)
	}
}
