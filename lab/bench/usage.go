package bench

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ticksPerSecond is the unit of CPU time in /proc on every Linux.
const ticksPerSecond = 100

// usage is the usage of processes.
type usage struct {
	cpuByPID map[int]time.Duration // user and system time, by process id
	rss      int64                 // in bytes, of all processes; shared pages count for each
	pss      int64                 // in bytes; a shared page is divided among its processes; 0: unknown
	memory   map[int]memberMemory  // by process id
}

// memberMemory is the memory of one process.
type memberMemory struct {
	pss   int64 // in bytes; 0: unknown
	files int   // open files, most of which are clients' connections; 0: unknown
}

// processes are the servers under test, as a /proc shows them.
type processes struct {
	procRoot string // "/proc" except in tests
	pids     []int
}

// cpuTimes returns the CPU time of each process. It skips processes that have ended, because a case may kill
// servers.
func (p processes) cpuTimes() (map[int]time.Duration, error) {
	times := map[int]time.Duration{}
	for _, pid := range p.pids {
		text, err := os.ReadFile(p.procFile(pid, "stat"))
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue
		}
		if err == nil {
			times[pid], err = parseCPUTime(text)
		}
		if err != nil {
			return nil, fmt.Errorf("bench: CPU time of process %d: %w", pid, err)
		}
	}
	return times, nil
}

// fullUsage also reads the memory. That may take some milliseconds and delays a process that maps memory, so
// it is not for the measured time.
func (p processes) fullUsage() (usage, error) {
	var u usage
	var err error
	if u.cpuByPID, err = p.cpuTimes(); err != nil {
		return u, err
	}
	u.memory = map[int]memberMemory{}
	for pid := range u.cpuByPID {
		var m memberMemory
		if status, err := os.ReadFile(p.procFile(pid, "status")); err == nil {
			u.rss += parseSizeLine(status, "VmRSS:")
		}
		if rollup, err := os.ReadFile(p.procFile(pid, "smaps_rollup")); err == nil {
			m.pss = parseSizeLine(rollup, "Pss:")
			u.pss += m.pss
		}
		if files, err := os.ReadDir(p.procFile(pid, "fd")); err == nil {
			m.files = len(files)
		}
		u.memory[pid] = m
	}
	return u, nil
}

// checkExist returns an error unless every process exists.
func (p processes) checkExist() error {
	times, err := p.cpuTimes()
	if err != nil {
		return err
	}
	for _, pid := range p.pids {
		if _, ok := times[pid]; !ok {
			return fmt.Errorf("bench: no process %d", pid)
		}
	}
	return nil
}

func (p processes) procFile(pid int, name string) string {
	return filepath.Join(p.procRoot, strconv.Itoa(pid), name)
}

// cpuSince returns the CPU time since an earlier reading, of the processes in both.
func cpuSince(earlier, later map[int]time.Duration) time.Duration {
	var sum time.Duration
	for pid, cpu := range later {
		if was, ok := earlier[pid]; ok {
			sum += cpu - was
		}
	}
	return sum
}

// parseCPUTime returns user and system time from /proc/PID/stat: its fields 14 and 15. The second field is the
// program's name in brackets, which may contain anything.
func parseCPUTime(text []byte) (time.Duration, error) {
	_, rest, ok := bytes.Cut(text[max(bytes.LastIndexByte(text, ')'), 0):], []byte(") "))
	fields := strings.Fields(string(rest))
	if !ok || len(fields) < 13 {
		return 0, fmt.Errorf("cannot read %.100q", text)
	}
	user, err := strconv.ParseInt(fields[11], 10, 64)
	if err != nil {
		return 0, err
	}
	system, err := strconv.ParseInt(fields[12], 10, 64)
	if err != nil {
		return 0, err
	}
	return time.Duration(user+system) * (time.Second / ticksPerSecond), nil
}

// parseSizeLine returns the bytes in a line such as "VmRSS:   123 kB", or 0 if there is no such line.
func parseSizeLine(text []byte, key string) int64 {
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) >= 2 && fields[0] == key {
			kb, _ := strconv.ParseInt(fields[1], 10, 64) // the kernel always writes a number
			return kb << 10
		}
	}
	return 0
}

func ownCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0 // the call fails only for wrong arguments
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
