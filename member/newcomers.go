package member

import (
	"context"

	"rollcall/internal/serverlist"
)

// newcomerQueue queues the lists whose new servers a leader contacts, because an operator's change names them. It has one
// place. Apply rejects the change until most of the new list's voters are found, and the operator's member submits it again.
type newcomerQueue chan serverlist.List

// enqueueList queues a list. It does not block. It has no effect if a list waits already.
func (n newcomerQueue) enqueueList(list serverlist.List) {
	select {
	case n <- list:
	default:
	}
}

// contactLoop contacts the servers of one list after another, until ctx ends.
func (n newcomerQueue) contactLoop(ctx context.Context, hellos *helloClient) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case list := <-n:
			hellos.contactAbsent(ctx, list)
		}
	}
}
