package bench

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"rollcall/client"
)

// lateRead is the age from which a node's first appearance at another member counts as late. It is far above the time
// of a message on a local network, and below the timers that servers fall back to.
const lateRead = 20 * time.Millisecond

// firstReads counts the reads at another member that follow an acknowledged create.
type firstReads struct{ all, stale, late atomic.Int64 }

// runFirstReads creates nodes at one member and reads each at the next member as soon as the create is acknowledged,
// without sync, again and again until the node is there. An op is a node. Its latency is the time from the
// acknowledgement until the request that found it was sent, so it is nearly 0 if the first read has found it.
func (r *caseRun) runFirstReads() (Result, error) {
	home, err := r.tree.createParent(r.ctx, r.controlClient, "first")
	if err != nil {
		return Result{}, err
	}
	members := len(r.chosenServers)
	sessions := make([]*client.Client, r.params.Conns*members) // by loop and member
	clients, err := r.openManySessions(r.ctx, len(sessions), func(i int) sessionConfig {
		return sessionConfig{servers: r.serverFor(i)}
	}, func(i int, c *client.Client) { sessions[i] = c })
	defer func() { r.closeOrAbandon(clients) }()
	if err != nil {
		return Result{}, err
	}
	var counts firstReads
	ages := &tally{}
	result, err := r.runTimedLoops(r.params.Conns, 0,
		func(ctx context.Context, i int, round int64, began time.Time, note func(*tally, time.Duration)) error {
			own, at := sessions[i*members:(i+1)*members], int(round)%members
			path := home.path + "/" + strconv.Itoa(i) + "-" + strconv.FormatInt(round, 10)
			age, first, err := readAfterCreate(ctx, own[at], own[(at+1)%members], path)
			if err != nil {
				return err
			}
			note(ages, age)
			counts.add(age, first)
			return own[at].Delete(ctx, path, client.AnyVersion)
		})
	result.Latency = summarize(&ages.latencies)
	result.Extra = counts.figures()
	return result, err
}

// readAfterCreate creates a node with one client, and returns how old it was when the other one's read that found it was
// sent, and whether that was the first read.
func readAfterCreate(ctx context.Context, writer, reader *client.Client, path string) (age time.Duration, first bool, err error) {
	if _, _, err := writer.Create(ctx, path, nil, client.Persistent); err != nil {
		return 0, false, err
	}
	for created, n := time.Now(), 0; ; n++ {
		age = time.Since(created)
		switch _, found, err := reader.Exists(ctx, path); {
		case err != nil:
			return 0, false, err
		case found:
			return age, n == 0, nil
		case age > roundTimeout:
			return 0, false, fmt.Errorf("a node was not there %v after its create was acknowledged", roundTimeout)
		}
	}
}

func (c *firstReads) add(age time.Duration, first bool) {
	c.all.Add(1)
	if !first {
		c.stale.Add(1)
	}
	if age > lateRead {
		c.late.Add(1)
	}
}

// figures returns the shares of all reads, in percent.
func (c *firstReads) figures() []Figure {
	share := func(n int64) float64 { return 100 * float64(n) / float64(max(1, c.all.Load())) }
	return []Figure{
		{Name: "stale first reads", Value: share(c.stale.Load()), Unit: unitPercent, betterDirection: lessIsBetter},
		{Name: "there after 20 ms", Value: share(c.late.Load()), Unit: unitPercent, betterDirection: lessIsBetter},
	}
}
