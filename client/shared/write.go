package shared

import (
	"bytes"
	"context"
	"errors"

	"rollcall/client"
	"rollcall/client/internal/reconnect"
)

// errChanged says that the value has another revision than the write was based on.
var errChanged = errors.New("another client has set the value")

// write sets the value if seen is the present revision. The error is errChanged if it is not.
func (v *Value) write(ctx context.Context, seen Revision, data []byte) (Revision, error) {
	if err := client.CheckPath(v.path); err != nil { // the first request may be about the receipts
		return Revision{}, err
	}
	if !seen.Exists {
		var err error
		if seen, err = v.create(ctx); err != nil {
			return Revision{}, err
		}
	}
	if v.book != nil {
		return v.writeWithReceipt(ctx, seen, data)
	}
	for {
		stat, err := v.c.Set(ctx, v.path, data, seen.Stat.Version)
		switch {
		case err == nil:
			return written(data, stat), nil
		case errors.Is(err, client.ErrBadVersion), errors.Is(err, client.ErrNoNode):
			return Revision{}, errChanged
		case errors.Is(err, client.ErrSuspended):
			if err := v.c.AwaitConnected(ctx); err != nil {
				return Revision{}, err
			}
		case client.MayHaveHappened(err):
			if err := v.decide(ctx, seen, data, err); err != nil {
				return Revision{}, err
			}
		default:
			return Revision{}, err
		}
	}
}

func written(data []byte, stat client.Stat) Revision {
	return Revision{Data: bytes.Clone(data), Exists: true, Stat: stat}
}

// create creates the node with the initial value. The error is errChanged if another client has created it with other
// data, or has set it since.
func (v *Value) create(ctx context.Context) (Revision, error) {
	mode := client.Persistent
	if v.cfg.ACL != nil {
		mode = mode.WithACL(v.cfg.ACL...)
	}
	err := reconnect.RetryWithParent(ctx, v.c, parentOf(v.path), func() error {
		_, _, err := v.c.Create(ctx, v.path, v.cfg.Initial, mode)
		return err
	})
	if err != nil && !errors.Is(err, client.ErrNodeExists) { // if it exists, it may be by an earlier try
		return Revision{}, err
	}
	now, err := v.Get(ctx)
	if err == nil && (!now.Exists || now.Stat.Version != 0 || !bytes.Equal(now.Data, v.cfg.Initial)) {
		err = errChanged
	}
	return now, err
}

// decide finds out what became of a write without a reply. It returns nil if the write was not carried out, errChanged
// if another client was faster, and unanswered, which is the error of the write, if that cannot be known.
func (v *Value) decide(ctx context.Context, seen Revision, data []byte, unanswered error) error {
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
func (v *Value) writeWithReceipt(ctx context.Context, seen Revision, data []byte) (Revision, error) {
	outcome, err := v.book.Do(ctx, client.SetOp(v.path, data, seen.Stat.Version))
	failed, isMulti := errors.AsType[*client.MultiError](err)
	isOurs := isMulti && failed.Index == 0 // and not that on the receipt
	switch {
	case isOurs && (errors.Is(err, client.ErrBadVersion) || errors.Is(err, client.ErrNoNode)):
		return Revision{}, errChanged
	case err != nil:
		return Revision{}, err
	case outcome.Results != nil:
		return written(data, outcome.Results[0].Stat), nil
	}
	stat := seen.Stat // the reply was lost: all that has changed is known but for the time
	stat.Version, stat.Changed, stat.DataLength = stat.Version+1, outcome.Zxid, len(data)
	return written(data, stat), nil
}
