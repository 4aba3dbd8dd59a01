package target

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const (
	groupRoot = "/sys/fs/cgroup"
	// MinMemory is the least limit of a member's memory, in bytes. Rollcall needs 30 MiB without data, and Java more.
	MinMemory = 64 << 20
)

// memoryGroups is a directory of the kernel in which groups of processes with a limited memory are made.
type memoryGroups struct {
	dir   string
	limit string // the file of a group that has its limit
}

// findMemoryGroups returns that directory, which depends on the version of cgroups. root is groupRoot, apart from tests.
func findMemoryGroups(root string) (memoryGroups, error) {
	first := memoryGroups{filepath.Join(root, "memory"), "memory.limit_in_bytes"}
	if _, err := os.Stat(filepath.Join(first.dir, first.limit)); err == nil {
		return first, nil
	}
	known, err := os.ReadFile(filepath.Join(root, "cgroup.controllers"))
	if err != nil || !slices.Contains(strings.Fields(string(known)), "memory") {
		return memoryGroups{}, fmt.Errorf("the kernel limits no memory here: %s has neither memory/%s nor memory in cgroup.controllers",
			root, first.limit)
	}
	control := filepath.Join(root, "cgroup.subtree_control")
	passed, err := os.ReadFile(control)
	if err != nil || !slices.Contains(strings.Fields(string(passed)), "memory") {
		return memoryGroups{}, fmt.Errorf("groups below %s have no limit of memory yet: echo +memory >%s", root, control)
	}
	return memoryGroups{root, "memory.max"}, nil
}

// CheckMemory returns nil if the memory of members can be limited, and otherwise what is missing, in words for the user.
func CheckMemory() error {
	if os.Geteuid() != 0 {
		return errors.New("a limit of memory needs a cgroup, which only root may make")
	}
	_, err := findMemoryGroups(groupRoot)
	return err
}

// makeGroup makes the group of a member's processes, if the memory of members is limited.
func (t *Processes) makeGroup(m *member) error {
	if t.cfg.Memory == 0 {
		return nil
	}
	groups, err := findMemoryGroups(groupRoot)
	if err != nil {
		return err
	}
	m.group = filepath.Join(groups.dir, filepath.Base(t.dir)+"-"+m.Name)
	if err := t.addFor(m, "the cgroup of member "+m.Name, Step{Remove: m.group}); err != nil {
		return err
	}
	if err := os.Mkdir(m.group, 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(m.group, groups.limit), strconv.AppendInt(nil, t.cfg.Memory, 10), 0o600)
}

// insideGroup returns a command line that runs argv in a group. The process stays the same. If group is "", it returns argv.
func insideGroup(group string, argv ...string) []string {
	if group == "" {
		return argv
	}
	return append([]string{"sh", "-c", `echo $$ >"$0" && exec "$@"`, filepath.Join(group, "cgroup.procs")}, argv...)
}
