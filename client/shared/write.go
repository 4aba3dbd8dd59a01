package shared

import (
	"bytes"
	"context"
	"errors"

	"rollcall/client"
	"rollcall/client/internal/reconnect"
)

// errChanged means that the value has another revision than the write was based on.
var errChanged = errors.New("another client has set the value")

// writeRevision sets the value if seen is the present revision, and leaves the line. The error is errChanged if the
// present revision is another one, or if the place in the line is gone.
func (v *Value) writeRevision(ctx context.Context, seen Revision, data []byte, p *place) (Revision, error) {
	if err := client.CheckPath(v.path); err != nil { // the first request may be about the receipts
		return Revision{}, err
	}
	if !seen.Exists {
		var err error
		if seen, err = v.createNode(ctx); err != nil {
			return Revision{}, err
		}
	}
	if v.receipts != nil {
		return v.writeWithReceipt(ctx, seen, data, p)
	}
	for {
		stat, err := v.c.Set(ctx, v.path, data, seen.Stat.Version)
		switch {
		case err == nil:
			return newRevision(data, stat), nil
		case errors.Is(err, client.ErrBadVersion), errors.Is(err, client.ErrNoNode):
			return Revision{}, errChanged
		case errors.Is(err, client.ErrSuspended):
			if err := v.c.AwaitConnected(ctx); err != nil {
				return Revision{}, err
			}
		case client.MayHaveHappened(err):
			if err := v.resolveLostWrite(ctx, seen, data, err); err != nil {
				return Revision{}, err
			}
		default:
			return Revision{}, err
		}
	}
}

func newRevision(data []byte, stat client.Stat) Revision {
	return Revision{Data: bytes.Clone(data), Exists: true, Stat: stat}
}

// createNode creates the node with the initial value. The error is errChanged if another client has created it with
// other data, or has set it since.
func (v *Value) createNode(ctx context.Context) (Revision, error) {
	mode := client.Persistent.WithACL(v.cfg.ACL...)
	err := reconnect.RetryCreate(ctx, v.c, v.path, func() error {
		_, _, err := v.c.Create(ctx, v.path, v.cfg.Initial, mode)
		return err
	})
	if err != nil && !errors.Is(err, client.ErrNodeExists) { // an earlier try may have created it
		return Revision{}, err
	}
	now, err := v.Get(ctx)
	if err == nil && (!now.Exists || now.Stat.Version != 0 || !bytes.Equal(now.Data, v.cfg.Initial)) {
		err = errChanged
	}
	return now, err
}

// resolveLostWrite finds out whether a write without a reply was carried out. It returns nil if it was not, errChanged
// if another client was faster, and unanswered, which is the error of the write, if that cannot be known.
func (v *Value) resolveLostWrite(ctx context.Context, seen Revision, data []byte, unanswered error) error {
	if err := reconnect.Settle(ctx, v.c); err != nil {
		return errors.Join(unanswered, err)
	}
	now, err := v.Get(ctx)
	if err != nil {
		return errors.Join(unanswered, err)
	}
	next := now.Stat.Created == seen.Stat.Created && now.Stat.Version == seen.Stat.Version+1
	switch {
	case now.isSame(seen):
		return nil
	case next && !bytes.Equal(now.Data, data):
		return errChanged // the write could only have made this revision, and another one did
	}
	return unanswered
}

// writeWithReceipt is write for a Value with receipts.
func (v *Value) writeWithReceipt(ctx context.Context, seen Revision, data []byte, p *place) (Revision, error) {
	leave := p.leaveOps()
	ops := append([]client.Operation{client.SetOp(v.path, data, seen.Stat.Version)}, leave...)
	outcome, err := v.receipts.Do(ctx, ops...)
	failed, isMulti := errors.AsType[*client.MultiError](err)
	isOurs := isMulti && failed.Index == 0 // not the operation on the receipt
	switch {
	case isMulti && failed.Index > 0 && failed.Index <= len(leave):
		p.nodeLost(err)
		return Revision{}, errChanged
	case isOurs && (errors.Is(err, client.ErrBadVersion) || errors.Is(err, client.ErrNoNode)):
		return Revision{}, errChanged
	case err != nil:
		return Revision{}, err
	}
	p.nodeLeft()
	if outcome.Results != nil {
		return newRevision(data, outcome.Results[0].Stat), nil
	}
	stat := seen.Stat // the reply was lost, but everything except the time is known
	stat.Version, stat.Changed, stat.DataLength = stat.Version+1, outcome.Zxid, len(data)
	return newRevision(data, stat), nil
}
