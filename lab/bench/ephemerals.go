package bench

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"rollcall/client"
)

// deletionObserver watches for the deletion of nodes whose names are a group and a number: "12-3-0000000004" belongs
// to the group "12-3".
type deletionObserver struct {
	client *client.Client
	parent *parent

	mu     sync.Mutex
	groups map[string]*nodeGroup
}

// nodeGroup is a set of nodes that are to be deleted.
type nodeGroup struct {
	remaining   int
	lastDeleted chan time.Time // capacity 1; gets the time of the last deletion
}

// startDeletionObserver opens a session that watches a new parent node.
func (r *caseRun) startDeletionObserver(name string) (*deletionObserver, error) {
	o := &deletionObserver{groups: map[string]*nodeGroup{}}
	var err error
	if o.parent, err = r.tree.createParent(r.ctx, r.controlClient, name); err != nil {
		return nil, err
	}
	if o.client, err = r.openSession(r.ctx, sessionConfig{servers: r.target.Servers, Config: client.Config{OnEvent: o.onEvent}}); err != nil {
		return nil, err
	}
	// ZooKeeper supports recursive watches since 3.6.
	if err = o.client.AddWatch(r.ctx, o.parent.path, true); err != nil {
		o.client.Abandon()
		return nil, err
	}
	return o, nil
}

func (o *deletionObserver) onEvent(e client.Event) {
	if e.Type != client.NodeDeleted {
		return
	}
	now := time.Now()
	name := e.Path[strings.LastIndexByte(e.Path, '/')+1:]
	end := max(strings.LastIndexByte(name, '-'), 0)
	o.mu.Lock()
	defer o.mu.Unlock()
	g := o.groups[name[:end]]
	if g == nil {
		return
	}
	if g.remaining--; g.remaining == 0 {
		delete(o.groups, name[:end])
		g.lastDeleted <- now
	}
}

// expectDeletions returns a channel that gets the time when the last of a group's n nodes was deleted.
func (o *deletionObserver) expectDeletions(name string, n int) <-chan time.Time {
	g := &nodeGroup{remaining: n, lastDeleted: make(chan time.Time, 1)}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.groups[name] = g
	return g.lastDeleted
}

func (o *deletionObserver) forgetGroup(name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.groups, name)
}

var errNoDeletionEvent = errors.New("the observer got no event of the deletion in time")

// deletionTimeout limits the wait for the deletion of a closed session's nodes.
const deletionTimeout = 10 * time.Second

// runEphemerals opens sessions that create ephemeral nodes and close. An op is a session. Its latency is the
// time from the call of close until the observer has the events of all deletions.
func (r *caseRun) runEphemerals() (Result, error) {
	o, err := r.startDeletionObserver("ephemerals")
	if err != nil {
		return Result{}, err
	}
	defer o.client.Abandon()
	gone := &tally{}
	result, err := r.runTimedLoops(r.params.Conns, 0,
		func(ctx context.Context, i int, round int64, _ time.Time, note func(*tally, time.Duration)) error {
			took, err := r.runEphemeralSession(ctx, o, i, round)
			if err == nil {
				note(gone, took)
			}
			return err
		})
	result.Extra = []Figure{
		millisFigure("whole session p50", time.Duration(result.Latency.P50*1000)),
		millisFigure("whole session p99", time.Duration(result.Latency.P99*1000)),
	}
	result.Latency = summarize(&gone.latencies)
	return result, err
}

// runEphemeralSession runs one session, and returns the time from close to the last deletion.
func (r *caseRun) runEphemeralSession(ctx context.Context, o *deletionObserver, i int, round int64) (time.Duration,
	error,
) {
	name := strconv.Itoa(i) + "-" + strconv.FormatInt(round, 10)
	gone := o.expectDeletions(name, r.params.EphemeralsPerSession)
	defer o.forgetGroup(name)
	c, err := r.openSession(ctx, sessionConfig{servers: r.serverFor(i)})
	if err != nil {
		return 0, err
	}
	defer c.Abandon()
	err = sendEach(r.params.EphemeralsPerSession, func(k int, done func(error)) error {
		path := appendPadded([]byte(o.parent.path+"/"+name+"-"), int64(k))
		return c.Pipeline().Create(ctx, string(path), nil, client.Ephemeral,
			func(_ string, _ client.Stat, err error) { done(err) })
	})
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if err := c.Close(ctx); err != nil {
		return 0, err
	}
	timer := time.NewTimer(deletionTimeout)
	defer timer.Stop()
	select {
	case at := <-gone:
		return at.Sub(began), nil
	case <-timer.C:
		return 0, errNoDeletionEvent
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}
