package cli

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// After stepBehind, every thread of the process has the nice value. A process of its own does it, because it cannot be
// taken back.
func TestStepBehind(t *testing.T) {
	if os.Getenv("ROLLCALL_TEST_BEHIND") != "" {
		stepBehind()
		fmt.Print("nice", niceOfThreads(t), ".")
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestStepBehind$")
	cmd.Env = append(os.Environ(), "ROLLCALL_TEST_BEHIND=1")
	out, err := cmd.CombinedOutput()
	if want := fmt.Sprintf("nice[%d].", behindNice); err != nil || !strings.Contains(string(out), want) {
		t.Errorf("%s, %v; want %s", out, err, want)
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
