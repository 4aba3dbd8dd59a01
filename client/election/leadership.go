package election

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"rollcall/client"
	"rollcall/client/internal/contender"
	"rollcall/client/internal/reconnect"
	"rollcall/client/recipe"
)

// Leadership is the right to lead. It is safe for concurrent use.
type Leadership struct {
	*client.Right
	election *Election
	givenUp  atomic.Bool // set by Resign or HandOver
}

// Resign gives the leadership up. Right.Release does so too, but Run then returns client.ErrNotHeld.
func (l *Leadership) Resign(ctx context.Context) error {
	l.givenUp.Store(true)
	return l.Release(ctx)
}

var (
	// ErrNoCandidate means that no candidate has the data that HandOver names, or that the candidate has left.
	ErrNoCandidate = errors.New("there is no such candidate")
	// ErrTooMany means that there are more candidates before the named one than HandOver can pass over.
	ErrTooMany = errors.New("too many candidates come first")
)

// maxPassedOver limits the candidates that a hand-over passes over. Their nodes are deleted in one transaction, and
// all of them enter again at once.
const maxPassedOver = 1000

// HandOver gives the leadership to the first candidate whose data are to. The candidates before it lose their places,
// and enter again: see Hand-over in the package's comment.
//
// Stop leading before the call: HandOver ends the leadership before it sends its request. If the request fails, because
// the candidate leaves at that moment or ctx ends, HandOver resigns, and the next candidate leads. If HandOver finds no
// such candidate, this client continues to lead, and Held returns true.
func (l *Leadership) HandOver(ctx context.Context, to []byte) error {
	ctx, cancel := recipe.Outlast(ctx, l.Right)
	defer cancel()
	successor, err := l.findSuccessor(ctx, to)
	if err == nil {
		_, err = l.listPassedOver(ctx, successor)
	}
	if err == nil && !l.Held() {
		err = client.ErrNotHeld
	}
	if err != nil {
		return fmt.Errorf("election: hand over %s: %w", l.Path(), err)
	}
	l.givenUp.Store(true)
	recipe.End(l.Right)
	if err := l.passLeadership(ctx, successor); err != nil {
		_ = l.Release(ctx) // continues in the background until the node is gone
		return fmt.Errorf("election: hand over %s to %s: %w", l.Path(), successor, err)
	}
	return nil
}

// findSuccessor returns the path of the first candidate with these data, without the leader.
func (l *Leadership) findSuccessor(ctx context.Context, data []byte) (string, error) {
	candidates, err := l.election.Candidates(ctx)
	if err != nil {
		return "", err
	}
	for _, candidate := range candidates {
		if candidate.Path != l.Path() && bytes.Equal(candidate.Data, data) {
			return candidate.Path, nil
		}
	}
	return "", fmt.Errorf("%w: %.100q", ErrNoCandidate, data)
}

// listPassedOver returns the paths of the candidates before the successor, without the leader.
func (l *Leadership) listPassedOver(ctx context.Context, successor string) ([]string, error) {
	e := l.election
	names, err := contender.List(ctx, e.c, e.parent, e.layout)
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, name := range names {
		paths = append(paths, e.pathOf(name))
	}
	return candidatesBetween(paths, l.Path(), successor)
}

// candidatesBetween returns the candidates before the successor, without the leader.
func candidatesBetween(candidates []string, leader, successor string) ([]string, error) {
	i := slices.Index(candidates, successor)
	if i < 0 {
		return nil, ErrNoCandidate
	}
	passed := slices.DeleteFunc(candidates[:i], func(path string) bool { return path == leader })
	if len(passed) > maxPassedOver {
		return nil, fmt.Errorf("%w: %d, at most %d are allowed; resign instead", ErrTooMany, len(passed), maxPassedOver)
	}
	return passed, nil
}

// passLeadership makes the successor the first candidate, in one transaction. It tries again if one of the candidates
// to pass over has left. There are fewer of them each time.
func (l *Leadership) passLeadership(ctx context.Context, successor string) error {
	for {
		passed, err := l.listPassedOver(ctx, successor)
		if err != nil {
			return err
		}
		ops := []client.Operation{client.CheckOp(successor, client.AnyVersion)}
		for _, path := range passed {
			ops = append(ops, client.DeleteOp(path, client.AnyVersion))
		}
		ops = append(ops, client.DeleteOp(l.Path(), client.AnyVersion))
		_, err = l.election.c.Multi(ctx, ops...)
		failed, isMulti := errors.AsType[*client.MultiError](err)
		switch {
		case err == nil:
			return nil
		case isMulti && failed.Index == len(ops)-1 && errors.Is(err, client.ErrNoNode):
			return client.ErrNotHeld // another client has deleted the leader's node
		case isMulti && errors.Is(err, client.ErrNoNode):
			continue
		case !errors.Is(err, client.ErrConnectionLost) && !errors.Is(err, client.ErrSuspended):
			return err
		}
		if err := reconnect.Settle(ctx, l.election.c); err != nil {
			return err
		}
		_, exists, err := reconnect.Read(ctx, l.election.c, l.Path(), (*client.Client).Exists)
		switch {
		case err != nil:
			return err
		case !exists: // the request without a reply has deleted the leader's node
			return l.checkHandedOver(ctx, successor)
		}
	}
}

// checkHandedOver returns client.ErrNotHeld if there are still candidates before the successor, because another client
// has then deleted the leader's node.
func (l *Leadership) checkHandedOver(ctx context.Context, successor string) error {
	passed, err := l.listPassedOver(ctx, successor)
	switch {
	case errors.Is(err, ErrNoCandidate): // it has left since
		return nil
	case len(passed) > 0:
		return client.ErrNotHeld
	}
	return err
}
