package cli

import (
	"os"
	"strconv"
	"syscall"
)

// lowPriorityNice keeps a command from taking processor time from the machine's members. By the weights of
// Linux (110 against 1024), a busy thread with it gets about a tenth of the time of one with nice 0, and all
// idle time.
const lowPriorityNice = 10

// maxThreadScans bounds the scans for threads that started meanwhile.
const maxThreadScans = 3

// lowerPriority sets lowPriorityNice for all threads of this process. Linux has a nice value for each thread,
// and a new thread inherits it. Errors are ignored, because they only cost time.
func lowerPriority() {
	done := map[int]bool{}
	for range maxThreadScans {
		threads, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return
		}
		for _, thread := range threads {
			if id, err := strconv.Atoi(thread.Name()); err == nil && !done[id] {
				done[id] = true
				if raw, err := syscall.Getpriority(syscall.PRIO_PROCESS, id); err == nil && raw <= 20-lowPriorityNice {
					// the system call returns 20 - nice
					continue // it has that value, or a greater one
				}
				_ = syscall.Setpriority(syscall.PRIO_PROCESS, id, lowPriorityNice) // the thread may have ended
			}
		}
	}
}
