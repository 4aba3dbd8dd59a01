package cli

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// After lowerPriority, every thread of the process has the nice value, or a greater one that it had before. A process of its
// own does it, because it cannot be taken back.
func TestStepBehind(t *testing.T) {
	if os.Getenv("ROLLCALL_TEST_BEHIND") != "" {
		lowerPriority()
		fmt.Print("nice", niceOfThreads(t), ".")
		return
	}
	own, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		command []string
		want    int
	}{
		{[]string{os.Args[0]}, max(lowPriorityNice, 20-own)}, // the system call returns 20 - nice
		{[]string{"nice", "-n", "19", os.Args[0]}, 19},       // the greatest one
	} {
		cmd := exec.CommandContext(t.Context(), tt.command[0], append(tt.command[1:], "-test.run=^TestStepBehind$")...)
		cmd.Env = append(os.Environ(), "ROLLCALL_TEST_BEHIND=1")
		out, err := cmd.CombinedOutput()
		if want := fmt.Sprintf("nice[%d].", tt.want); err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%q: %s, %v; want %s", tt.command[0], out, err, want)
		}
	}
}

// niceOfThreads returns the nice values that the threads of this process have, each once.
func niceOfThreads(t *testing.T) (values []string) {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, thread := range threads {
		stat, err := os.ReadFile("/proc/self/task/" + thread.Name() + "/stat")
		if err != nil {
			continue // it has ended
		}
		_, after, _ := strings.Cut(string(stat), ") ")
		if nice := strings.Fields(after)[16]; !seen[nice] { // the 19th value of the line, see proc(5)
			seen[nice] = true
			values = append(values, nice)
		}
	}
	return values
}
