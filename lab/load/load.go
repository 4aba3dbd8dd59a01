package load

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"rollcall/client"
	"rollcall/lab/judge"
	"rollcall/lab/result"
)

// Load is the clients of a drill, which run. Its methods are safe for concurrent use.
type Load struct {
	cfg      Config
	recorder *evidenceRecorder

	running    context.Context // ends when Stop begins: clients finish their work
	endRunning context.CancelFunc
	final      context.Context // ends when Stop must return
	stopFinal  context.CancelFunc

	slots        []*clientSlot
	probedKeys   []*judge.Key // of the probers
	sharedKeys   []*judge.Key // of the writers
	working      sync.WaitGroup
	watching     sync.WaitGroup // the observers, which outlast the others
	clientsEnded chan struct{}  // closed when the others have ended
	opening      chan struct{}  // a place for each holder that opens a session

	mu             sync.Mutex
	createdParents []string   // of sequential nodes
	silentConns    []net.Conn // of clients that send nothing
	silentTries    int        // to open one
}

// The parents of the load's nodes, below the chroot.
const (
	probeParent    = "/probe"
	sharedParent   = "/shared"
	createParent   = "/created"
	sessionsParent = "/sessions"
	lockParent     = "/lock"
)

// Start creates the nodes of the load and starts its clients. It returns when the nodes exist; the clients connect
// meanwhile. If ctx ends before, it returns its error. The clients run until Stop, which must be called.
func Start(ctx context.Context, cfg Config) (*Load, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	l := &Load{cfg: cfg, recorder: newRecorder(&cfg), clientsEnded: make(chan struct{}), opening: make(chan struct{}, maxOpening)}
	l.running, l.endRunning = context.WithCancel(context.WithoutCancel(ctx))
	l.final, l.stopFinal = context.WithCancel(context.WithoutCancel(ctx))
	for _, m := range cfg.Servers {
		l.probedKeys = append(l.probedKeys, &judge.Key{Path: probeParent + "/" + m.Name})
	}
	l.probedKeys = append(l.probedKeys, &judge.Key{Path: probeParent + "/any"})
	for i := range cfg.Writers {
		l.sharedKeys = append(l.sharedKeys, &judge.Key{Path: fmt.Sprintf("%s/%d", sharedParent, i+1)})
	}
	if err := l.createNodes(ctx); err != nil {
		l.endRunning()
		l.stopFinal()
		return nil, fmt.Errorf("load: prepare %s: %w", cfg.Chroot, err)
	}
	l.startClients()
	return l, nil
}

// createNodes creates the chroot, the parents and the keys.
func (l *Load) createNodes(ctx context.Context) error {
	servers, _, _ := strings.Cut(l.cfg.connectString(), "/")
	c, err := client.Dial(ctx, servers, client.Config{
		Timeout: l.cfg.Timeout, TLS: l.cfg.TLS, DialConn: l.cfg.DialConn, Clock: l.cfg.Clock,
	})
	if err != nil {
		return err
	}
	defer func() { _ = c.Close(ctx) }()
	var paths []string
	for i, b := range l.cfg.Chroot {
		if b == '/' && i > 0 {
			paths = append(paths, l.cfg.Chroot[:i])
		}
	}
	paths = append(paths, l.cfg.Chroot)
	for _, parent := range []string{probeParent, sharedParent, createParent, sessionsParent, lockParent} {
		paths = append(paths, l.cfg.Chroot+parent)
	}
	for _, path := range paths {
		if err := createOnce(ctx, c, path, nil); err != nil {
			return err
		}
	}
	for _, k := range slices.Concat(l.probedKeys, l.sharedKeys) {
		if err := createOnce(ctx, c, l.cfg.Chroot+k.Path, formatValue(0)); err != nil {
			return err
		}
	}
	return nil
}

// createOnce creates a node unless it exists. A create whose reply is lost is sent again.
func createOnce(ctx context.Context, c *client.Client, path string, data []byte) error {
	for {
		_, _, err := c.Create(ctx, path, data, client.Persistent)
		if !client.MayHaveHappened(err) || ctx.Err() != nil {
			if isNodeExists(err) {
				return nil
			}
			return err
		}
	}
}

// formatValue returns the data of a key, and parseValue the value. Other data is -1, which no client writes.
func formatValue(v int64) []byte { return strconv.AppendInt(nil, v, 10) }

func parseValue(data []byte) int64 {
	v, err := strconv.ParseInt(string(data), 10, 64)
	if err != nil {
		return -1
	}
	return v
}

func (l *Load) startClients() {
	all := l.cfg.connectString()
	for i, m := range l.cfg.Servers {
		l.startProber(l.newSlot("probe-"+m.Name, m.Clients+l.cfg.Chroot), m.Name, l.probedKeys[i])
	}
	l.startProber(l.newSlot("probe-any", all), "", l.probedKeys[len(l.cfg.Servers)])
	for i, k := range l.sharedKeys {
		l.startClient(l.newSlot(fmt.Sprintf("writer-%d", i+1), all), (&writer{number: i + 1, keyWriter: keyWriter{key: k}}).writeUntilOver)
	}
	for i := range l.cfg.Readers {
		l.startClient(l.newSlot(fmt.Sprintf("reader-%d", i+1), all), l.readAndMove)
	}
	for i := range l.cfg.Watchers {
		l.startWatcher(l.newSlot(fmt.Sprintf("watcher-%d", i+1), all))
	}
	for i := range l.cfg.Contenders {
		l.startClient(l.newSlot(fmt.Sprintf("contender-%d", i+1), all), l.contendForLock)
	}
	for i := range l.cfg.Sessions {
		s := l.newSlot(fmt.Sprintf("holder-%d", i+1), all)
		s.abandonRequests = make(chan struct{}, 1)
		l.startClient(s, l.holdSession)
	}
	for name, work := range map[string]func(*sessionLife){"observer-1": l.observeNodes, "observer-2": l.observeSynced} {
		s := l.newSlot(name, all)
		l.watching.Go(func() { s.runSessions(work) })
	}
	l.watching.Go(l.sampleCounts)
}

// newSlot returns a new client, which does not run yet.
func (l *Load) newSlot(name, servers string) *clientSlot {
	s := &clientSlot{load: l, name: name, servers: servers, random: rand.New(rand.NewPCG(l.cfg.Seed, uint64(len(l.slots))))}
	s.gate.dial, s.gate.frames, s.gate.sinceStart = l.cfg.DialConn, l.cfg.TLS == nil, l.recorder.sinceStart
	l.slots = append(l.slots, s)
	return s
}

// startClient runs a client until the load stops.
func (l *Load) startClient(s *clientSlot, work func(*sessionLife)) {
	l.working.Go(func() { s.runSessions(work) })
}

// isStopping reports whether Stop has begun.
func (l *Load) isStopping() bool { return l.running.Err() != nil }

// sleepWhileRunning waits, until the load stops.
func (l *Load) sleepWhileRunning(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.running.Done():
	}
}

// Clients returns the names of all clients, which Pause takes.
func (l *Load) Clients() (names []string) {
	for _, s := range l.slots {
		names = append(names, s.name)
	}
	return names
}

// Pause stops a client until resume is called: it sends nothing, receives nothing and does nothing. See gate for what
// it does not simulate. The error says that there is no such client.
func (l *Load) Pause(name string) (resume func(), err error) {
	i := slices.IndexFunc(l.slots, func(s *clientSlot) bool { return s.name == name })
	if i < 0 {
		return nil, fmt.Errorf("load: there is no client %q; Clients returns the names", name)
	}
	s := l.slots[i]
	from := l.recorder.sinceStartMillis()
	s.gate.shutGate()
	return sync.OnceFunc(func() {
		l.recorder.notePause(s, result.Interval{From: from, To: l.recorder.sinceStartMillis()})
		s.gate.openGate()
	}), nil
}

// Abandon makes up to n holders end without closing their sessions, and returns the number. The sessions then expire.
// The holders open new ones.
func (l *Load) Abandon(n int) (abandoned int) {
	for _, s := range l.slots {
		if abandoned == n {
			break
		}
		if s.abandonRequests == nil {
			continue
		}
		select {
		case s.abandonRequests <- struct{}{}:
			abandoned++
		default: // it has not done so yet for the last call
		}
	}
	return abandoned
}

// Stop ends the load: the clients finish their requests and close their sessions, and the nodes are read from each
// member. If ctx ends first, what is missing then is missing in the Evidence, which says so. The nodes stay.
// Stop must be called once.
func (l *Load) Stop(ctx context.Context) *judge.Evidence {
	stop := context.AfterFunc(ctx, l.stopFinal)
	defer stop()
	for _, s := range l.slots {
		s.gate.openGate()
	}
	l.recorder.stopMeters()
	l.endRunning()
	l.working.Wait()
	l.closeSilent()
	close(l.clientsEnded)
	l.watching.Wait()
	l.verifyMembers()
	l.stopFinal()
	return l.recorder.finish(l.probedKeys, l.sharedKeys)
}
