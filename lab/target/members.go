package target

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"syscall"
)

// canGrow returns an error if no member can be added by a command on this one's machine.
func (t operators) canGrow(f Fault) error {
	if len(t.members) > MaxSize {
		return fmt.Errorf("the ensemble has %d members, and a drill starts %d at most: remove one first", len(t.members), MaxSize+1)
	}
	return t.canRunCommands(f)
}

// canReplace returns an error if a member cannot be replaced.
func (t operators) canReplace(f Fault) error {
	if len(t.members) < 2 {
		return errors.New("the ensemble has one member, and no other one that could take the command")
	}
	return t.canEnd(f)
}

// planAdd has a member come in, as docs/members.md says, and go again.
func (t operators) planAdd(f Fault, _ int) (faultPlan, error) {
	host, added := t.findMember(f.Member), (*member)(nil)
	return faultPlan{
		make: func(ctx context.Context) (err error) {
			if added, err = t.startJoining(ctx, t.freeID()); err != nil {
				return err
			}
			return t.runCommand(ctx, host, "members", "add", added.serverLine())
		},
		after: func(ctx context.Context) error {
			if !t.isIn(added) {
				return nil
			}
			if err := t.runCommand(ctx, host, "members", "remove", "--if-exists", added.Name); err != nil {
				return err
			}
			return t.endAndRemove(ctx, added)
		},
	}, nil
}

// planReplace has a new member take a member's place, and afterwards one with the former name and no data take that
// one's place.
func (t operators) planReplace(f Fault, _ int) (faultPlan, error) {
	former := t.findMember(f.Member)
	var with, again *member
	return faultPlan{
		make: func(ctx context.Context) (err error) {
			if with, err = t.startJoining(ctx, t.freeID()); err != nil {
				return err
			}
			return t.replaceMember(ctx, former, with)
		},
		after: func(ctx context.Context) (err error) { // it may be called again after an error
			switch {
			case !t.isIn(with):
				return nil
			case t.isIn(former): // the exchange failed
				if err := t.runCommand(ctx, t.thirdMember(former, with), "members", "remove", "--if-exists", with.Name); err != nil {
					return err
				}
				return t.endAndRemove(ctx, with)
			case again == nil:
				if again, err = t.startJoining(ctx, former.id); err != nil {
					return err
				}
			}
			return t.replaceMember(ctx, with, again)
		},
	}, nil
}

// isIn reports whether a member is one of the ensemble's.
func (t operators) isIn(m *member) bool { return slices.Contains(t.members, m) }

// replaceMember replaces a member by another one, which runs and is empty.
func (t operators) replaceMember(ctx context.Context, former, with *member) error {
	if err := t.runCommand(ctx, t.thirdMember(former, with), "members", "replace", former.Name, with.serverLine()); err != nil {
		return err
	}
	return t.endAndRemove(ctx, former)
}

// thirdMember returns a member that is neither of two.
func (t operators) thirdMember(a, b *member) *member {
	return t.members[slices.IndexFunc(t.members, func(m *member) bool { return m != a && m != b })]
}

// freeID returns the first id that no member has.
func (t operators) freeID() int {
	id := 1
	for slices.Contains(t.names, strconv.Itoa(id)) {
		id++
	}
	return id
}

// startJoining starts a member without data that is not in the ensemble's list yet.
func (t operators) startJoining(ctx context.Context, id int) (*member, error) {
	m, err := t.newMember(ctx, id)
	if err != nil {
		return nil, err
	}
	m.Token = t.members[0].Token
	switch {
	case t.network != nil:
		err = t.attachMember(ctx, m)
	case runtime.GOOS == "linux":
		beside := t.members[0].ip.To4()
		m.setAddresses(net.IPv4(beside[0], beside[1], beside[2], byte(id)), fixedPorts)
	default:
		err = m.atFreePorts()
	}
	t.addToEnsemble(m)
	if err == nil {
		err = t.writeFiles(m)
	}
	if err == nil {
		err = t.startMember(m)
	}
	if err != nil {
		return nil, errors.Join(err, t.endAndRemove(context.WithoutCancel(ctx), m))
	}
	return m, nil
}

// addToEnsemble takes a member into the ensemble, in the order of their ids.
func (t operators) addToEnsemble(m *member) {
	at, _ := slices.BinarySearchFunc(t.members, m.id, func(m *member, id int) int { return m.id - id })
	t.members, t.names = slices.Insert(t.members, at, m), slices.Insert(t.names, at, m.Name)
}

// endAndRemove ends a member that is not in the list any more, and removes all that it had.
func (t operators) endAndRemove(ctx context.Context, m *member) error {
	err := t.endMember(ctx, m, syscall.SIGTERM)
	if m.process != nil {
		return err
	}
	failed := []error{err} // such as that it had to be killed
	for _, id := range slices.Backward(m.setup) {
		failed = append(failed, t.undoSetup(ctx, id))
	}
	failed = append(failed, os.RemoveAll(filepath.Dir(m.config)))
	at := slices.Index(t.members, m)
	t.members, t.names = slices.Delete(t.members, at, at+1), slices.Delete(t.names, at, at+1)
	return errors.Join(failed...)
}

// serverLine returns the line of a member in the ensemble's list.
func (m *member) serverLine() string {
	return fmt.Sprintf("server.%d=%s:%d:%d;%s", m.id, m.ip, m.ports.quorum, m.ports.election, m.Clients)
}
