package target

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

const (
	// diskBytes is the size of a member's own disk. Its file is sparse, so it takes only what is written. It is enough for
	// a log of 100,000 nodes, and is filled at once.
	diskBytes = 1 << 30
	// mountTimeout is the limit of a command about a disk. mkfs takes half a second.
	mountTimeout = time.Minute
	// filler is the file on a member's disk that takes all space.
	filler = "filler"
)

// CheckDisks returns nil if members can have disks of their own here (ProcessConfig.Disks), and otherwise what is
// missing, in words for the user.
func CheckDisks() error {
	if err := checkRoot("disks of the members' own need"); err != nil {
		return err
	}
	for program, from := range map[string]string{"mkfs.ext4": "e2fsprogs", "mount": "mount"} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("disks of the members' own need the program %s: apt-get install %s", program, from)
		}
	}
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		return fmt.Errorf("disks of the members' own need loop devices, which this kernel or container lacks: %w", err)
	}
	return nil
}

// makeData makes a member's data directory, on a disk of its own if the members have such.
func (t *Processes) makeData(ctx context.Context, m *member) error {
	if !t.cfg.Disks {
		return os.Mkdir(m.data, 0o700)
	}
	m.disk = filepath.Join(filepath.Dir(m.data), "disk")
	m.data = filepath.Join(m.disk, "data")
	if err := os.Mkdir(m.disk, 0o700); err != nil {
		return err
	}
	image, err := os.OpenFile(m.diskImage(), os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(image.Truncate(diskBytes), image.Close()); err != nil {
		return err
	}
	if err := runCommand(ctx, mountTimeout, nil, "mkfs.ext4", "-q", "-m", "0", m.diskImage()); err != nil {
		return err
	}
	if err := t.addFor(m, "the disk of member "+m.Name, Step{Thaw: m.disk}, Step{Unmount: m.disk}); err != nil {
		return err
	}
	if err := m.mountDisk(ctx); err != nil {
		return err
	}
	return os.Mkdir(m.data, 0o700)
}

// diskImage is the file that is the member's disk.
func (m *member) diskImage() string { return m.disk + ".ext4" }

func (m *member) mountDisk(ctx context.Context) error {
	return runCommand(ctx, mountTimeout, nil, "mount", "-o", "loop", m.diskImage(), m.disk)
}

// diskFaults makes the faults of the members' own disks.
type diskFaults struct{ processes *Processes }

// registerMethods lets the members have the faults of their disks.
func (t diskFaults) registerMethods() {
	methods := t.processes.methods
	methods[Disk], methods[Fill] = faultMethod{t.canBreakDisk, t.planDisk}, faultMethod{t.canBreakDisk, t.planFill}
}

// canBreakDisk returns an error if a member's disk is broken already.
func (t diskFaults) canBreakDisk(f Fault) error {
	if len(t.processes.brokenOf(f.Member, Disk, Fill)) > 0 {
		return fmt.Errorf("the disk of member %s is broken already: repair that first", f.Member)
	}
	return nil
}

func (t diskFaults) planDisk(f Fault, _ int) (faultPlan, error) {
	m := t.processes.findMember(f.Member)
	if f.Mode == Stall {
		return faultPlan{
			undo:  []Step{{Thaw: m.disk}},
			make:  func(context.Context) error { return freezeWrites(m.disk) },
			after: func(ctx context.Context) error { return t.processes.reviveMember(ctx, m) },
		}, nil
	}
	wasUp := false // a repair that is tried again starts what the first try has ended
	return faultPlan{
		make: func(context.Context) error { return shutdownDisk(m.disk) },
		after: func(ctx context.Context) error {
			wasUp = wasUp || m.process != nil
			return t.remountDisk(ctx, m, wasUp)
		},
	}, nil
}

// remountDisk makes a failed disk work again. The member is killed, unless it has ended by itself, and starts again.
func (t diskFaults) remountDisk(ctx context.Context, m *member, wasUp bool) error {
	if err := t.processes.endMember(ctx, m, syscall.SIGKILL); err != nil {
		return err
	}
	if err := errors.Join(unmountLazily(m.disk), m.mountDisk(ctx), m.checkDisk()); err != nil || !wasUp {
		return err
	}
	return t.processes.startMember(m)
}

// checkDisk returns the error of a disk that was mounted again and still fails. The kernel keeps a file system, with its failure, for
// as long as any mount namespace has it.
func (m *member) checkDisk() error {
	_, err := os.ReadFile(filepath.Join(m.data, "myid")) // a directory could still be read
	if errors.Is(err, syscall.EIO) {
		return fmt.Errorf("the disk of member %s still fails: another process has it in a mount namespace of its own, as unshare and "+
			"containers make; end what was started since the drill began: %w", m.Name, err)
	}
	return err
}

func (t diskFaults) planFill(f Fault, _ int) (faultPlan, error) {
	m := t.processes.findMember(f.Member)
	path := filepath.Join(m.disk, filler)
	return faultPlan{
		undo:  []Step{{Remove: path}},
		make:  func(context.Context) error { return fillDisk(path) },
		after: func(ctx context.Context) error { return t.processes.reviveMember(ctx, m) },
	}, nil
}

// undoAll ends the faults of disks.
func (t diskFaults) undoAll(ctx context.Context) error {
	var failed []error
	for _, b := range slices.Backward(t.processes.broken) {
		if b.fault.Kind == Disk {
			failed = append(failed, runSteps(ctx, b.plan.undo))
		}
	}
	return errors.Join(failed...)
}
