package shared_test

import (
	"context"
	"log"
	"time"

	"rollcall/client"
	"rollcall/client/shared"
)

// Many processes count their visits, and each of them is counted once.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c, err := client.Dial(ctx, "127.0.0.1:2181", client.Config{})
	if err != nil {
		log.Print(err)
		return
	}
	defer c.Abandon()
	visits := shared.NewCounter(c, "/visits", shared.CounterConfig{Encoding: shared.Int64})
	n, err := visits.Add(ctx, 1)
	if client.MayHaveHappened(err) {
		log.Print("the session ended before the outcome was known")
	}
	log.Print(n, err)
}
