package tuning

import (
	"math"
	"runtime/debug"
	"testing"
	"testing/fstest"
)

func TestMemoryOfTheMachine(t *testing.T) {
	const gib = 1 << 30
	tests := []struct {
		name             string
		files            map[string]string
		machine, cgroups int64
	}{
		{name: "nothing known"},
		{name: "no cgroup", files: map[string]string{"proc/meminfo": "MemTotal:        2097152 kB\nMemFree: 1 kB\n"}, machine: 2 * gib},
		{name: "rubbish", files: map[string]string{
			"proc/meminfo": "MemTotal: -5 kB\n", "proc/self/cgroup": "0::/x\nnonsense\n", "sys/fs/cgroup/x/memory.max": "12 bytes\n",
		}},
		{name: "version 2", files: map[string]string{
			"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "max\n", "sys/fs/cgroup/a/memory.max": "1073741824\n",
		}, cgroups: gib},
		{name: "version 2, own limit is lower", files: map[string]string{
			"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "1000000\n", "sys/fs/cgroup/a/memory.max": "1073741824\n",
		}, cgroups: 1_000_000},
		{name: "version 2, seen from a container", files: map[string]string{
			"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "314572800\n",
		}, cgroups: 300 << 20},
		{name: "version 1", files: map[string]string{
			"proc/self/cgroup": "5:devices:/\n4:memory:/a\n0::/\n",
			"sys/fs/cgroup/memory/a/memory.limit_in_bytes":     "314572800\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":       "9223372036854771712\n",
			"sys/fs/cgroup/devices/memory.limit_in_bytes":      "1\n",
			"sys/fs/cgroup/memory/a/b/c/memory.limit_in_bytes": "2\n",
			"sys/fs/cgroup/memory/other/memory.limit_in_bytes": "3\n",
		}, cgroups: 300 << 20},
		{name: "version 1, seen from a container", files: map[string]string{
			"proc/self/cgroup": "4:cpu,memory:/docker/0123\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "314572800\n",
		}, cgroups: 300 << 20},
		{name: "version 1 without a limit", files: map[string]string{
			"proc/self/cgroup": "4:memory:/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := fstest.MapFS{}
			for name, text := range tt.files {
				root[name] = &fstest.MapFile{Data: []byte(text)}
			}
			if got := machineMemory(root); got != tt.machine {
				t.Errorf("the machine has %d, want %d", got, tt.machine)
			}
			if got := cgroupMemoryLimit(root); got != tt.cgroups {
				t.Errorf("cgroups allow %d, want %d", got, tt.cgroups)
			}
		})
	}
}

// The collector's limit follows from the cgroup's, unless GOMEMLIMIT is set.
func TestKeepWithin(t *testing.T) {
	before := debug.SetMemoryLimit(math.MaxInt64)
	defer debug.SetMemoryLimit(before)
	SetCollectorLimit(0, nil)
	SetCollectorLimit(100<<20, []string{"GOMEMLIMIT=1GiB"})
	if got := debug.SetMemoryLimit(-1); got != math.MaxInt64 {
		t.Errorf("the collector's limit is %d", got)
	}
	SetCollectorLimit(300<<20, []string{"GOGC=50"})
	if got := debug.SetMemoryLimit(-1); got != 270<<20 {
		t.Errorf("the collector's limit is %d, want %d", got, 270<<20)
	}
}
