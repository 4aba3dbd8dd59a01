package tuning

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// slackHelper makes TestMain run the helper of TestTakeSlack.
const slackHelper = "ROLLCALL_SLACK_HELPER"

func TestMain(m *testing.M) {
	if _, isHelper := os.LookupEnv(slackHelper); isHelper {
		showSlack()
		return
	}
	os.Exit(m.Run())
}

// showSlack is the helper: it takes the slack, and prints its process, how often it has run, the slack of four
// threads and its arguments.
func showSlack() {
	runs := os.Getenv(slackHelper) + "I"
	if err := os.Setenv(slackHelper, runs); err != nil {
		panic(err) // cannot happen: it has a name
	}
	gone := os.Args[len(os.Args)-1] == "gone"
	if gone {
		_ = os.Remove(os.Args[0]) // RaiseTimerSlack then shows two runs
	}
	before := files()
	RaiseTimerSlack()
	fmt.Printf("process %d runs %s slack", os.Getpid(), runs)
	slacks := make(chan time.Duration)
	for range 4 {
		go func() {
			runtime.LockOSThread() // the thread ends with this goroutine
			slacks <- threadTimerSlack()
		}()
	}
	for range 4 {
		fmt.Printf(" %v", <-slacks)
	}
	fmt.Println(" arguments", os.Args[1:])
	if gone {
		fmt.Println("fewer files", files() < before)
	}
}

// files returns the limit of open files.
func files() uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		panic(err) // cannot happen: the limit exists
	}
	return limit.Cur
}

// A member's process gets the slack on all threads by executing itself once. It keeps a slack that somebody
// has chosen, and the slack of a process with one processor.
func TestTakeSlack(t *testing.T) {
	for name, tt := range map[string]struct {
		env  []string
		from time.Duration // the slack that the process begins with
		want string
	}{
		"default":       {nil, defaultSlack, "runs II slack 500µs 500µs 500µs 500µs"},
		"chosen":        {nil, time.Microsecond, "runs I slack 1µs 1µs 1µs 1µs"},
		"one processor": {[]string{"GOMAXPROCS=1"}, defaultSlack, "runs I slack 50µs 50µs 50µs 50µs"},
		"tried":         {[]string{slackTried + "=1"}, defaultSlack, "runs I slack 50µs 50µs 50µs 50µs"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command(os.Args[0], "serve", "a file.cfg")
			cmd.Env = append(append(os.Environ(), "GOMAXPROCS=2", slackHelper+"="), tt.env...)
			var out strings.Builder
			cmd.Stdout, cmd.Stderr = &out, &out
			if err := startWith(cmd, tt.from); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); err != nil {
				t.Fatalf("%v: %s", err, out.String())
			}
			if want := fmt.Sprintf("process %d %s arguments [serve a file.cfg]\n", cmd.Process.Pid, tt.want); out.String() != want {
				t.Errorf("got %q, want %q", out.String(), want)
			}
		})
	}
}

// A member whose program is gone, as in the middle of an upgrade, runs on with the usual slack and with all
// the files that Go took at its start.
func TestTakeSlackWithoutProgram(t *testing.T) {
	program := filepath.Join(t.TempDir(), "rollcall")
	text, err := os.ReadFile(os.Args[0])
	if err = errors.Join(err, os.WriteFile(program, text, 0o700)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", `ulimit -S -n 100 && exec "$0" gone`, program)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=2", slackHelper+"=")
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := errors.Join(startWith(cmd, defaultSlack), cmd.Wait()); err != nil {
		t.Fatalf("%v: %s", err, out.String())
	}
	if want := fmt.Sprintf("process %d runs I slack 50µs 50µs 50µs 50µs arguments [gone]\nfewer files false\n", cmd.Process.Pid); out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

// startWith starts a command whose first thread has the given slack.
func startWith(cmd *exec.Cmd, from time.Duration) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with this goroutine, and its slack with it
		setThreadTimerSlack(from)
		done <- cmd.Start()
	}()
	return <-done
}
