package target

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
)

// faults makes and repairs the faults of one ensemble, and journals them. The targets embed it.
type faults struct {
	journal     *Journal
	names       []string             // of the members
	methods     map[Kind]faultMethod // how each kind is made
	unsupported map[Kind]string      // why each other kind cannot be made, in words for the user
	broken      []brokenFault        // in the order in which they were made
}

// faultMethod makes a kind of fault.
type faultMethod struct {
	check func(Fault) error // why it cannot be made now; nil: it always can
	plan  func(f Fault, id int) (faultPlan, error)
}

// faultPlan makes and repairs one fault.
type faultPlan struct {
	undo  []Step                      // goes into the journal
	make  func(context.Context) error // called when the journal is on the disk
	after func(context.Context) error // called after undo, by the process that made the fault; nil: nothing
}

// brokenFault is a fault that is there.
type brokenFault struct {
	fault Fault
	id    int // of its entry
	plan  faultPlan
}

// errWrong marks faults that no ensemble can have.
var errWrong = errors.New("wrong fault")

// Can implements Target.
func (t *faults) Can(f Fault) error {
	if err := t.validateFault(f); err != nil {
		return fmt.Errorf("%w: %w", errWrong, err)
	}
	w, ok := t.methods[f.Kind]
	switch {
	case !ok && t.unsupported[f.Kind] != "":
		return errors.New(t.unsupported[f.Kind])
	case !ok:
		return fmt.Errorf("this ensemble cannot have the fault %s", f.Kind)
	case w.check != nil:
		return w.check(f)
	}
	return nil
}

// validateFault returns an error about a fault that makes no sense.
func (t *faults) validateFault(f Fault) error {
	switch {
	case f.Kind == Start || f.Kind == Cont || f.Kind == Heal || f.Kind == Rollback:
		return fmt.Errorf("%q ends a fault; call Repair with the fault that it ends", f.Kind)
	case !slices.Contains(t.names, f.Member):
		return fmt.Errorf("there is no member %q; the members are %q", f.Member, t.names)
	case slices.Contains(f.From, f.Member):
		return fmt.Errorf("a member cannot be cut from itself (%s)", f.Member)
	case f.Kind == Slow && f.Delay == 0 && f.Loss == 0 && f.Rate == 0:
		return errors.New("slow needs a delay, a loss or a rate")
	case f.Kind == Slow && f.From != nil && (len(f.From) == 0 || f.Delay != 0 || f.Rate != 0):
		return errors.New("slow from some members needs their names, and a loss alone")
	case f.Delay < 0 && f.Kind != Clock:
		return fmt.Errorf("the delay is %v; it must be positive", f.Delay)
	case f.Loss < 0 || f.Loss >= 1:
		return fmt.Errorf("the loss is %g; it must be at least 0 and below 1: 0.1 loses every tenth packet", f.Loss)
	case f.Rate < 0:
		return fmt.Errorf("the rate is %d bytes/s; it must be positive", f.Rate)
	case f.Kind == Disk && f.Mode != Stall && f.Mode != Fail:
		return fmt.Errorf("the mode of disk is %q; it must be %q or %q", f.Mode, Stall, Fail)
	case f.Kind == Secret && f.Mode != Both && f.Mode != New || f.Kind == Keys && f.Mode != Both && f.Mode != Own && f.Mode != New:
		return fmt.Errorf("the mode of %s is %q; it must be %q, %q (keys alone) or %q", f.Kind, f.Mode, Both, Own, New)
	case f.Port != "" && f.Port != ClientPort && f.Port != PeerPorts:
		return fmt.Errorf("the port is %q; it must be %q, %q or empty", f.Port, ClientPort, PeerPorts)
	}
	for _, from := range f.From {
		if !slices.Contains(t.names, from) {
			return fmt.Errorf("there is no member %q to cut from; the members are %q", from, t.names)
		}
	}
	return nil
}

// Break implements Target.
func (t *faults) Break(ctx context.Context, f Fault) error {
	if err := t.Can(f); err != nil {
		return fmt.Errorf("%v: %w", f, err)
	}
	if t.findBroken(f) >= 0 {
		return fmt.Errorf("%v: it is there already; repair it first", f)
	}
	var p faultPlan
	var perr error
	entry, err := t.journal.Add(f.String(), &f, func(id int) []Step {
		p, perr = t.methods[f.Kind].plan(f, id)
		return p.undo
	})
	if err != nil {
		return err
	}
	if perr != nil {
		return errors.Join(fmt.Errorf("%v: %w", f, perr), t.journal.Remove(entry.ID))
	}
	t.broken = append(t.broken, brokenFault{f, entry.ID, p})
	if err := p.make(ctx); err != nil {
		return fmt.Errorf("%v: %w", f, err)
	}
	return nil
}

func (t *faults) findBroken(f Fault) int {
	return slices.IndexFunc(t.broken, func(b brokenFault) bool { return reflect.DeepEqual(b.fault, f) })
}

// brokenOf returns the faults of one of the kinds that a member has now.
func (t *faults) brokenOf(member string, kinds ...Kind) (found []Fault) {
	for _, b := range t.broken {
		if b.fault.Member == member && slices.Contains(kinds, b.fault.Kind) {
			found = append(found, b.fault)
		}
	}
	return found
}

// Repair implements Target.
func (t *faults) Repair(ctx context.Context, f Fault) error {
	i := t.findBroken(f)
	if i < 0 {
		return fmt.Errorf("repair of %v: it is not there", f)
	}
	b := t.broken[i]
	err := runSteps(ctx, b.plan.undo)
	if err == nil && b.plan.after != nil {
		err = b.plan.after(ctx)
	}
	if err == nil {
		err = t.journal.Remove(b.id)
	}
	if err != nil {
		return fmt.Errorf("repair of %v: %w", f, err)
	}
	t.broken = slices.Delete(t.broken, i, i+1)
	return nil
}

// Heal implements Target.
func (t *faults) Heal(ctx context.Context) error {
	var failed []error
	for _, b := range slices.Backward(slices.Clone(t.broken)) {
		failed = append(failed, t.Repair(ctx, b.fault))
	}
	return errors.Join(failed...)
}
