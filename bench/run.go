// Package bench puts load on an ensemble that speaks ZooKeeper's protocol, Rollcall or another one,
// and measures it from the clients' side. It sends only to the given servers, writes only below one
// node of its own, and deletes that node at the end.
//
// A run has a warm-up and a measured time. A request belongs to the measured time if it began in
// it; at a fixed rate, if it was due in it. At the end the run waits for requests that are in
// flight. So no stall is hidden: requests that wait in a stall are counted with all of their wait.
//
// Requests are sent by the goroutines of package client: the function that handles an answer sends
// the next request. Each worker's counters have a lock of their own, which is taken before that of
// its client.
package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"rollcall/client"
	"rollcall/zk/jute"
)

// Target is the ensemble under test.
type Target struct {
	Name    string
	Servers []string // host:port of each member; connections are spread over them in turn
	PIDs    []int    // their processes, if they run on this machine and their CPU time is to be measured
	Dial    Dial     // nil: TCP
	// Keeper is a command that calls ServeKeeper with the same Dial. If a run holds more sessions than one
	// process may open files, it starts several of these. nil: there are none.
	Keeper []string
}

// Dial opens a connection to a server, within ctx.
type Dial func(ctx context.Context, addr string) (net.Conn, error)

// Config configures one run of one case.
type Config struct {
	Target   Target
	Params   Params
	Progress func(line string) // called twice a second with a line about the run; nil: not called

	sleep func(time.Duration) // waits for the pacer; nil: nanosleep
	room  int                 // connections of one process; 0: as many as it may open
}

const (
	setupTime    = 2 * time.Minute        // for creating or deleting the nodes
	drainTime    = 10 * time.Second       // for the answers to requests that are in flight at the end
	openers      = 64                     // sessions opened or closed at once where that is not measured
	retryPause   = 10 * time.Millisecond  // after a failed request
	progressTime = 500 * time.Millisecond // between two lines
)

// run is one case in progress.
type run struct {
	ctx     context.Context
	p       Params
	kind    kind
	target  Target
	procs   processes
	room    int       // how many connections this process may have
	keepers processes // processes that hold sessions, which count as part of this tool
	tell    func(string)
	sleep   func(time.Duration)
	homes   []string       // the servers over which connections are spread
	control *client.Client // creates and deletes nodes
	tree    tree
}

// Run runs one case. It returns when the case is over and its nodes are deleted. If ctx ends, it
// returns as soon as the nodes are deleted.
func Run(ctx context.Context, cfg Config) (result Result, err error) {
	k, ok := findKind(cfg.Params.Case)
	if !ok {
		return Result{}, fmt.Errorf("bench: unknown case %q", cfg.Params.Case)
	}
	if len(cfg.Target.Servers) == 0 {
		return Result{}, errors.New("bench: no servers")
	}
	r := &run{
		ctx: ctx, p: cfg.Params, kind: k, target: cfg.Target,
		procs: processes{root: "/proc", pids: cfg.Target.PIDs}, tell: func(string) {},
		keepers: processes{root: "/proc"}, sleep: cfg.sleep, room: cfg.room,
	}
	if r.sleep == nil {
		r.sleep = nanosleep
	}
	if r.room == 0 {
		if r.room, err = roomForConnections(); err != nil {
			return Result{}, err
		}
	}
	if err := r.p.checkFiles(r.room, len(r.target.Servers)); err != nil {
		return Result{}, err
	}
	if cfg.Progress != nil {
		r.tell = func(line string) { cfg.Progress(r.p.String() + ": " + line) }
	}
	if err := r.procs.check(); err != nil {
		return Result{}, err
	}
	if err := r.begin(); err != nil {
		return Result{}, fmt.Errorf("bench: %v: %w", &r.p, err)
	}
	defer func() { err = errors.Join(err, r.cleanUp()) }()
	result, err = k.run(r)
	if err != nil {
		return result, fmt.Errorf("bench: %v: %w", &r.p, err)
	}
	result.Target, result.Case, result.Op = cfg.Target.Name, r.p.String(), k.op
	return result, nil
}

// begin opens the control session and creates the root of the nodes.
func (r *run) begin() error {
	r.tell("connecting")
	if err := r.reachable(); err != nil {
		return err
	}
	var err error
	if r.homes, err = r.members(); err != nil {
		return err
	}
	if r.control, err = r.open(r.ctx, client.Config{Servers: r.target.Servers}); err != nil {
		return err
	}
	if err := r.tree.plant(r.ctx, r.control); err != nil {
		r.control.Abandon()
		return err
	}
	return nil
}

// cleanUp deletes the nodes and closes the control session, even if the run was broken off.
func (r *run) cleanUp() error {
	ctx, stop := context.WithTimeout(context.WithoutCancel(r.ctx), setupTime)
	defer stop()
	defer r.control.Abandon()
	if !r.p.Keep {
		r.tell("removing the nodes")
		if err := r.tree.remove(ctx, r.control); err != nil {
			return fmt.Errorf("bench: could not delete all nodes below %s: %w", r.tree.root, err)
		}
	}
	return r.control.Close(ctx)
}

// open opens a session with the settings that are common to a run.
func (r *run) open(ctx context.Context, cfg client.Config) (*client.Client, error) {
	ctx, stop := context.WithTimeout(ctx, 2*r.p.Timeout+drainTime)
	defer stop()
	cfg.Timeout, cfg.Dial = r.p.Timeout, r.target.Dial
	return client.Open(ctx, cfg)
}

// home returns a list that holds only the server of connection i.
func (r *run) home(i int) []string {
	i %= len(r.homes)
	return r.homes[i : i+1]
}

// openAll opens n sessions, several at a time, as config says, and passes each client to use. It
// returns all clients that are open, with the first error.
func (r *run) openAll(ctx context.Context, n int, config func(i int) client.Config, use func(i int, c *client.Client)) ([]*client.Client, error) {
	var opened atomic.Int64
	clients := make([]*client.Client, n)
	stop := r.report(func() string { return fmt.Sprintf("%d of %d sessions open", opened.Load(), n) })
	defer stop()
	err := inParallel(ctx, n, openers, func(ctx context.Context, i int) error {
		c, err := r.open(ctx, config(i))
		if err != nil {
			return fmt.Errorf("session %d of %d (servers may limit connections per address: maxClientCnxns): %w", opened.Load()+1, n, err)
		}
		clients[i] = c
		use(i, c)
		opened.Add(1)
		return nil
	})
	return clients, err
}

// closeAll closes the sessions of clients, which may be nil, and waits. Sessions that do not close
// in time end when they expire.
func (r *run) closeAll(clients []*client.Client) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(r.ctx), drainTime)
	defer stop()
	closeAtOnce(ctx, clients)
	abandonAll(clients)
}

// closeAtOnce asks all clients, which may be nil, to close before it waits for the first answer. It
// leaves out clients without a connection. It returns how many sessions have ended before ctx does.
func closeAtOnce(ctx context.Context, clients []*client.Client) int {
	var closed atomic.Int64
	answered := make(chan struct{}, len(clients))
	asked := 0
	for _, c := range clients {
		if c == nil {
			continue
		}
		err := c.Go(ctx, jute.OpCloseSession, nil, func(r client.Reply, err error) {
			if err == nil && r.Err == jute.OK {
				closed.Add(1)
			}
			answered <- struct{}{}
		})
		if err == nil {
			asked++
		}
	}
	for range asked {
		select {
		case <-answered:
		case <-ctx.Done():
			return int(closed.Load())
		}
	}
	return int(closed.Load())
}

// abandonAll abandons clients, which may be nil.
func abandonAll(clients []*client.Client) {
	for _, c := range clients {
		if c != nil {
			c.Abandon()
		}
	}
}

// inParallel calls do for 0 to n-1, width of them at a time, until one fails or ctx ends. It
// returns the first error.
func inParallel(ctx context.Context, n, width int, do func(ctx context.Context, i int) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var next atomic.Int64
	var wait sync.WaitGroup
	for range min(n, width) {
		wait.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if err := do(ctx, i); err != nil {
					stop(err)
				}
			}
		})
	}
	wait.Wait()
	return context.Cause(ctx)
}

// report passes line's result to the progress function twice a second until stop is called.
func (r *run) report(line func() string) (stop func()) {
	over, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		ticker := time.NewTicker(progressTime)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				r.tell(line())
			case <-over:
				return
			}
		}
	}()
	return func() {
		close(over)
		<-gone
	}
}

// read takes a reading. With memory it takes a little longer, so that is done only at the end.
func (r *run) read(memory bool) (reading, error) {
	at := reading{at: time.Now(), tool: ownCPU()}
	keepers, err := r.keepers.cpu()
	if err != nil {
		return at, err
	}
	for _, cpu := range keepers {
		at.tool += cpu
	}
	if memory {
		at.servers, err = r.procs.all()
	} else {
		at.servers.cpu, err = r.procs.cpu()
	}
	return at, err
}

// measure sleeps through the warm-up and the measured time, which begin at base, and returns
// readings of the measured time's begin and end.
func (r *run) measure(base time.Time) (begin, end reading, err error) {
	if err := sleepUntil(r.ctx, base.Add(r.p.Warmup)); err != nil {
		return begin, end, err
	}
	if begin, err = r.read(false); err != nil {
		return begin, end, err
	}
	if err := sleepUntil(r.ctx, base.Add(r.p.Warmup+r.p.Duration)); err != nil {
		return begin, end, err
	}
	end, err = r.read(true)
	return begin, end, err
}

// phase returns how far a run has come, for its progress line.
func (r *run) phase(base time.Time) string {
	at := time.Since(base) - r.p.Warmup
	if at < 0 {
		return "warming up"
	}
	return fmt.Sprintf("%.0f of %.0f s", min(at, r.p.Duration).Seconds(), r.p.Duration.Seconds())
}

// result combines what all cases have.
func (r *run) result(all *tally, begin, end reading) Result {
	ops := all.ok.Count()
	return Result{
		Seconds: r.p.Duration.Seconds(), Ops: ops, PerSecond: round(float64(ops) / r.p.Duration.Seconds()),
		Errors: all.failed, Latency: summary(&all.ok), Cost: cost(begin, end, ops),
	}
}

// round rounds to a tenth.
func round(v float64) float64 { return float64(int64(v*10+0.5)) / 10 }

func sleepUntil(ctx context.Context, t time.Time) error {
	timer := time.NewTimer(time.Until(t))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
