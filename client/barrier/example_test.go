package barrier_test

import (
	"context"
	"log"
	"time"

	"rollcall/client"
	"rollcall/client/barrier"
)

// Three processes begin a computation together and end it together.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := client.Dial(ctx, "127.0.0.1:2181", client.Config{})
	if err != nil {
		log.Print(err)
		return
	}
	defer c.Abandon()
	member, err := barrier.NewDouble(c, "/computation", barrier.DoubleConfig{Count: 3}).Enter(ctx)
	if err != nil {
		log.Print(err)
		return
	}
	log.Print("all three are here")
	if err := member.Leave(ctx); err != nil {
		log.Print(err)
	}
}
