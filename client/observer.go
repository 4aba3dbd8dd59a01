package client

import "context"

// Observer sees the calls of a Client, for metrics and traces. It is safe for concurrent use.
type Observer interface {
	// Begin is called at the beginning of each call, with ZooKeeper's name of the operation and the path. The call
	// uses the context that Begin returns. end is called once, with the call's error. end may be nil. Begin and end run on
	// the caller's goroutine, and must not block.
	Begin(ctx context.Context, op, path string) (callCtx context.Context, end func(error))
}
