package tuning

import (
	"bufio"
	"io/fs"
	"math"
	"os"
	"path"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
)

// CollectorShare is the collector's limit in percent of the memory.
const CollectorShare = 90

// AvailableMemory returns the bytes of memory that this process may use: the minimum of the collector's limit
// (GOMEMLIMIT), the machine's memory and the cgroup's limit, or 0 if none is known.
func AvailableMemory() int64 {
	limit := debug.SetMemoryLimit(-1) // only reads it
	if limit == math.MaxInt64 {
		limit = 0
	}
	return minLimit(limit, SystemMemory())
}

// FreeMemory returns the bytes of memory that this process may still take: the minimum of AvailableMemory and
// of what Linux can free without swapping, or 0 if neither is known.
func FreeMemory() int64 {
	return minLimit(AvailableMemory(), readMeminfo(os.DirFS("/"), "MemAvailable:"))
}

// SystemMemory returns the minimum of the machine's memory and the cgroup's limit in bytes, or 0 if neither is
// known.
func SystemMemory() int64 {
	return minLimit(machineMemory(os.DirFS("/")), cgroupMemoryLimit(os.DirFS("/")))
}

// minLimit returns the smaller limit. 0 means no limit.
func minLimit(a, b int64) int64 {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// SetCollectorLimit sets the collector's memory limit, unless the environment does. Without it the collector
// would grow beyond the machine's memory or the cgroup, and the kernel would kill the process.
func SetCollectorLimit(limit int64, env []string) {
	if limit > 0 && !slices.ContainsFunc(env, func(v string) bool { return strings.HasPrefix(v, "GOMEMLIMIT=") }) {
		debug.SetMemoryLimit(limit / 100 * CollectorShare)
	}
}

// machineMemory returns the memory of Linux in bytes, or 0 if it is unknown. root is the machine's root
// directory.
func machineMemory(root fs.FS) int64 { return readMeminfo(root, "MemTotal:") }

// readMeminfo returns the bytes in a line of /proc/meminfo, or 0 if they are unknown.
func readMeminfo(root fs.FS, name string) int64 {
	text, err := fs.ReadFile(root, "proc/meminfo")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			kib, _ := strings.CutSuffix(strings.TrimSpace(rest), " kB")
			n, err := strconv.ParseInt(kib, 10, 64)
			if err == nil && n > 0 && n < math.MaxInt64>>10 {
				return n << 10
			}
		}
	}
	return 0
}

// cgroupMemoryLimit returns the memory limit of this process's cgroup (version 1 or 2) and its ancestors in bytes,
// or 0 without a limit. root is the machine's root directory.
func cgroupMemoryLimit(root fs.FS) int64 {
	file, err := root.Open("proc/self/cgroup")
	if err != nil {
		return 0
	}
	defer func() { _ = file.Close() }() // it was only read
	limit := int64(0)
	for lines := bufio.NewScanner(file); lines.Scan(); {
		_, rest, _ := strings.Cut(lines.Text(), ":")
		controllers, group, _ := strings.Cut(rest, ":")
		switch {
		case controllers == "":
			limit = minLimit(limit, cgroupPathLimit(root, "sys/fs/cgroup", group, "memory.max"))
		case slices.Contains(strings.Split(controllers, ","), "memory"):
			limit = minLimit(limit, cgroupPathLimit(root, "sys/fs/cgroup/memory", group, "memory.limit_in_bytes"))
		}
	}
	return limit
}

// cgroupPathLimit returns the minimum limit of a cgroup and its ancestors. A container may see only the topmost
// directory, which is its own.
func cgroupPathLimit(root fs.FS, mount, group, name string) int64 {
	limit := int64(0)
	for group = path.Clean("/" + group); ; group = path.Dir(group) {
		if text, err := fs.ReadFile(root, path.Join(mount, group, name)); err == nil {
			n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64) // "max" is none
			if err == nil && n > 0 && n < noCgroupLimit {
				limit = minLimit(limit, n)
			}
		}
		if group == "/" {
			return limit
		}
	}
}

// noCgroupLimit is at most the value that version 1 of cgroups shows without a limit.
const noCgroupLimit = math.MaxInt64 &^ (1<<20 - 1)
