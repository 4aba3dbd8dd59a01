//go:build unix

// Command leader is one of several processes, of which one at a time leads and writes to a file:
//
//	leader h1:2181,h2:2181,h3:2181 /srv/state
//
// It ends when it does not lead any more, with the exit status 1. systemd or Kubernetes start it again.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"rollcall/client"
	"rollcall/client/election"
	"rollcall/client/fence"
)

func main() {
	ctx := context.Background()
	c, err := client.Dial(ctx, os.Args[1], client.Config{Timeout: 4 * time.Second})
	if err != nil {
		log.Fatal(err)
	}
	e := election.New(c, "/example/leader", election.Config{OnHang: func() { log.Fatal("still busy after the end") }})
	log.Fatal(e.Run(ctx, func(ctx context.Context, l *election.Leadership) error {
		fmt.Println("leads with token", l.Token())
		state := fence.File{Path: os.Args[2]}
		for n := 1; ; n++ {
			select {
			case <-ctx.Done(): // the leadership has ended
				return context.Cause(ctx)
			case <-time.After(time.Second):
			}
			if !l.Held() { // exact, also after a pause
				return client.ErrNotHeld
			}
			data := fmt.Appendf(nil, "write %d of the leader with token %d\n", n, l.Token())
			if err := state.Write(ctx, l.Token(), data, 0o644); err != nil { // rejects an earlier leader
				return err
			}
			fmt.Printf("%s", data)
		}
	}))
}
