package queue_test

import (
	"context"
	"log"
	"os/signal"
	"syscall"
	"time"

	"rollcall/client"
	"rollcall/client/queue"
)

// A worker takes jobs until it is stopped. The result of each job is stored once, although a job is given again if its
// worker ends.
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
	jobs := queue.New(c, "/jobs", queue.Config{})
	if _, err := jobs.Put(ctx, []byte("job")); err != nil {
		log.Print(err)
	}
	for {
		job, err := jobs.Take(ctx)
		if err != nil {
			log.Print(err)
			return
		}
		result := append([]byte("done: "), job.Data...)
		if _, err := job.Done(ctx, client.CreateOp("/results/", result, client.PersistentSequential)); err != nil {
			log.Print(err) // another worker gets the job again, unless the outcome is unknown
		}
	}
}
