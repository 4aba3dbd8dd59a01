// Command ours is a program that uses a recipe of package client, judges itself, and ends with status 0 if nothing went
// wrong. It is surveyed by rollcall proxy:
//
//	ours counter|lock|election|queue
package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"rollcall/client"
	"rollcall/client/election"
	"rollcall/client/lock"
	"rollcall/client/queue"
	"rollcall/client/shared"
)

const (
	timeout  = 3 * time.Second  // of the sessions
	patience = 20 * time.Second // for everything
)

var programs = map[string]func(context.Context) error{"counter": countToThree, "lock": shareLock, "election": leadInTurn, "queue": takeAll}

func main() {
	run := programs[os.Args[1]]
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// inSessions calls do with a Client, and again with another one if its session ends, until do returns nil.
func inSessions(ctx context.Context, do func(context.Context, *client.Client) error) error {
	for {
		c, err := client.Dial(ctx, os.Getenv("ROLLCALL_CONNECT"), client.Config{Timeout: timeout})
		if err == nil {
			err = do(ctx, c)
			_ = c.Close(ctx) // a session that has ended cannot be closed
		}
		lost := errors.Is(err, client.ErrExpired) || errors.Is(err, client.ErrNotHeld) || errors.Is(err, client.ErrConnectionLost)
		if !lost || ctx.Err() != nil {
			return err
		}
	}
}

// countToThree adds until the counter is three. An add whose outcome is unknown is not repeated before it is known.
func countToThree(ctx context.Context) error {
	return inSessions(ctx, func(ctx context.Context, c *client.Client) error {
		counter := shared.NewCounter(c, "/counter", shared.CounterConfig{})
		for {
			n, err := counter.Get(ctx)
			if err == nil && n < 3 {
				_, err = counter.Add(ctx, 1)
			}
			switch {
			case err != nil:
				return err
			case n == 3:
				return nil
			case n > 3:
				return fmt.Errorf("the counter is %d", n)
			}
		}
	})
}

// workers are two clients that leave effects in one log, each under the guard of its right.
type workers struct {
	turns sync.Map // by worker: it has had its turn
}

// run has each worker take a turn, and then checks the log.
func (w *workers) run(ctx context.Context, turn func(ctx context.Context, c *client.Client, work func(*client.Right) error) error) error {
	g, both := errgroup.WithContext(ctx)
	for i := range 2 {
		g.Go(func() error {
			return inSessions(both, func(ctx context.Context, c *client.Client) error {
				if _, done := w.turns.Load(i); done {
					return nil
				}
				if err := c.CreateAll(ctx, logParent, client.Persistent); err != nil && !errors.Is(err, client.ErrNodeExists) {
					return err
				}
				return turn(ctx, c, func(r *client.Right) error { return w.work(ctx, i, r) })
			})
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return inSessions(ctx, checkLog)
}

const logParent = "/log"

// work leaves two effects. A session may be ended before its timeout, and then the guard prevents the second one.
func (w *workers) work(ctx context.Context, i int, r *client.Right) error {
	for range 2 {
		effect := client.CreateOp(logParent+"/", fmt.Append(nil, int64(r.Token())), client.PersistentSequential)
		if _, err := r.Guard(ctx, effect); err != nil {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
	w.turns.Store(i, true)
	return nil
}

// checkLog returns an error if a holder had an effect after one of a later holder.
func checkLog(ctx context.Context, c *client.Client) error {
	names, _, err := c.Children(ctx, logParent)
	if err != nil {
		return err
	}
	var tokens []int64
	for _, name := range slices.Sorted(slices.Values(names)) {
		text, _, err := c.Get(ctx, logParent+"/"+name)
		if err != nil {
			return err
		}
		token, err := strconv.ParseInt(string(text), 10, 64)
		if err != nil {
			return err
		}
		tokens = append(tokens, token)
	}
	if !slices.IsSorted(tokens) {
		return fmt.Errorf("effects of an earlier holder after those of a later one: %d", tokens)
	}
	return nil
}

func shareLock(ctx context.Context) error {
	return new(workers).run(ctx, func(ctx context.Context, c *client.Client, work func(*client.Right) error) error {
		right, err := lock.NewMutex(c, "/lock", lock.Config{}).Lock(ctx)
		if err != nil {
			return err
		}
		return errors.Join(work(right), right.Release(ctx))
	})
}

func leadInTurn(ctx context.Context) error {
	return new(workers).run(ctx, func(ctx context.Context, c *client.Client, work func(*client.Right) error) error {
		leadership, err := election.New(c, "/election", election.Config{}).Campaign(ctx)
		if err != nil {
			return err
		}
		return errors.Join(work(leadership.Right), leadership.Resign(ctx))
	})
}

// takeAll puts three elements and takes them. An element whose put failed is put again, and one whose Done failed may be
// given again, so both are known by their data.
func takeAll(ctx context.Context) error {
	wanted := []string{"a", "b", "c"}
	put, got := 0, map[string]bool{}
	return inSessions(ctx, func(ctx context.Context, c *client.Client) error {
		q := queue.New(c, "/queue", queue.Config{})
		for ; put < len(wanted); put++ {
			if _, err := q.Put(ctx, []byte(wanted[put])); err != nil {
				return err
			}
		}
		for len(got) < len(wanted) {
			job, err := q.Take(ctx)
			if err != nil {
				return err
			}
			got[string(job.Data)] = true
			if _, err = job.Done(ctx); err != nil {
				return err
			}
		}
		if all := slices.Sorted(maps.Keys(got)); !slices.Equal(all, wanted) {
			return fmt.Errorf("took %q, want %q", all, wanted)
		}
		return nil
	})
}
