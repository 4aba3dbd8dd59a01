package bench

import (
	"context"
	"slices"
	"sync"
	"time"

	"rollcall/client"
)

// bystander is a client that writes to a node of its own, one write at a time, while something happens to the sessions of others.
type bystander struct {
	client *client.Client
	path   string
	pause  time.Duration // between two writes
	writes []bystanderWrite
	failed map[string]int64
}

type bystanderWrite struct {
	sent time.Time
	took time.Duration
}

// interval is a time in which something happens to the sessions of others.
type interval struct{ from, until time.Time }

// openBystanders opens a bystander at each member. leave closes their sessions; it is not nil.
func openBystanders(r *caseRun, pause time.Duration) (all []*bystander, leave func(), err error) {
	own, err := r.tree.createParent(r.ctx, r.controlClient, "writers")
	if err != nil {
		return nil, func() {}, err
	}
	if err := own.createNodes(r.ctx, r.controlClient, int64(len(r.target.Servers)), nil); err != nil {
		return nil, func() {}, err
	}
	clients, err := r.openManySessions(r.ctx, len(r.target.Servers), func(i int) sessionConfig {
		return sessionConfig{servers: r.target.Servers[i : i+1]}
	}, func(int, *client.Client) {})
	leave = func() { r.closeOrAbandon(clients) }
	if err != nil {
		return nil, leave, err
	}
	for i, c := range clients {
		all = append(all, &bystander{client: c, path: string(own.appendNodePath(nil, int64(i))), pause: pause})
	}
	return all, leave, nil
}

// startBystanders lets all write anew until stop is called, which may be repeated.
func startBystanders(r *caseRun, all []*bystander) (stop func()) {
	ctx, cancel := context.WithCancel(r.ctx)
	var writing sync.WaitGroup
	for _, b := range all {
		b.writes = b.writes[:0]
		writing.Go(func() { b.writeUntil(ctx) })
	}
	return func() {
		cancel()
		writing.Wait()
	}
}

// writeUntil writes until ctx ends.
func (b *bystander) writeUntil(ctx context.Context) {
	for ctx.Err() == nil {
		sent := time.Now()
		_, err := b.client.Set(ctx, b.path, nil, client.AnyVersion)
		switch {
		case err == nil:
			b.writes = append(b.writes, bystanderWrite{sent, time.Since(sent)})
			if b.pause > 0 {
				_ = sleepUntil(ctx, sent.Add(b.pause)) // the loop checks ctx
			}
		case ctx.Err() == nil:
			if b.failed == nil {
				b.failed = map[string]int64{}
			}
			b.failed[innermostMessage(err)]++
			_ = sleepUntil(ctx, time.Now().Add(retryPause)) // the loop checks ctx
		}
	}
}

// divide adds the writes that ended before the first of the intervals to calm, and those that met one of them to beside.
func (b *bystander) divide(during []interval, calm, beside *tally) {
	for _, write := range b.writes {
		done := write.sent.Add(write.took)
		switch {
		case done.Before(during[0].from):
			calm.latencies.Add(write.took)
		case slices.ContainsFunc(during, func(d interval) bool { return write.sent.Before(d.until) && done.After(d.from) }):
			beside.latencies.Add(write.took)
		}
	}
	for why, n := range b.failed {
		beside.addFailures(why, n)
	}
	b.failed = nil
}
