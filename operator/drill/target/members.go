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
func (t operators) planAdd(f Fault, _ int) (plan, error) {
	host, added := t.member(f.Member), (*member)(nil)
	return plan{
		make: func(ctx context.Context) (err error) {
			if added, err = t.join(ctx, t.freeID()); err != nil {
				return err
			}
			return t.command(ctx, host, "members", "add", added.line())
		},
		after: func(ctx context.Context) error {
			if !t.isIn(added) {
				return nil
			}
			if err := t.command(ctx, host, "members", "remove", "--if-exists", added.Name); err != nil {
				return err
			}
			return t.leave(ctx, added)
		},
	}, nil
}

// planReplace has a new member take a member's place, and afterwards one with the former name and no data take that
// one's place.
func (t operators) planReplace(f Fault, _ int) (plan, error) {
	former := t.member(f.Member)
	var with, again *member
	return plan{
		make: func(ctx context.Context) (err error) {
			if with, err = t.join(ctx, t.freeID()); err != nil {
				return err
			}
			return t.exchange(ctx, former, with)
		},
		after: func(ctx context.Context) (err error) { // it may be called again after an error
			switch {
			case !t.isIn(with):
				return nil
			case t.isIn(former): // the exchange failed
				if err := t.command(ctx, t.besides(former, with), "members", "remove", "--if-exists", with.Name); err != nil {
					return err
				}
				return t.leave(ctx, with)
			case again == nil:
				if again, err = t.join(ctx, former.id); err != nil {
					return err
				}
			}
			return t.exchange(ctx, with, again)
		},
	}, nil
}

// isIn reports whether a member is one of the ensemble's.
func (t operators) isIn(m *member) bool { return slices.Contains(t.members, m) }

// exchange replaces a member by another one, which runs and is empty.
func (t operators) exchange(ctx context.Context, former, with *member) error {
	if err := t.command(ctx, t.besides(former, with), "members", "replace", former.Name, with.line()); err != nil {
		return err
	}
	return t.leave(ctx, former)
}

// besides returns a member that is neither of two.
func (t operators) besides(a, b *member) *member {
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

// join starts a member without data that is not in the ensemble's list yet.
func (t operators) join(ctx context.Context, id int) (*member, error) {
	m, err := t.newMember(ctx, id)
	if err != nil {
		return nil, err
	}
	m.Token = t.members[0].Token
	switch {
	case t.network != nil:
		err = t.attach(ctx, m)
	case runtime.GOOS == "linux":
		beside := t.members[0].ip.To4()
		m.at(net.IPv4(beside[0], beside[1], beside[2], byte(id)), fixedPorts)
	default:
		err = m.atFreePorts()
	}
	t.enlist(m)
	if err == nil {
		err = t.configure(m)
	}
	if err == nil {
		err = t.start(m)
	}
	if err != nil {
		return nil, errors.Join(err, t.leave(context.WithoutCancel(ctx), m))
	}
	return m, nil
}

// enlist takes a member into the ensemble, in the order of their ids.
func (t operators) enlist(m *member) {
	at, _ := slices.BinarySearchFunc(t.members, m.id, func(m *member, id int) int { return m.id - id })
	t.members, t.names = slices.Insert(t.members, at, m), slices.Insert(t.names, at, m.Name)
}

// leave ends a member that is not in the list any more, and removes all that it had.
func (t operators) leave(ctx context.Context, m *member) error {
	err := t.end(ctx, m, syscall.SIGTERM)
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

// line returns the line of a member in the ensemble's list.
func (m *member) line() string {
	return fmt.Sprintf("server.%d=%s:%d:%d;%s", m.id, m.ip, m.ports.quorum, m.ports.election, m.Clients)
}
