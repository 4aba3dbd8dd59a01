// Package bench puts load on an ensemble that speaks ZooKeeper's protocol, Rollcall or another one,
// and measures it from the clients' side. It connects only to the given servers, writes only below one
// node of its own, and deletes that node at the end.
//
// A run has a warm-up and a measured time. A request belongs to the measured time if it began in
// it; at a fixed rate, if it was due in it. At the end the run waits for requests that are in
// flight. So no stall is hidden: requests that wait in a stall are counted with all of their wait.
//
// The goroutines of package client send the requests: the function that handles a reply sends the next
// request. Each worker's counters have a lock of their own, which is taken before the client's.
package bench

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"rollcall/client"
)

// Target is the ensemble under test.
type Target struct {
	Name    string
	Servers []string    // host:port of each member; connections are spread over them in turn
	PIDs    []int       // their processes on this machine, to measure their CPU time
	TLS     *tls.Config // nil: connections are not encrypted
	Dial    Dial        // opens connections instead; nil: TCP, and TLS if that is set
	// KeeperCommand is a command that calls ServeKeeper with the same TLS. A run starts several of these if it holds
	// more sessions than one process may open files. nil: none.
	KeeperCommand []string
}

// Config configures one run of one case.
type Config struct {
	Target   Target
	Params   Params
	Progress func(line string) // called twice a second with a line about the run, unless nil

	sleep          func(time.Duration) // waits for the pacer; nil: sleepPrecisely
	maxConnections int                 // of one process; 0: the limit of open files
}

const (
	setupTimeout     = 2 * time.Minute       // of creating or deleting the nodes
	drainTimeout     = 10 * time.Second      // of requests in flight at the end
	parallelOpens    = 64                    // sessions opened at once where that is not measured
	retryPause       = 10 * time.Millisecond // after a failed request
	progressInterval = 500 * time.Millisecond
)

type caseRun struct {
	ctx             context.Context
	params          Params
	kind            benchCase
	target          Target
	serverProcesses processes
	maxConnections  int       // of this process
	keeperProcesses processes // their CPU time counts as the tool's
	reportLine      func(string)
	sleep           func(time.Duration)
	chosenServers   []string       // servers of the connections
	controlClient   *client.Client // creates and deletes nodes
	tree            tree
	sources         sourceAddresses
}

// Run runs one case. It returns when the case is over and its nodes are deleted. If ctx ends, it returns as
// soon as the nodes are deleted.
func Run(ctx context.Context, cfg Config) (result Result, err error) {
	k, ok := findCase(cfg.Params.Case)
	if !ok {
		return Result{}, fmt.Errorf("bench: unknown case %q", cfg.Params.Case)
	}
	if len(cfg.Target.Servers) == 0 {
		return Result{}, errors.New("bench: no servers")
	}
	r := &caseRun{
		ctx: ctx, params: cfg.Params, kind: k, target: cfg.Target,
		serverProcesses: processes{procRoot: "/proc", pids: cfg.Target.PIDs}, reportLine: func(string) {},
		keeperProcesses: processes{procRoot: "/proc"}, sleep: cfg.sleep, maxConnections: cfg.maxConnections,
	}
	if r.sleep == nil {
		r.sleep = sleepPrecisely
	}
	if r.maxConnections == 0 {
		if r.maxConnections, err = connectionLimit(); err != nil {
			return Result{}, err
		}
	}
	if err := r.params.checkOpenFiles(r.maxConnections, len(r.target.Servers)); err != nil {
		return Result{}, err
	}
	if cfg.Progress != nil {
		r.reportLine = func(line string) { cfg.Progress(r.params.String() + ": " + line) }
	}
	if err := r.serverProcesses.checkExist(); err != nil {
		return Result{}, err
	}
	if err := r.setUp(); err != nil {
		return Result{}, fmt.Errorf("bench: %v: %w", &r.params, err)
	}
	defer func() { err = errors.Join(err, r.cleanUp()) }()
	result, err = k.run(r)
	if err != nil {
		return result, fmt.Errorf("bench: %v: %w", &r.params, err)
	}
	result.Target, result.Case, result.Op = cfg.Target.Name, r.params.String(), k.opName
	return result, nil
}

// setUp opens the control session and creates the root of the nodes.
func (r *caseRun) setUp() error {
	r.reportLine("connecting")
	if err := r.checkReachable(); err != nil {
		return err
	}
	var err error
	if r.chosenServers, err = r.findServersWithRole(); err != nil {
		return err
	}
	if r.controlClient, err = r.openSession(r.ctx, sessionConfig{servers: r.target.Servers}); err != nil {
		return err
	}
	if err := r.tree.createRoot(r.ctx, r.controlClient); err != nil {
		r.controlClient.Abandon()
		return err
	}
	return nil
}

// cleanUp deletes the nodes and closes the control session, even if the run failed.
func (r *caseRun) cleanUp() error {
	ctx, stop := context.WithTimeout(context.WithoutCancel(r.ctx), setupTimeout)
	defer stop()
	defer r.controlClient.Abandon()
	if !r.params.KeepNodes {
		r.reportLine("removing the nodes")
		if err := r.tree.removeNodes(ctx, r.controlClient); err != nil {
			return fmt.Errorf("bench: could not delete all nodes below %s: %w", r.tree.root, err)
		}
	}
	return r.controlClient.Close(ctx)
}

// sessionConfig is the configuration of one session. openSession adds what all sessions of a run have.
type sessionConfig struct {
	servers []string
	client.Config
}

// openSession opens a session with the common settings of the run.
func (r *caseRun) openSession(ctx context.Context, cfg sessionConfig) (*client.Client, error) {
	ctx, stop := context.WithTimeout(ctx, 2*r.params.Timeout+drainTimeout)
	defer stop()
	cfg.Timeout, cfg.InOrder = r.params.Timeout, true
	cfg.GiveUpAfter = client.NeverGiveUp // the servers alone decide which sessions expire
	if cfg.DialConn == nil {
		cfg.DialConn = func(ctx context.Context, _, addr string) (net.Conn, error) { return r.dialServer(ctx, addr) }
	}
	return client.Dial(ctx, strings.Join(cfg.servers, ","), cfg.Config)
}

// serverFor returns a list of the server of connection i alone.
func (r *caseRun) serverFor(i int) []string {
	i %= len(r.chosenServers)
	return r.chosenServers[i : i+1]
}

// openManySessions opens n sessions, several at a time, with config, and passes each client to use. It returns all open
// clients, with the first error.
func (r *caseRun) openManySessions(ctx context.Context, n int, config func(i int) sessionConfig,
	use func(i int, c *client.Client),
) ([]*client.Client, error) {
	var opened atomic.Int64
	clients := make([]*client.Client, n)
	stop := r.reportProgress(func() string { return fmt.Sprintf("%d of %d sessions open", opened.Load(), n) })
	defer stop()
	err := inParallel(ctx, n, parallelOpens, func(ctx context.Context, i int) error {
		c, err := r.openSession(ctx, config(i))
		if err != nil {
			return fmt.Errorf("session %d of %d (servers may limit connections per address: maxClientCnxns): %w",
				opened.Load()+1, n, err)
		}
		clients[i] = c
		use(i, c)
		opened.Add(1)
		return nil
	})
	return clients, err
}

// closeOrAbandon closes the sessions of clients, which may be nil. Sessions that do not close within drainTimeout
// expire.
func (r *caseRun) closeOrAbandon(clients []*client.Client) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(r.ctx), drainTimeout)
	defer stop()
	closeAtOnce(ctx, clients)
	abandonAll(clients)
}

// closeAtOnce sends all close requests before it waits for replies, and returns the number of sessions that
// closed before the end of ctx. It skips clients that are nil or have no connection.
func closeAtOnce(ctx context.Context, clients []*client.Client) int {
	var closed atomic.Int64
	answered := make(chan struct{}, len(clients))
	asked := 0
	for _, c := range clients {
		if c == nil {
			continue
		}
		err := c.Pipeline().EndSession(ctx, func(err error) {
			if err == nil {
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

// inParallel calls do for 0 to n-1, width of them at a time, until one fails or ctx ends. It returns the first
// error.
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

// reportProgress reports line's result twice a second until stop is called.
func (r *caseRun) reportProgress(line func() string) (stop func()) {
	over, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		ticker := time.NewTicker(progressInterval)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				r.reportLine(line())
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

// readUsage returns the usage so far. Reading the memory takes longer, so that is for the end.
func (r *caseRun) readUsage(memory bool) (usageReading, error) {
	at := usageReading{at: time.Now(), toolCPU: ownCPU()}
	keepers, err := r.keeperProcesses.cpuTimes()
	if err != nil {
		return at, err
	}
	for _, cpu := range keepers {
		at.toolCPU += cpu
	}
	if memory {
		at.serverUsage, err = r.serverProcesses.fullUsage()
	} else {
		at.serverUsage.cpuByPID, err = r.serverProcesses.cpuTimes()
	}
	return at, err
}

// sleepAndMeasure sleeps through the warm-up and the measured time, which begin at base, and returns readings of
// the begin and the end of the measured time. It calls measuring with true and false there, unless that is nil.
func (r *caseRun) sleepAndMeasure(base time.Time, measuring func(bool) error) (begin, end usageReading, err error) {
	if measuring == nil {
		measuring = func(bool) error { return nil }
	}
	if err := sleepUntil(r.ctx, base.Add(r.params.Warmup)); err != nil {
		return begin, end, err
	}
	if err := measuring(true); err != nil {
		return begin, end, err
	}
	if begin, err = r.readUsage(false); err != nil {
		return begin, end, err
	}
	if err := sleepUntil(r.ctx, base.Add(r.params.Warmup+r.params.Duration)); err != nil {
		return begin, end, err
	}
	if end, err = r.readUsage(true); err != nil {
		return begin, end, err
	}
	return begin, end, measuring(false)
}

func (r *caseRun) phaseText(base time.Time) string {
	at := time.Since(base) - r.params.Warmup
	if at < 0 {
		return "warming up"
	}
	return fmt.Sprintf("%.0f of %.0f s", min(at, r.params.Duration).Seconds(), r.params.Duration.Seconds())
}

// commonResult returns the result that all cases have.
func (r *caseRun) commonResult(all *tally, begin, end usageReading) Result {
	ops := all.latencies.Count()
	return Result{
		Seconds: r.params.Duration.Seconds(), Ops: ops, PerSecond: roundToTenth(float64(ops) / r.params.Duration.Seconds()),
		Errors: all.failures, Latency: summarize(&all.latencies), Cost: costPerOp(begin, end, ops),
	}
}

func roundToTenth(v float64) float64 { return float64(int64(v*10+0.5)) / 10 }

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
