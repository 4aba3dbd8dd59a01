package election_test

import (
	"context"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"rollcall/client"
	"rollcall/client/election"
)

// A service has one leader. Its writes are guarded, and the process ends if it continues after its leadership.
func Example() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	dialing, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	c, err := client.Dial(dialing, "127.0.0.1:2181", client.Config{})
	if err != nil {
		log.Print(err)
		return
	}
	defer c.Abandon()
	e := election.New(c, "/service/leader", election.Config{
		Data:   []byte("10.0.0.7:8080"),
		OnHang: func() { os.Exit(1) },
	})
	err = e.Run(ctx, func(ctx context.Context, l *election.Leadership) error {
		for ctx.Err() == nil {
			if _, err := l.Guard(ctx, client.SetOp("/service/state", []byte("next"), client.AnyVersion)); err != nil {
				return err
			}
		}
		return nil
	})
	log.Print(err)
}
