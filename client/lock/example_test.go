package lock_test

import (
	"context"

	"rollcall/client"
	"rollcall/client/lock"
)

// nightly makes a report, while no other client does, and stores it only if that is still so.
func nightly(ctx context.Context, c *client.Client, makeReport func(context.Context) ([]byte, error)) error {
	right, err := lock.NewMutex(c, "/jobs/nightly", lock.Config{}).Lock(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = right.Release(ctx) }()
	work, cancel := right.Context(ctx)
	defer cancel()
	report, err := makeReport(work)
	if err != nil {
		return err
	}
	_, err = right.Guard(ctx, client.SetOp("/reports/nightly", report, client.AnyVersion))
	return err
}

func ExampleMutex() {
	// func nightly(ctx context.Context, c *client.Client, makeReport func(context.Context) ([]byte, error)) error
	_ = nightly
}
