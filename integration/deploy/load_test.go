package deploy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"rollcall/lab/process"
)

const (
	// writePace is the time between two writes of a busy client.
	writePace = 5 * time.Millisecond
	// configNode is where clients see the list of servers.
	configNode = "/zookeeper/config"
	// writes is the parent of the nodes that a busy client creates.
	writes = "/writes"
)

// busy is a client that writes all the time, and watches the list of servers.
type busy struct {
	*client
	stop context.CancelFunc
	done sync.WaitGroup

	mu    sync.Mutex
	acked int    // how many nodes below writes it has created: they have the numbers from 0 on
	list  string // the last list that it has read
}

// startWriting connects to one member and begins to write.
func startWriting(t *testing.T, host string) *busy {
	t.Helper()
	b := &busy{client: connect(t, []string{host}, "/writer")}
	if _, err := b.Create(writes, nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	b.stop = stop
	b.done.Go(func() { b.write(ctx) })
	b.done.Go(func() { b.watch(ctx) })
	return b
}

// write creates one node after the other. If a creation fails, it tries the same node again until that exists.
func (b *busy) write(ctx context.Context) {
	pace := time.NewTicker(writePace)
	defer pace.Stop()
	for n := 0; next(ctx, pace); {
		_, err := b.Create(fmt.Sprintf("%s/%d", writes, n), nil, 0, zk.WorldACL(zk.PermAll))
		if err == nil || errors.Is(err, zk.ErrNodeExists) {
			n++
			b.mu.Lock()
			b.acked = n
			b.mu.Unlock()
		}
	}
}

// watch reads the list, and once more whenever its watch fires.
func (b *busy) watch(ctx context.Context) {
	pace := time.NewTicker(writePace)
	defer pace.Stop()
	for next(ctx, pace) {
		data, _, changed, err := b.GetW(configNode)
		if err != nil {
			continue // the connection was lost
		}
		b.mu.Lock()
		b.list = string(data)
		b.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-changed:
		}
	}
}

// next waits for the next tick. It reports whether ctx goes on.
func next(ctx context.Context, pace *time.Ticker) bool {
	select {
	case <-ctx.Done():
		return false
	case <-pace.C:
		return true
	}
}

// check ends the writing. All that was acknowledged must be there, the session must be the first one, and the last
// list that the watch has brought must be the present one.
func (b *busy) check(t *testing.T) {
	t.Helper()
	defer b.done.Wait()
	defer b.stop()
	now, _, err := b.Get(configNode)
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Until(t.Context(), "the watch brings the list", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.list == string(now)
	}); err != nil {
		t.Errorf("%v: the last one was\n%s\nand now it is\n%s", err, b.list, now)
	}
	b.mu.Lock()
	acked := b.acked
	b.mu.Unlock()
	nodes, _, err := b.Children(writes)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(nodes)
	for n := range acked {
		if _, found := slices.BinarySearch(nodes, fmt.Sprint(n)); !found {
			t.Errorf("%s/%d was acknowledged, and is not there", writes, n)
		}
	}
	if err := b.same(0, true); err != nil {
		t.Error(err)
	}
	t.Logf("%d writes were acknowledged", acked)
}
