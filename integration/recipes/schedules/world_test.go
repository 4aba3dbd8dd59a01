package schedules

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"rollcall/client"
	"rollcall/lab/checker"
)

// servers are one server or an ensemble. Its methods are safe for concurrent use.
type servers interface {
	ConnectString() string
	Dial(ctx context.Context, network, address string) (net.Conn, error)
	Expire(session int64, password []byte) error // ends a session
	Crash() (restart func() error, _ error)      // kills the server that leads
	Pause() (resume func() error, _ error)       // pauses a server
	AwaitReady(ctx context.Context) error        // waits until all serve
}

const (
	faultSpan   = 20 * time.Second // the time in which faults begin
	scheduleEnd = 10 * time.Minute // after that, clients give up
	samplePause = 20 * time.Millisecond
	// operatorTimeout is the timeout of the operator's session, which is to survive all faults.
	operatorTimeout = time.Minute
	leaveTime       = 20 * time.Second // in which nodes must be gone that clients delete in the background
	root            = "/recipes"       // the parent of everything that recipes create
	logs            = "/written"       // the parent of the logs of guarded writes
)

// world is one schedule in progress.
type world struct {
	servers servers
	began   time.Time
	ctx     context.Context // ends the schedule
	actors  []*actor
	shared  *claims       // the partitions that had an owner in the final round
	met     *claims       // the clients that met at a double barrier in the final round
	patient bool          // no client gives up by itself
	calm    chan struct{} // closed when all faults are over

	background sync.WaitGroup // faults that take time
	operator   *client.Client

	mu      sync.Mutex
	plan    plan
	struck  []fault // those that have happened
	removed error   // see recipe.removed
	writes  int     // the number of the last guarded write
	history checker.History
	grants  []*grant
}

// grant is a right that a client got.
type grant struct {
	checker.Holder
	session client.SessionID
	subject string
	held    func() bool
}

// noteReleased notes that a client has released rights: they are not held from now on.
func (w *world) noteReleased(grants []*grant) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, g := range grants {
		g.Released = true
	}
}

// newWorld returns a schedule with clients that has not begun.
func newWorld(ctx context.Context, s servers, seed uint64, clients int, p plan) *world {
	w := &world{
		servers: s, began: time.Now(), ctx: ctx, plan: p, calm: make(chan struct{}), shared: newClaims(partitions), met: newClaims(doubleCount),
		history: checker.History{
			Limits: map[string]int{}, Written: map[string][]checker.Written{},
			Totals: map[string]int64{}, Rest: map[string][]string{},
		},
	}
	for i := range clients {
		w.actors = append(w.actors, newActor(w, i+1, rand.New(rand.NewPCG(seed, uint64(i)+100))))
	}
	return w
}

// recordEvent adds an event to the history.
func (w *world) recordEvent(e checker.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e.At = time.Since(w.began)
	w.history.Events = append(w.history.Events, e)
}

// takePlanned returns the faults at a request, and forgets them. The caller calls background.Done when it has made them happen.
func (w *world) takePlanned(client, request int) plan {
	w.mu.Lock()
	defer w.mu.Unlock()
	var now plan
	w.plan = slices.DeleteFunc(w.plan, func(f fault) bool {
		if f.client != client || f.request != request {
			return false
		}
		now = append(now, f)
		return true
	})
	w.struck = append(w.struck, now...)
	w.background.Add(1)
	return now
}

// hasDeleted reports whether an operator has deleted nodes.
func (w *world) hasDeleted() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return plan(w.struck).hasKind(deleteNode, lateDelete)
}

// nextWrite returns the number of the next guarded write.
func (w *world) nextWrite() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writes++
	return w.writes
}

// isCalm reports whether all faults are over.
func (w *world) isCalm() bool {
	select {
	case <-w.calm:
		return true
	default:
		return false
	}
}

// recordGrant records a right that a client got, and has it sampled from now on.
func (w *world) recordGrant(g *grant, node string) {
	w.recordEvent(checker.Event{
		Client: g.Client, Kind: checker.Hold, Subject: g.subject, Token: g.Token, Exclusive: g.Exclusive, Node: node,
		Session: int64(g.session),
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.grants = append(w.grants, g)
}

// currentHolders returns the clients that hold a right at the moment.
func (w *world) currentHolders(subject string) (found []checker.Holder) {
	for _, g := range w.currentGrants() {
		if g.subject == subject && g.held() {
			found = append(found, g.Holder)
		}
	}
	return found
}

// currentGrants returns all grants as they are now.
func (w *world) currentGrants() []grant {
	w.mu.Lock()
	defer w.mu.Unlock()
	grants := make([]grant, len(w.grants))
	for i, g := range w.grants {
		grants[i] = *g
	}
	return grants
}

// sampleHolders records which clients hold rights at this moment. A client that holds its right before and after others
// are queried holds it in between, because a right that has ended does not begin again.
func (w *world) sampleHolders() {
	holders := map[string][]grant{}
	for _, g := range w.currentGrants() {
		if g.held() {
			holders[g.subject] = append(holders[g.subject], g)
		}
	}
	for subject, held := range holders {
		if len(held) > 1 {
			held = slices.DeleteFunc(held, func(g grant) bool { return !g.held() })
		}
		e := checker.Event{Kind: checker.Sample, Subject: subject}
		for _, g := range held {
			e.Holders = append(e.Holders, g.Holder)
		}
		w.recordEvent(e)
	}
}

// runSchedule runs the schedule: each client runs, faults happen, and then all clients finish without them.
func (w *world) runSchedule(r recipe) error {
	ctx, cancel := context.WithTimeout(w.ctx, scheduleEnd)
	defer cancel()
	w.ctx, w.removed, w.patient = ctx, r.removed, r.patient
	var err error
	w.operator, err = client.Dial(ctx, w.servers.ConnectString(), client.Config{
		Timeout: operatorTimeout, GiveUpAfter: -1,
		DialConn: w.servers.Dial,
	})
	if err != nil {
		return err
	}
	defer w.operator.Abandon()
	if err := w.createParents(r); err != nil {
		return err
	}
	w.began = time.Now()
	stop := w.startSampler()
	var rounds, all sync.WaitGroup
	for _, a := range w.actors {
		rounds.Add(1)
		all.Go(func() {
			w.playClient(a, r, rounds.Done)
		})
	}
	if err := w.becomeCalm(&rounds); err != nil {
		return err
	}
	all.Wait()
	stop()
	err = w.readFinalState(r)
	for _, a := range w.actors {
		if a.c != nil {
			a.c.Abandon()
		}
	}
	return err
}

// playClient is the life of a client.
func (w *world) playClient(a *actor, r recipe, roundsDone func()) {
	func() {
		defer roundsDone()
		for range r.rounds {
			if a.liveClient() == nil {
				return
			}
			r.play(a, false)
			a.workFor(roundPause)
		}
	}()
	select {
	case <-w.calm:
		r.play(a, true)
	case <-w.ctx.Done():
	}
}

// roundPause is the longest pause between two rounds of a client.
const roundPause = 200 * time.Millisecond

// startSampler samples until stop is called.
func (w *world) startSampler() (stop func()) {
	ctx, cancel := context.WithCancel(w.ctx)
	var running sync.WaitGroup
	running.Go(func() {
		for ctx.Err() == nil {
			w.sampleHolders()
			sleepFor(ctx, samplePause)
		}
	})
	return func() {
		cancel()
		running.Wait()
	}
}

// becomeCalm waits until all clients have done their rounds, or faultSpan is over. Then it drops the faults that have
// not happened, and waits for the end of the others.
func (w *world) becomeCalm(rounds *sync.WaitGroup) error {
	played := make(chan struct{})
	go func() {
		rounds.Wait()
		close(played)
	}()
	timer := time.NewTimer(faultSpan)
	defer timer.Stop()
	select {
	case <-played:
	case <-timer.C:
	}
	w.mu.Lock()
	w.plan = nil
	w.mu.Unlock()
	w.background.Wait()
	if err := w.servers.AwaitReady(w.ctx); err != nil {
		return err
	}
	for _, a := range w.actors {
		if !a.paused.waitOpen(w.ctx, nil) || !a.slow.waitOpen(w.ctx, nil) {
			return w.ctx.Err()
		}
	}
	w.recordEvent(checker.Event{Kind: checker.Calm})
	close(w.calm)
	return nil
}

// createParents creates the parent nodes of the logs.
func (w *world) createParents(r recipe) error {
	for _, path := range []string{root, logs} {
		if _, _, err := w.operator.Create(w.ctx, path, nil, client.Persistent); err != nil {
			return err
		}
	}
	for _, subject := range r.subjects {
		w.history.Limits[subject] = r.limit
		if _, _, err := w.operator.Create(w.ctx, logOf(subject), nil, client.Persistent); err != nil {
			return err
		}
	}
	if r.prepare != nil {
		return r.prepare(w)
	}
	return nil
}

// logOf returns the path of the log of the guarded writes of a subject.
func logOf(subject string) string { return logs + "/" + strings.ReplaceAll(subject[1:], "/", "-") }

// retryConnection calls do until it does not fail for want of a connection.
func (w *world) retryConnection(do func() error) error {
	for {
		err := do()
		if !errors.Is(err, client.ErrConnectionLost) && !errors.Is(err, client.ErrSuspended) {
			return err
		}
		if err := w.operator.AwaitConnected(w.ctx); err != nil {
			return err
		}
	}
}

// readFinalState reads what the servers have in the end.
func (w *world) readFinalState(r recipe) error {
	if w.operator.State().State.IsFinal() {
		return fmt.Errorf("the operator's session: %w", w.operator.State().Err)
	}
	if err := w.retryConnection(func() error { return w.operator.Sync(w.ctx) }); err != nil {
		return err
	}
	for _, subject := range r.subjects {
		written, err := w.readLog(subject)
		if err != nil {
			return err
		}
		w.history.Written[subject] = written
	}
	if r.finish != nil {
		if err := r.finish(w); err != nil {
			return err
		}
	}
	if r.keeps {
		return nil
	}
	return w.awaitEmpty()
}

// readLog returns the guarded writes of a subject in the servers' order.
func (w *world) readLog(subject string) ([]checker.Written, error) {
	var names []string
	if err := w.retryConnection(func() (err error) {
		names, _, err = w.operator.Children(w.ctx, logOf(subject))
		return err
	}); err != nil || len(names) == 0 {
		return nil, err
	}
	slices.Sort(names)
	reads := make([]client.Operation, len(names))
	for i, name := range names {
		reads[i] = client.GetOp(logOf(subject) + "/" + name)
	}
	var results []client.Result
	if err := w.retryConnection(func() (err error) {
		results, err = w.operator.Multi(w.ctx, reads...)
		return err
	}); err != nil {
		return nil, err
	}
	written := make([]checker.Written, len(names))
	for i, result := range results {
		if result.Err != nil {
			return nil, result.Err
		}
		if _, err := fmt.Sscanf(string(result.Data), entryFormat, &written[i].Token, &written[i].Exclusive, &written[i].ID); err != nil {
			return nil, fmt.Errorf("log entry %q: %w", result.Data, err)
		}
	}
	return written, nil
}

// entryFormat is the format of an entry of a log: its token, whether the right is exclusive, and its id.
const entryFormat = "%d %t %s"

// awaitEmpty waits until no ephemeral node is left below root, and records those that do not go.
func (w *world) awaitEmpty() error {
	for began := time.Now(); ; sleepFor(w.ctx, 5*samplePause) {
		left, err := w.ephemeralsBelow(root)
		if err != nil {
			return err
		}
		if len(left) == 0 || time.Since(began) > leaveTime {
			w.history.Left = left
			return nil
		}
	}
}

// ephemeralsBelow returns the paths of the ephemeral nodes below a node, sorted.
func (w *world) ephemeralsBelow(path string) ([]string, error) {
	var names []string
	err := w.retryConnection(func() (err error) {
		names, _, err = w.operator.Children(w.ctx, path)
		return err
	})
	if errors.Is(err, client.ErrNoNode) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var found []string
	slices.Sort(names)
	for _, name := range names {
		child := path + "/" + name
		var stat client.Stat
		var exists bool
		if err := w.retryConnection(func() (err error) {
			stat, exists, err = w.operator.Exists(w.ctx, child)
			return err
		}); err != nil {
			return nil, err
		}
		switch {
		case !exists:
		case stat.Owner != 0:
			found = append(found, child)
		default:
			below, err := w.ephemeralsBelow(child)
			if err != nil {
				return nil, err
			}
			found = append(found, below...)
		}
	}
	return found, nil
}
