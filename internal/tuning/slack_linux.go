package tuning

import (
	"os"
	"runtime"
	"syscall"
	"time"
)

// timerSlack is the delay that the kernel may add to a member's timers and sleeps. Linux's default is
// defaultSlack.
//
// While threads block in system calls, Go's monitor thread wakes every 20 µs to check whether one of them
// holds a processor that other goroutines need. A member blocks in fsync many hundred times a second, so the
// monitor never rests. Each wake costs about 15 µs, so with defaultSlack the monitor took a fifth of the processor time of
// single writes, and with 200 µs an eighth. docs/dev/speed.md has the slacks that were tried. The price of timerSlack: if all of Go's
// processors are in system calls at the same time, other goroutines wait for them up to 450 µs longer, and timers may fire that much
// later: the shortest wait on the way of a write is gatherTime of package leader, 1 ms.
const (
	timerSlack   = 500 * time.Microsecond
	defaultSlack = 50 * time.Microsecond
)

// slackTried is an environment variable. RaiseTimerSlack sets it when it executes the program again, so that
// it does so only once, even if the kernel does not keep the slack.
const slackTried = "ROLLCALL_SLACK_TRIED"

// PR_SET_TIMERSLACK and PR_GET_TIMERSLACK of <linux/prctl.h>.
const (
	prSetTimerslack = 29
	prGetTimerslack = 30
)

// RaiseTimerSlack gives all threads of this process the timerSlack. A thread can change only its own slack, and
// the monitor thread starts before any code of ours. So this thread takes the slack, and then executes the
// program once more. All threads of that program inherit the slack. If this is not possible, RaiseTimerSlack
// returns, and the slack stays as it was. It does nothing in these cases:
//
//   - The slack is not defaultSlack: the user has chosen it, or RaiseTimerSlack has run before.
//   - slackTried is set.
//   - Go uses one processor. Then only the monitor can give that processor to other goroutines during a system call.
func RaiseTimerSlack() {
	if runtime.GOMAXPROCS(0) == 1 || os.Getenv(slackTried) != "" {
		return
	}
	program, err := os.Executable()
	if err != nil {
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if threadTimerSlack() != defaultSlack {
		return
	}
	setThreadTimerSlack(timerSlack)
	if threadTimerSlack() == timerSlack {
		executeAgain(program)
		setThreadTimerSlack(defaultSlack)
	}
}

// executeAgain replaces this process by program. It returns only if that fails, for instance because program
// was removed. syscall.Exec restores the limit of open files from before Go raised it. A member could then
// serve about 1,000 clients, so executeAgain raises it again.
func executeAgain(program string) {
	var files syscall.Rlimit
	known := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files) == nil
	_ = syscall.Exec(program, os.Args, append(os.Environ(), slackTried+"=1"))
	if known {
		_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &files) // within the hard limit, so it is allowed
	}
}

func threadTimerSlack() time.Duration {
	ns, _, _ := syscall.RawSyscall(syscall.SYS_PRCTL, prGetTimerslack, 0, 0)
	return time.Duration(ns)
}

// setThreadTimerSlack sets the timer slack of this thread if the kernel allows it.
func setThreadTimerSlack(d time.Duration) {
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, prSetTimerslack, uintptr(d.Nanoseconds()), 0)
}
