// Command tour calls most of package client once, on a server that may be changed:
//
//	tour 127.0.0.1:2181
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"sync"
	"time"

	"rollcall/client"
)

func main() {
	if err := run(os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

// run is the tour. Every step has a function.
func run(servers string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := client.Dial(ctx, servers, client.Config{OnState: func(change client.StateChange) {
		if change.State != client.Connecting {
			fmt.Println("state:", change.State)
		}
	}})
	if err != nil {
		return err
	}
	steps := []func(context.Context, *client.Client) error{nodes, failures, lostReply, together, many, follow, once, state}
	for _, step := range steps {
		if err := step(ctx, c); err != nil {
			return err
		}
	}
	return c.Close(ctx)
}

func nodes(ctx context.Context, c *client.Client) error {
	if err := c.CreateAll(ctx, "/tour/settings", client.Persistent); err != nil {
		return err
	}
	data, stat, err := c.Get(ctx, "/tour/settings")
	if err != nil {
		return err
	}
	fmt.Printf("%q, version %d\n", data, stat.Version)
	stat, err = c.Set(ctx, "/tour/settings", []byte("colour=blue"), stat.Version)
	if errors.Is(err, client.ErrBadVersion) {
		return nil // another client was faster
	}
	fmt.Println("version", stat.Version)
	return err
}

func failures(ctx context.Context, c *client.Client) error {
	_, _, err := c.Get(ctx, "/tour/nothing")
	if errors.Is(err, client.ErrNoNode) {
		fmt.Println("there is no such node")
	}
	if failed, ok := errors.AsType[*client.Error](err); ok {
		fmt.Println(failed.Op, failed.Path, failed.Err)
	}
	hurried, cancel := context.WithTimeout(ctx, time.Nanosecond)
	defer cancel()
	_, _, err = c.Get(hurried, "/tour/settings")
	fmt.Println(errors.Is(err, context.DeadlineExceeded))
	return nil
}

func lostReply(ctx context.Context, c *client.Client) error {
	_, _, err := c.Create(ctx, "/tour/once", nil, client.Ephemeral)
	if !client.MayHaveHappened(err) {
		return err // nil: it was created; otherwise it was not
	}
	fmt.Println(err)
	if err := c.AwaitConnected(ctx); err != nil {
		return err
	}
	if err := c.Sync(ctx); err != nil {
		return err
	}
	stat, exists, err := c.Exists(ctx, "/tour/once")
	mine, _ := c.Session()
	fmt.Println("created by this session:", exists && stat.Owner == mine)
	return err
}

func together(ctx context.Context, c *client.Client) error {
	results, err := c.Multi(ctx,
		client.CreateOp("/tour/order-", []byte("3 pears"), client.PersistentSequential),
		client.SetOp("/tour/settings", []byte("colour=red"), client.AnyVersion),
	)
	if err != nil {
		return err
	}
	fmt.Println("created", results[0].Path, "and wrote version", results[1].Stat.Version)
	_, err = c.Multi(ctx,
		client.DeleteOp(results[0].Path, client.AnyVersion),
		client.CheckOp("/tour/settings", 1),
	)
	if failed, ok := errors.AsType[*client.MultiError](err); ok {
		fmt.Println("nothing is deleted:", failed)
	}
	return nil
}

func many(ctx context.Context, c *client.Client) error {
	const nodes = 1000
	var replies sync.WaitGroup
	var failed error
	p := c.Pipeline()
	for i := range nodes {
		replies.Add(1)
		err := p.Create(ctx, fmt.Sprintf("/tour/%d", i), nil, client.Ephemeral,
			func(_ string, _ client.Stat, err error) { // on the Client's goroutine, in order
				failed = errors.Join(failed, err)
				replies.Done()
			})
		if err != nil {
			return err // it was not sent, and its function is not called
		}
	}
	replies.Wait()
	fmt.Println("created", nodes, "nodes:", failed)
	return failed
}

func follow(ctx context.Context, c *client.Client) error {
	for event, err := range c.Watch(ctx, "/tour", client.Tree) {
		switch {
		case err != nil:
			return err
		case event.Type == client.Gap && event.From == 0: // the watch is in force: read now what you need
			if _, err := c.Set(ctx, "/tour/settings", []byte("colour=green"), client.AnyVersion); err != nil {
				return err
			}
		default:
			fmt.Println(event.Type, event.Path)
			return nil
		}
	}
	return nil
}

func once(ctx context.Context, c *client.Client) error {
	_, _, watch, err := c.GetWatch(ctx, "/tour/settings")
	if err != nil {
		return err
	}
	defer watch.Stop()
	if _, err := c.Set(ctx, "/tour/settings", nil, client.AnyVersion); err != nil {
		return err
	}
	select {
	case event := <-watch.Fired:
		fmt.Println(event.Type, event.Path)
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

func state(ctx context.Context, c *client.Client) error {
	for change := range c.States(ctx) {
		if change.State.IsConnected() {
			fmt.Println("connected, and may act on the session:", c.Held())
			return nil
		}
		if change.State.IsFinal() {
			return change.Err
		}
	}
	return ctx.Err()
}
