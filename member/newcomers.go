package member

import (
	"context"

	"rollcall/internal/serverlist"
)

// proposedLists queues a list of an operator's change, so that the leader contacts its new servers. It has one place.
// Apply rejects the change until most of the new list's voters are found, and the operator's member submits it again.
type proposedLists chan serverlist.List

// enqueueIfEmpty queues a list, unless one is queued already. It does not block.
func (n proposedLists) enqueueIfEmpty(list serverlist.List) {
	select {
	case n <- list:
	default:
	}
}

// sendHelloLoop contacts the servers of each queued list, until ctx ends.
func (n proposedLists) sendHelloLoop(ctx context.Context, hellos *helloClient) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case list := <-n:
			hellos.sendHelloToAbsent(ctx, list)
		}
	}
}
