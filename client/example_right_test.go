package client_test

import (
	"context"
	"log"

	"rollcall/client"
)

// workWithHardStop ends the process if the right ends during work, which cannot be interrupted.
func workWithHardStop(right *client.Right, work func()) {
	stop := right.OnLost(func() { log.Fatal("the lock is lost") })
	defer stop()
	work()
}

// workUntilLost has work end with the right.
func workUntilLost(ctx context.Context, right *client.Right, work func(context.Context) error) error {
	ctx, cancel := right.Context(ctx)
	defer cancel()
	return work(ctx) // context.Cause(ctx) is client.ErrNotHeld if the right has ended
}

func ExampleRight_OnLost() {
	_, _ = workWithHardStop, workUntilLost
}
