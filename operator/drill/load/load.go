package load

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"rollcall/client"
	"rollcall/operator/drill/judge"
	"rollcall/operator/drill/result"
)

// Load is the clients of a drill, which run. Its methods are safe for concurrent use.
type Load struct {
	cfg Config
	rec *recorder

	run       context.Context // ends when Stop begins: clients finish their work
	stopRun   context.CancelFunc
	final     context.Context // ends when Stop must return
	stopFinal context.CancelFunc

	seats    []*seat
	probed   []*judge.Key // of the probers
	shared   []*judge.Key // of the writers
	working  sync.WaitGroup
	watching sync.WaitGroup // the observers, which outlast the others
	calm     chan struct{}  // closed when the others have ended
	opening  chan struct{}  // a place for each holder that opens a session

	mu      sync.Mutex
	folders []string  // of sequential nodes
	silent  []*silent // clients
}

// The folders below the chroot.
const (
	probeFolder  = "/probe"
	sharedFolder = "/shared"
	createFolder = "/created"
	holdFolder   = "/sessions"
	lockFolder   = "/lock"
)

// Start creates the nodes of the load and starts its clients. It returns when the nodes exist; the clients connect
// meanwhile. If ctx ends before, it returns its error. The clients run until Stop, which must be called.
func Start(ctx context.Context, cfg Config) (*Load, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	l := &Load{cfg: cfg, rec: newRecorder(&cfg), calm: make(chan struct{}), opening: make(chan struct{}, maxOpening)}
	l.run, l.stopRun = context.WithCancel(context.WithoutCancel(ctx))
	l.final, l.stopFinal = context.WithCancel(context.WithoutCancel(ctx))
	for _, m := range cfg.Servers {
		l.probed = append(l.probed, &judge.Key{Path: probeFolder + "/" + m.Name})
	}
	l.probed = append(l.probed, &judge.Key{Path: probeFolder + "/any"})
	for i := range cfg.Writers {
		l.shared = append(l.shared, &judge.Key{Path: fmt.Sprintf("%s/%d", sharedFolder, i+1)})
	}
	if err := l.prepare(ctx); err != nil {
		l.stopRun()
		l.stopFinal()
		return nil, fmt.Errorf("load: prepare %s: %w", cfg.Chroot, err)
	}
	l.startClients()
	return l, nil
}

// prepare creates the chroot, the folders and the keys.
func (l *Load) prepare(ctx context.Context) error {
	servers, _, _ := strings.Cut(l.cfg.all(), "/")
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
	for _, folder := range []string{probeFolder, sharedFolder, createFolder, holdFolder, lockFolder} {
		paths = append(paths, l.cfg.Chroot+folder)
	}
	for _, path := range paths {
		if err := createOnce(ctx, c, path, nil); err != nil {
			return err
		}
	}
	for _, k := range slices.Concat(l.probed, l.shared) {
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
	all := l.cfg.all()
	for i, m := range l.cfg.Servers {
		l.startProber(l.seat("probe-"+m.Name, m.Clients+l.cfg.Chroot), m.Name, l.probed[i])
	}
	l.startProber(l.seat("probe-any", all), "", l.probed[len(l.cfg.Servers)])
	for i, k := range l.shared {
		l.start(l.seat(fmt.Sprintf("writer-%d", i+1), all), newWriter(i+1, k).work)
	}
	for i := range l.cfg.Readers {
		l.start(l.seat(fmt.Sprintf("reader-%d", i+1), all), l.readAndMove)
	}
	for i := range l.cfg.Watchers {
		l.startWatcher(l.seat(fmt.Sprintf("watcher-%d", i+1), all))
	}
	for i := range l.cfg.Contenders {
		l.start(l.seat(fmt.Sprintf("contender-%d", i+1), all), l.contend)
	}
	for i := range l.cfg.Sessions {
		s := l.seat(fmt.Sprintf("holder-%d", i+1), all)
		s.quit = make(chan struct{}, 1)
		l.start(s, l.holdSession)
	}
	for name, work := range map[string]func(*life){"observer-1": l.observe, "observer-2": l.observeSynced} {
		s := l.seat(name, all)
		l.watching.Go(func() { s.run(work) })
	}
	l.watching.Go(l.sampleCounts)
}

// seat returns a new client, which does not run yet.
func (l *Load) seat(name, servers string) *seat {
	s := &seat{l: l, name: name, servers: servers, random: rand.New(rand.NewPCG(l.cfg.Seed, uint64(len(l.seats))))}
	s.gate.dial, s.gate.frames, s.gate.since = l.cfg.DialConn, l.cfg.TLS == nil, l.rec.since
	l.seats = append(l.seats, s)
	return s
}

// start runs a client until the load stops.
func (l *Load) start(s *seat, work func(*life)) { l.working.Go(func() { s.run(work) }) }

// stopping reports whether Stop has begun.
func (l *Load) stopping() bool { return l.run.Err() != nil }

// sleep waits, until the load stops.
func (l *Load) sleep(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.run.Done():
	}
}

// Clients returns the names of all clients, which Pause takes.
func (l *Load) Clients() (names []string) {
	for _, s := range l.seats {
		names = append(names, s.name)
	}
	return names
}

// Pause stops a client until resume is called: it sends nothing, receives nothing and does nothing. See gate for what
// it does not simulate. The error says that there is no such client.
func (l *Load) Pause(name string) (resume func(), err error) {
	i := slices.IndexFunc(l.seats, func(s *seat) bool { return s.name == name })
	if i < 0 {
		return nil, fmt.Errorf("load: there is no client %q; Clients returns the names", name)
	}
	s := l.seats[i]
	from := l.rec.now()
	s.gate.close()
	return sync.OnceFunc(func() {
		l.rec.pausedSeat(s, result.Interval{From: from, To: l.rec.now()})
		s.gate.open()
	}), nil
}

// Abandon makes up to n holders end without closing their sessions, and returns the number. The sessions then expire.
// The holders open new ones.
func (l *Load) Abandon(n int) (abandoned int) {
	for _, s := range l.seats {
		if abandoned == n {
			break
		}
		if s.quit == nil {
			continue
		}
		select {
		case s.quit <- struct{}{}:
			abandoned++
		default: // it has not done so yet for the last call
		}
	}
	return abandoned
}

// Stop ends the load: the clients finish their requests and close their sessions, and the nodes are read from each
// member. If ctx ends first, what is missing then is missing in the Evidence, which says so. The nodes stay: see
// Remove. Stop must be called once.
func (l *Load) Stop(ctx context.Context) *judge.Evidence {
	stop := context.AfterFunc(ctx, l.stopFinal)
	defer stop()
	for _, s := range l.seats {
		s.gate.open()
	}
	l.rec.stop()
	l.stopRun()
	l.working.Wait()
	l.closeSilent()
	close(l.calm)
	l.watching.Wait()
	l.verify()
	l.stopFinal()
	return l.rec.evidence(l.probed, l.shared)
}
