package cli

import (
	"os"
	"strconv"
	"syscall"
)

// lowPriorityNice is the nice value of a command that must not take processor time from the members of the machine. By the
// weights of Linux (110 against 1024), a busy thread with it gets about a tenth of what one with 0 gets. It gets
// everything that is left over.
const lowPriorityNice = 10

// maxThreadScans bounds how often stepBehind looks for threads that began meanwhile.
const maxThreadScans = 3

// lowerPriority gives all threads of this process the nice value behindNice. Linux has one for each thread, and a new thread
// gets that of the one that began it. What cannot be changed stays as it is: that costs time only.
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
				if raw, err := syscall.Getpriority(syscall.PRIO_PROCESS, id); err == nil && raw <= 20-lowPriorityNice { // the system call returns 20 - nice
					continue // it has that value, or a greater one
				}
				_ = syscall.Setpriority(syscall.PRIO_PROCESS, id, lowPriorityNice) // the thread may have ended
			}
		}
	}
}
