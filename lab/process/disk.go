package process

import (
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// Disk can make the disk of a process hang: fsync and fdatasync do not return, as on a broken
// disk. Safe for concurrent use.
type Disk struct {
	Calls

	mu      sync.Mutex
	hanging bool
	held    []*Call // those that hang
}

// NewDisk returns a disk for one process at a time that runs binary. The tests must be run by Main: see NewCalls.
func NewDisk(t *testing.T, binary string) *Disk {
	t.Helper()
	d := &Disk{}
	d.Calls = NewCalls(t, binary, 0, []int{unix.SYS_FSYNC, unix.SYS_FDATASYNC}, d.holdOrContinue, d.forgetCalls)
	return d
}

// HangCalls makes each call that begins from now on wait for Release.
func (d *Disk) HangCalls() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hanging = true
}

// ReleaseCalls lets the kernel do the calls that hang, and all later ones.
func (d *Disk) ReleaseCalls() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hanging = false
	for _, call := range d.held {
		call.Continue()
	}
	d.held = nil
}

// forgetCalls forgets the calls of a process that has ended.
func (d *Disk) forgetCalls() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.held = nil
}

// holdOrContinue holds a call if the disk hangs. Otherwise it lets the kernel do the call.
func (d *Disk) holdOrContinue(call *Call) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.hanging {
		d.held = append(d.held, call)
		return
	}
	call.Continue()
}
