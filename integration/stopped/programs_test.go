package stopped

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"rollcall/client"
	"rollcall/client/election"
	"rollcall/client/group"
	"rollcall/client/lock"
)

// sessionTimeout is the timeout of the programs' sessions.
const sessionTimeout = 2 * time.Second

// programs are loops that promise to continue, by their names. Each prints its name at each piece of work.
var programs = map[string]func(ctx context.Context, name, servers string) error{
	"election": func(ctx context.Context, name, servers string) error {
		return election.Keep(ctx, servers, sessionConfig(), "/"+name, election.Config{},
			func(ctx context.Context, l *election.Leadership) error { return work(ctx, name, l.Right) })
	},
	"lock": func(ctx context.Context, name, servers string) error { // as in docs/guide/client.md
		return client.Keep(ctx, servers, sessionConfig(), func(ctx context.Context, c *client.Client) error {
			right, err := lock.NewMutex(c, "/"+name, lock.Config{}).Lock(ctx)
			if err != nil {
				return err
			}
			defer func() { _ = right.Release(ctx) }()
			working, cancel := right.Context(ctx)
			defer cancel()
			err = work(working, name, right)
			if !right.Held() {
				return client.ErrNotHeld
			}
			return err
		})
	},
	"partition": func(ctx context.Context, name, servers string) error {
		return client.Keep(ctx, servers, sessionConfig(), func(ctx context.Context, c *client.Client) error {
			cfg := group.PartitionsConfig{Parent: "/" + name, ID: "a", Partitions: 1, Settle: -1}
			return group.SharePartitions(ctx, c, cfg, func(ctx context.Context, p group.Partition) error {
				return work(ctx, name, p.Right)
			})
		})
	},
}

func sessionConfig() client.Config { return client.Config{Timeout: sessionTimeout} }

// workPause is the time between two pieces of work.
const workPause = 20 * time.Millisecond

// work works under a right until that, or ctx, has ended.
func work(ctx context.Context, name string, right *client.Right) error {
	for ctx.Err() == nil {
		_, err := right.Guard(ctx, client.CheckOp("/", client.AnyVersion))
		if errors.Is(err, client.ErrConnectionLost) && right.Held() {
			continue // the pause was shorter than the session
		}
		if !right.Held() {
			return client.ErrNotHeld
		}
		if err != nil {
			return err
		}
		fmt.Println(name)
		select {
		case <-time.After(workPause):
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}

// runPrograms runs all programs, each with a session of its own, until they end, which they must not.
func runPrograms(servers string) {
	var all sync.WaitGroup
	for name, run := range programs {
		all.Go(func() { fmt.Println(name, endMark, run(context.Background(), name, servers)) })
	}
	all.Wait()
}

// endMark follows the name of a program that has ended.
const endMark = "has ended:"
