package target

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"rollcall/lab/child"
)

// lacksOfProcesses has the reasons for which processes on one loopback cannot have the other faults.
var lacksOfProcesses = map[Kind]string{
	Cut:    "the members share one loopback interface, which cannot be cut" + wantsNetwork,
	Slow:   "the members share one loopback interface, which cannot be slowed down" + wantsNetwork,
	Forget: "the members share one loopback interface, whose connections cannot be lost" + wantsNetwork,
	Disk:   "the members' data are on a disk of this machine, which must not be broken" + wantsDisks,
	Fill:   "the members' data are on a disk of this machine, which must not be filled" + wantsDisks,
	Clock: "processes of one machine share its clock, and it must not be set: drill an ensemble on machines of their " +
		"own, with a hook for clock",
}

// lacksWithoutOperators has the reasons for which members that serve no operators of Rollcall cannot have their acts.
var lacksWithoutOperators = map[Kind]string{
	Upgrade: ofRollcall, Add: ofRollcall, Replace: ofRollcall, Secret: ofRollcall, Keys: ofRollcall, Backup: ofRollcall,
}

const (
	ofRollcall   = "it is about commands of Rollcall, and the members run other software, or serve no operators"
	wantsNetwork = ": with --in namespaces, as root on Linux with ip, tc, ss and nft, each member gets a network namespace of its own"
	wantsDisks   = ": with --in namespaces, as root on Linux with mkfs.ext4 and loop devices, each member gets a small disk of its own"
)

// canEnd returns an error if a member cannot be killed or stopped now.
func (t *Processes) canEnd(f Fault) error {
	m := t.findMember(f.Member)
	switch {
	case m.process == nil:
		return fmt.Errorf("member %s is down already", m.Name)
	case slices.ContainsFunc(t.brokenOf(f.Member, Disk), func(d Fault) bool { return d.Mode == Stall }):
		return fmt.Errorf("the disk of member %s is stalled, so its process cannot end: repair that first", m.Name)
	case f.Kind == Shut && len(t.brokenOf(f.Member, Stop)) > 0:
		return fmt.Errorf("member %s is stopped, so it cannot shut down: repair that first, or kill it", m.Name)
	}
	return nil
}

// planEnd is for Kill and Shut. After the drill's own end no member is started again, so nothing is left to undo.
func (t *Processes) planEnd(sig syscall.Signal) func(Fault, int) (faultPlan, error) {
	return func(f Fault, _ int) (faultPlan, error) {
		m := t.findMember(f.Member)
		return faultPlan{
			make:  func(ctx context.Context) error { return t.endMember(ctx, m, sig) },
			after: func(ctx context.Context) error { return restartMember(ctx, t, m) },
		}, nil
	}
}

func (t *Processes) planWipe(f Fault, _ int) (faultPlan, error) {
	m := t.findMember(f.Member)
	return faultPlan{
		make: func(ctx context.Context) error {
			if err := t.endMember(ctx, m, syscall.SIGKILL); err != nil {
				return err
			}
			return m.emptyData()
		},
		after: func(ctx context.Context) error { return restartMember(ctx, t, m) },
	}, nil
}

// emptyData removes everything but the id from the data directory.
func (m *member) emptyData() error {
	entries, err := os.ReadDir(m.data)
	if err != nil {
		return err
	}
	var failed []error
	for _, e := range entries {
		failed = append(failed, os.RemoveAll(filepath.Join(m.data, e.Name())))
	}
	return errors.Join(append(failed, m.writeID())...)
}

func (t *Processes) planStop(f Fault, _ int) (faultPlan, error) {
	m := t.findMember(f.Member)
	if m.process == nil {
		return faultPlan{}, fmt.Errorf("member %s is down", m.Name)
	}
	pid := m.process.cmd.Process.Pid
	started, err := startOf(pid)
	switch {
	case err != nil:
		return faultPlan{}, err
	case started == "":
		return faultPlan{}, fmt.Errorf("member %s has ended by itself; %s", m.Name, m.tailOfLog())
	}
	return faultPlan{
		undo: []Step{{Signal: syscall.SIGCONT, Pid: pid, Started: started}},
		make: func(context.Context) error { return child.StopPid(pid) },
	}, nil
}

// reviveMember starts a member again that has ended by itself, as an init system would.
func (t *Processes) reviveMember(ctx context.Context, m *member) error {
	if m.process == nil {
		return nil // a drill has killed it
	}
	select {
	case <-m.process.done:
		return restartMember(ctx, t, m)
	default:
		return nil
	}
}
