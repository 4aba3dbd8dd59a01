// Command restart holds a lock over its own restarts. While one process ends and the next one begins, no other client
// gets the lock: the process hands its session to its successor.
//
// On SIGTERM it stops its work, hands the session over by a file, and exits. The next process continues the session,
// and has the lock with the same fencing token. It has the session's timeout to start. On SIGINT the process releases
// the lock and exits.
//
// A unit for systemd:
//
//	[Service]
//	ExecStart=/usr/local/bin/restart -servers h1:2181,h2:2181,h3:2181
//	Restart=always
//	RestartSec=100ms
//	TimeoutStopSec=5s
//	RuntimeDirectory=restart
//	RuntimeDirectoryMode=0700
//	RuntimeDirectoryPreserve=restart
//
// With RuntimeDirectoryPreserve=restart the file outlives a restart and a crash of the successor, and not a stop. After
// a stop the lock is free when the session's timeout has passed. TimeoutStopSec and the time to start must be shorter
// together than the session's timeout. A descriptor need not be handed on (FileDescriptorStoreMax): a session is not
// bound to a connection. Type=notify is not needed either: systemd stops the old process before it starts the new one.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"rollcall/client"
	"rollcall/client/lock"
)

// stopTime limits what a process does after a signal: less than TimeoutStopSec.
const stopTime = 4 * time.Second

// workPause is the time between two steps of the work.
const workPause = 100 * time.Millisecond

// options are the flags of the command.
type options struct {
	servers, parent, work, session string
	timeout                        time.Duration
}

func main() {
	var o options
	flag.StringVar(&o.servers, "servers", "127.0.0.1:2181", "the servers")
	flag.StringVar(&o.parent, "lock", "/examples/restart/lock", "the parent of the lock")
	flag.StringVar(&o.work, "work", "/examples/restart/work", "the node that the work writes to")
	flag.StringVar(&o.session, "session", filepath.Join(os.Getenv("RUNTIME_DIRECTORY"), "session"),
		"the file for the session")
	flag.DurationVar(&o.timeout, "timeout", client.DefaultTimeout, "the session timeout")
	flag.Parse()
	if err := run(o); err != nil {
		log.Fatal(err)
	}
}

// run works until a signal comes.
func run(o options) error {
	restart, stopRestart := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stopRestart()
	ctx, stop := signal.NotifyContext(restart, os.Interrupt)
	defer stop()
	c, right, err := start(ctx, o)
	if err != nil {
		return err
	}
	fmt.Printf("holds %s with token %d\n", right.Path(), right.Token())
	err = work(ctx, c, right, o.work)
	endCtx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	switch {
	case err != nil:
		c.Abandon() // the lock is lost, or the work has failed
		return err
	case restart.Err() != nil:
		return handOver(endCtx, c, right, o.session)
	}
	if err := right.Release(endCtx); err != nil {
		return err
	}
	return c.Close(endCtx)
}

// start returns a session that holds the lock: the predecessor's, if that has left one, or a new one.
func start(ctx context.Context, o options) (*client.Client, *client.Right, error) {
	c, right, err := takeOver(ctx, o)
	if err != nil || right != nil {
		return c, right, err
	}
	c, err = client.Dial(ctx, o.servers, client.Config{Timeout: o.timeout})
	if err != nil {
		return nil, nil, err
	}
	if err := c.CreateAll(ctx, o.work, client.Persistent); err != nil {
		return nil, nil, err
	}
	right, err = lock.NewMutex(c, o.parent, lock.Config{}).Lock(ctx)
	return c, right, err
}

// takeOver continues the session of the predecessor. There is no Right if the predecessor has left no live session.
func takeOver(ctx context.Context, o options) (*client.Client, *client.Right, error) {
	h, err := client.ReadHandover(o.session)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if errors.Is(err, client.ErrHandoverStale) {
		fmt.Println(err)
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	c, err := client.Dial(ctx, o.servers, client.Config{Resume: &h})
	if errors.Is(err, client.ErrExpired) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	rights, err := h.Rights(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	if len(rights) != 1 || !rights[0].Held() { // an operator has deleted the node
		return nil, nil, c.Close(ctx)
	}
	fmt.Println("took the session over")
	return c, rights[0], nil
}

// work writes to a node, under the lock, until ctx ends.
func work(ctx context.Context, c *client.Client, right *client.Right, path string) error {
	ticker := time.NewTicker(workPause)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-right.Lost():
			return client.ErrNotHeld
		case <-ticker.C:
		}
		text := fmt.Appendf(nil, "%d", right.Token())
		if _, err := right.Guard(ctx, client.SetOp(path, text, client.AnyVersion)); err != nil && ctx.Err() == nil {
			if c.State().State == client.Suspended {
				continue // the lock is held for some time yet
			}
			return err
		}
	}
}

// handOver leaves the session to the next process.
func handOver(ctx context.Context, c *client.Client, right *client.Right, path string) error {
	h, err := c.HandOver(ctx, right)
	if err != nil {
		return err
	}
	if err := h.WriteFile(path); err != nil {
		return err // no process continues the session: the lock is free when the session's timeout has passed
	}
	fmt.Println("handed the session over")
	return nil
}
