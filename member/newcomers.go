package member

import (
	"context"

	"rollcall/internal/serverlist"
)

// newcomers queues the lists whose new servers a leader contacts, because an operator's change names them. It has one
// place. Apply rejects the change until most of the new list's voters are found, and the operator's member submits it again.
type newcomers chan serverlist.List

// lookFor queues a list. It does not block. It has no effect if a list waits already.
func (n newcomers) lookFor(list serverlist.List) {
	select {
	case n <- list:
	default:
	}
}

// loop contacts the servers of one list after another, until ctx ends.
func (n newcomers) loop(ctx context.Context, hellos *helloClient) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case list := <-n:
			hellos.meet(ctx, list)
		}
	}
}
