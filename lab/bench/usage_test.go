package bench

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const statLine = "%s (a ) (name) S 1 2 3 4 5 6 7 8 9 10 250 150 7 7 20 0 8 0 1 1 1\n"

// fakeProc makes a /proc with these files, and returns the processes 11 and 12 of it.
func fakeProc(t *testing.T, files map[string]string) processes {
	t.Helper()
	p := processes{procRoot: t.TempDir(), pids: []int{11, 12}}
	for name, text := range files {
		path := filepath.Join(p.procRoot, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// CPU time is the user and system time of each process, whatever its name is. Memory is the sum
// over all processes.
func TestUsage(t *testing.T) {
	p := fakeProc(t, map[string]string{
		"11/stat": strings.Replace(statLine, "%s", "11", 1), "11/status": "Name:\tx\nVmRSS:\t  2048 kB\n", "11/smaps_rollup": "a-b\nRss: 5 kB\nPss:   1024 kB\nPss_Dirty: 7 kB\n",
		"12/stat": strings.Replace(statLine, "%s", "12", 1), "12/status": "VmRSS:\t1024 kB\n",
	})
	u, err := p.fullUsage()
	if err != nil || len(u.cpuByPID) != 2 || u.cpuByPID[11] != 4*time.Second || u.rss != 3<<20 || u.pss != 1<<20 {
		t.Errorf("%v, %v", u, err)
	}
	earlier := map[int]time.Duration{11: time.Second, 13: time.Second}
	if got := cpuSince(earlier, u.cpuByPID); got != 3*time.Second { // 12 is new, 13 has ended
		t.Errorf("used %v", got)
	}
}

// A process that has ended is left out, but every process must exist when a run begins. Text that
// cannot be parsed is an error.
func TestUsageMissing(t *testing.T) {
	p := fakeProc(t, map[string]string{"11/stat": strings.Replace(statLine, "%s", "11", 1)})
	if u, err := p.fullUsage(); err != nil || len(u.cpuByPID) != 1 {
		t.Errorf("%v, %v", u, err)
	}
	if err := p.checkExist(); err == nil || !strings.Contains(err.Error(), "no process 12") {
		t.Errorf("%v", err)
	}
	for _, text := range []string{"", "11", "11 (x) S 1 2", "11 (x) S 1 2 3 4 5 6 7 8 9 10 x 5 6"} {
		p := fakeProc(t, map[string]string{"11/stat": text})
		if _, err := p.cpuTimes(); err == nil {
			t.Errorf("%q was accepted", text)
		}
	}
}

// The usage of this process can be read. Both /proc and ownCPU report CPU time for it.
func TestUsageOfThisProcess(t *testing.T) {
	p := processes{procRoot: "/proc", pids: []int{os.Getpid()}}
	for began := time.Now(); ownCPU() < 50*time.Millisecond && time.Since(began) < time.Minute; {
	}
	u, err := p.fullUsage()
	if err != nil || u.cpuByPID[os.Getpid()] <= 0 || u.rss < 1<<20 {
		t.Errorf("%v, %v", u, err)
	}
}
