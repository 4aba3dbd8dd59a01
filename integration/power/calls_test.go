package power

import (
	"os"
	"os/exec"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rollcall/integration/needs"
	"rollcall/lab/process"
)

// A process gets each file that the recorder opens for it, whatever signals interrupt the recorder meanwhile. Go's runtime sends such
// signals to its own threads.
func TestSignalsLoseNoFile(t *testing.T) {
	needs.Check(t, needs.Usual)
	var thread atomic.Int64
	calls := process.NewCalls(t, "/bin/sh", process.Uninterrupted, []int{unix.SYS_OPENAT}, func(c *process.Call) {
		if thread.Load() == 0 {
			runtime.LockOSThread()
			thread.Store(int64(unix.Gettid()))
		}
		path, err := c.ReadText(c.Args[1])
		if err != nil || c.Args[2]&unix.O_CREAT == 0 {
			c.Continue()
			return
		}
		fd, err := unix.Open(path, int(c.Args[2])|unix.O_CLOEXEC, uint32(c.Args[3]))
		if err != nil {
			c.ReturnValue(0, errnoOf(err))
			return
		}
		defer unix.Close(fd)
		c.ReturnFile(fd)
	}, func() {})
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		for {
			select {
			case <-ended:
				return
			case <-time.After(10 * time.Microsecond):
			}
			if id := int(thread.Load()); id != 0 {
				_ = unix.Tgkill(os.Getpid(), id, unix.SIGURG)
			}
		}
	}()
	script := `n=0; while [ $n -lt 500 ]; do echo "$n" >"$0/file" || exit 1; n=$((n+1)); done`
	cmd := exec.CommandContext(t.Context(), calls.Binary, "-c", script, t.TempDir())
	cmd.Env = append(os.Environ(), calls.Env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
