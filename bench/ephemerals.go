package bench

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"rollcall/client"
	"rollcall/zk/jute"
)

// observer watches for the deletion of nodes whose names are a group, then a number:
// "12-3-0000000004" belongs to the group "12-3".
type observer struct {
	c         *client.Client
	directory *directory

	mu     sync.Mutex
	groups map[string]*group
}

// group is a set of nodes. The case waits for their deletion.
type group struct {
	left int
	gone chan time.Time // gets the time of the last deletion; has room for one
}

// observe opens a session that watches a new directory.
func (r *run) observe(name string) (*observer, error) {
	o := &observer{groups: map[string]*group{}}
	var err error
	if o.directory, err = r.tree.directory(r.ctx, r.control, name); err != nil {
		return nil, err
	}
	if o.c, err = r.open(r.ctx, client.Config{Servers: r.target.Servers, Watch: o.event}); err != nil {
		return nil, err
	}
	// Servers support recursive watches from ZooKeeper 3.6 on.
	if err = o.c.AddWatch(r.ctx, o.directory.path, jute.AddWatchPersistentRecursive); err != nil {
		o.c.Abandon()
		return nil, err
	}
	return o, nil
}

func (o *observer) event(e jute.WatcherEvent, _ int64) {
	if e.Type != jute.EventNodeDeleted {
		return
	}
	now := time.Now()
	path := string(e.Path)
	name := path[strings.LastIndexByte(path, '/')+1:]
	end := max(strings.LastIndexByte(name, '-'), 0)
	o.mu.Lock()
	defer o.mu.Unlock()
	g := o.groups[name[:end]]
	if g == nil {
		return
	}
	if g.left--; g.left == 0 {
		delete(o.groups, name[:end])
		g.gone <- now
	}
}

// expect returns a channel that gets the time at which the last of a group of n nodes was deleted.
func (o *observer) expect(name string, n int) <-chan time.Time {
	g := &group{left: n, gone: make(chan time.Time, 1)}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.groups[name] = g
	return g.gone
}

func (o *observer) forget(name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.groups, name)
}

// errUnheard says that the event did not arrive.
var errUnheard = errors.New("the observer got no event of the deletion in time")

// hearTime is how long to wait until a closed session's nodes are deleted.
const hearTime = 10 * time.Second

// ephemerals opens sessions that create ephemeral nodes and close. An op is a session; its latency
// is from the call of close until an observer has got the events of all deletions.
func (r *run) ephemerals() (Result, error) {
	o, err := r.observe("ephemerals")
	if err != nil {
		return Result{}, err
	}
	defer o.c.Abandon()
	gone := &tally{}
	result, err := r.loops(r.p.Conns, func(ctx context.Context, i int, round int64, _ time.Time, note func(*tally, time.Duration)) error {
		took, err := r.comeAndGo(ctx, o, i, round)
		if err == nil {
			note(gone, took)
		}
		return err
	})
	result.Extra = []Figure{
		millis("whole session p50", time.Duration(result.Latency.P50*1000)),
		millis("whole session p99", time.Duration(result.Latency.P99*1000)),
	}
	result.Latency = summary(&gone.ok)
	return result, err
}

// comeAndGo runs one session. It returns how long its nodes outlived the call of close.
func (r *run) comeAndGo(ctx context.Context, o *observer, i int, round int64) (time.Duration, error) {
	name := strconv.Itoa(i) + "-" + strconv.FormatInt(round, 10)
	gone := o.expect(name, r.p.Each)
	defer o.forget(name)
	c, err := r.open(ctx, client.Config{Servers: r.home(i)})
	if err != nil {
		return 0, err
	}
	defer c.Abandon()
	err = each(ctx, c, r.p.Each, func(k int) (jute.Op, client.Record) {
		path := appendPadded([]byte(o.directory.path+"/"+name+"-"), int64(k))
		return jute.OpCreate, &jute.CreateRequest{Path: path, ACL: jute.OpenACL, Flags: jute.Ephemeral}
	})
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if err := c.Close(ctx); err != nil {
		return 0, err
	}
	timer := time.NewTimer(hearTime)
	defer timer.Stop()
	select {
	case at := <-gone:
		return at.Sub(began), nil
	case <-timer.C:
		return 0, errUnheard
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}
