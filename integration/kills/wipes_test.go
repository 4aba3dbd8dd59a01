package kills

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"rollcall/integration/needs"
	"rollcall/integration/wire"
	"rollcall/lab/process"
	"rollcall/zk/jute"
)

const (
	// wipesTime is the time in which TestWipes begins new runs, unless ROLLCALL_WIPES says otherwise.
	wipesTime = 10 * time.Second
	// servesWithin and completeWithin are the longest times from the last fault until a write is acknowledged, and until
	// every member of the list serves and votes.
	servesWithin, completeWithin = 30 * time.Second, 60 * time.Second
	// settleTime is the time for which members must report that all vote, before the test relies on it.
	settleTime = time.Second
	// mostMembers is the number of members in a run, one after the other.
	mostMembers = 5
)

// Processes are killed, emptied, paused and stopped at random under load, while the ensemble grows from one member to
// three and to five, and shrinks to three again. The disks of a majority of the voters always stay. After each round the
// ensemble serves within 30 s of the last fault, and all members of the list vote within 60 s. In the end no
// acknowledged write is missing, no session was lost, and all members are equal. ROLLCALL_WIPES is the time in which new
// runs begin, such as 20m, and ROLLCALL_FIRST the seed of the first one. A seed stands for a plan.
func TestWipes(t *testing.T) {
	needs.Check(t, needs.Nightly)
	limit, first := wipesTime, process.Setting(t, "ROLLCALL_FIRST", 1, 1)
	if text := os.Getenv("ROLLCALL_WIPES"); text != "" {
		var err error
		if limit, err = time.ParseDuration(text); err != nil || limit <= 0 {
			t.Fatalf("ROLLCALL_WIPES=%q: want a time such as 20m", text)
		}
	}
	began := time.Now()
	sum := &wipeTotals{}
	for seed := first; seed == first || time.Since(began) < limit; seed++ {
		t.Run(strconv.Itoa(seed), func(t *testing.T) { playWipes(t, uint64(seed), sum) })
	}
	fmt.Printf("kill -9 and wipe: seeds from %d on, %v, in %v\n", first, sum, time.Since(began).Round(time.Second))
	if !t.Failed() {
		sum.floors(t)
	}
}

// wipeTotals counts the events of all runs.
type wipeTotals struct {
	plays, rounds, changes, acked, unknown      int
	wipes, kills, pauses, stops, whileOneCopies int // whileOneCopies: faults that hit others while a wiped member had not come in
	longest                                     time.Duration
}

func (s *wipeTotals) String() string {
	return fmt.Sprintf("%d plays, %d rounds, %d changes of the list, ", s.plays, s.rounds, s.changes) +
		fmt.Sprintf("%d wipes, %d kills, %d pauses, %d stops, ", s.wipes, s.kills, s.pauses, s.stops) +
		fmt.Sprintf("%d of these while a wiped member copied; ", s.whileOneCopies) +
		fmt.Sprintf("%d writes acknowledged, %d of unknown outcome; ", s.acked, s.unknown) +
		fmt.Sprintf("all voted %v after the last fault at the latest", s.longest.Round(time.Millisecond))
}

// floors checks that enough happened.
func (s *wipeTotals) floors(t *testing.T) {
	for what, f := range map[string]struct{ got, each int }{
		"rounds": {s.rounds, len(firstChanges)}, "changes of the list": {s.changes, 7}, "wipes": {s.wipes, 3}, "kills": {s.kills, 5},
		"faults while a wiped member copies": {s.whileOneCopies, 1}, "writes acknowledged": {s.acked, 1000},
	} {
		if least := f.each * s.plays; f.got < least {
			t.Errorf("%s in %d plays: %d, want %d at least", what, s.plays, f.got, least)
		}
	}
}

// wipes is a run whose members lose their disks.
type wipes struct {
	*run
	*operator
	ctx    context.Context
	sum    *wipeTotals
	began  time.Time
	last   time.Time                // of the last fault, or when the last member that it had hit ran again
	out    []*process.Member        // that do not run, or are paused, in the order of the faults
	held   map[*process.Member]bool // paused
	lost   map[*process.Member]bool // wiped, and not seen to vote again
	newest *process.Member
	gone   []*process.Member // removed
	told   []string          // what was done
	filled chan error        // when the log is as long as it should be
}

func playWipes(t *testing.T, seed uint64, sum *wipeTotals) {
	plan := newWipePlan(seed)
	w := &wipes{
		run:      &run{t: t, sum: &totals{}, rng: rand.New(rand.NewPCG(seed, 14))},
		operator: newOperator(t), sum: sum, began: time.Now(), held: map[*process.Member]bool{}, lost: map[*process.Member]bool{},
	}
	t.Cleanup(func() {
		if t.Failed() {
			const again = "this plan again: ROLLCALL_FIRST=%d ROLLCALL_WIPES=1s go test -v -run '^TestWipes$' ./integration/kills\n%v%s"
			t.Logf(again, seed, plan, strings.Join(w.told, "\n"))
		}
	})
	w.Ensemble = process.StartEnsemble(t, process.Config{
		Binary: rollcall, Size: 1, Grows: true, Tick: tick,
		Lines: fmt.Sprintf("snapCount=%d\nmaxClientCnxns=0\n", plan.snapCount) + w.lines(),
	})
	for id := 2; id <= mostMembers; id++ {
		w.coming = append(w.coming, w.NewMember(id))
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w.ctx = ctx
	w.load(ctx)
	c := w.client(ctx, 0)
	if err := growLog(c, plan.load); err != nil {
		t.Fatal(err)
	}
	w.filled = make(chan error, 1)
	go func() { w.filled <- growLog(c, plan.load) }()
	sessions := sessionsOf(w.writers)
	for i, round := range plan.rounds {
		w.play(i, round)
		if t.Failed() {
			return
		}
	}
	if err := await(ctx, "all digests agree", time.Now().Add(completeWithin), func() error { return w.agree(ctx, w.Members) }); err != nil {
		t.Error(err)
	}
	w.judge(ctx)
	if got := sessionsOf(w.writers); !slices.Equal(got, sessions) {
		t.Errorf("sessions %v became %v", sessions, got)
	}
	sum.plays++
	for _, writer := range w.writers {
		acked, unknown := writer.outcomes()
		sum.acked, sum.unknown = sum.acked+acked, sum.unknown+unknown
	}
}

// recordStep records a step, for a run that fails.
func (w *wipes) recordStep(format string, args ...any) {
	w.told = append(w.told, fmt.Sprintf("%8.3f ", time.Since(w.began).Seconds())+fmt.Sprintf(format, args...))
}

// play runs one round, and checks the ensemble after it.
func (w *wipes) play(i int, round wipeRound) {
	w.t.Helper()
	w.sum.rounds++
	before := len(w.Members)
	w.last = time.Now()
	changed, finish := w.begin(round)
	allowed := min(spare(before), spare(len(w.Members)))
	if round.change == remove {
		allowed = spare(before - 1)
	}
	w.recordStep("round %d: %s, from %d members; %d disks may be lost", i, round.change, before, allowed)
	for _, f := range round.faults {
		time.Sleep(f.after)
		w.hit(f, allowed)
	}
	for len(w.out) > 0 {
		w.comesBack()
	}
	if err := w.served(); err != nil {
		w.t.Fatalf("round %d (%s): %v", i, round.change, err)
	}
	select {
	case err := <-changed:
		if err != nil {
			w.t.Fatalf("round %d: %s: %v", i, round.change, err)
		}
	case <-time.After(time.Until(w.last.Add(completeWithin))):
		w.t.Fatalf("round %d: %s is not done %v after the last fault", i, round.change, completeWithin)
	}
	finish()
	if i == 0 {
		if err := <-w.filled; err != nil {
			w.t.Errorf("round %d: %v", i, err)
		}
	}
	if err := w.settle(); err != nil {
		w.t.Errorf("round %d (%s): %v", i, round.change, err)
	}
	if err := w.compareMembers(); err != nil {
		w.t.Errorf("round %d (%s): %v", i, round.change, err)
	}
}

// begin begins a change of the list. The channel gets its outcome. Call finish after that.
func (w *wipes) begin(round wipeRound) (changed <-chan error, finish func()) {
	w.t.Helper()
	present := slices.Clone(w.Members)
	leaving := present[round.leaves%len(present)]
	var args []string
	finish = w.Reconfigure
	retire := func() {
		w.Ensemble.Members = slices.DeleteFunc(w.Members, func(m *process.Member) bool { return m == leaving })
		leaving.Process.Kill()
		delete(w.lost, leaving)
		w.gone = append(w.gone, leaving)
		w.Reconfigure()
	}
	switch round.change {
	case add:
		w.newest = w.comes()
		args = []string{"add", line(w.newest)}
	case comeBack:
		w.newest, w.gone = w.gone[0], w.gone[1:]
		if round.empty {
			w.Empty(w.newest)
		}
		w.Add(w.newest)
		args = []string{"add", line(w.newest)}
	case replace:
		w.newest = w.comes()
		args, finish = []string{"replace", fmt.Sprint(leaving.ID), line(w.newest)}, retire
	case remove:
		args, finish = []string{"remove", fmt.Sprint(leaving.ID), "--if-exists"}, retire
	}
	done := make(chan error, 1)
	if args == nil {
		done <- nil
		return done, finish
	}
	w.sum.changes++
	w.recordStep("rollcall members %q", args)
	go func() { done <- w.operator.change(w.ctx, rollcall, present, args...) }()
	return done, finish
}

// hit does one fault, if there is a member that it can hit.
func (w *wipes) hit(f wipeFault, allowed int) {
	w.t.Helper()
	if f.kind == returned {
		if len(w.out) > 0 {
			w.comesBack()
		}
		return
	}
	m := w.choose(f)
	if m == nil {
		return
	}
	w.last = time.Now()
	if len(w.lost) > 0 && !w.lost[m] {
		w.sum.whileOneCopies++
	}
	kind := f.kind
	if kind == wiped && !w.lost[m] && len(w.lost) >= allowed {
		kind = killed
	}
	w.recordStep("%s member %d, %s; lost %d", kind, m.ID, m.Mode(), len(w.lost))
	switch kind {
	case paused:
		w.sum.pauses++
		if err := m.Process.Stop(); err != nil {
			w.t.Fatal(err)
		}
		w.held[m] = true
		w.out = append(w.out, m)
	case stopped:
		w.sum.stops++
		w.stop(m)
		w.out = append(w.out, m)
	case killed:
		w.sum.kills++
		m.Process.Kill()
		w.out = append(w.out, m)
	case wiped:
		w.sum.wipes++
		w.lost[m], w.newest = true, m
		m.Process.Kill()
		w.Empty(m)
		time.Sleep(f.pause)
		w.Start(m)
		w.last = time.Now()
	}
}

// stop stops a member with SIGTERM. One that has just been started may not take signals yet, and ends at once.
func (w *wipes) stop(m *process.Member) {
	w.t.Helper()
	if err := m.Process.SendSignal(syscall.SIGTERM); err != nil {
		w.t.Fatal(err)
	}
	status, err := m.Process.ExitStatus(w.t.Context())
	how, _ := m.Process.Cmd.ProcessState.Sys().(syscall.WaitStatus)
	if err != nil || status != 0 && how.Signal() != syscall.SIGTERM {
		w.t.Fatalf("member %d after SIGTERM: exit status %d, %v; want 0, or its end by that signal", m.ID, status, err)
	}
}

// choose returns a member that runs, or nil if there is none.
func (w *wipes) choose(f wipeFault) *process.Member {
	var run []*process.Member
	for _, m := range w.Members {
		if m.Process.IsRunning() && !slices.Contains(w.out, m) {
			run = append(run, m)
		}
	}
	if len(run) == 0 {
		return nil
	}
	if f.target == copier && slices.Contains(run, w.newest) {
		return w.newest
	}
	for _, m := range run {
		if f.target == leading && m.Mode() == "leader" {
			return m
		}
	}
	return run[f.index%len(run)]
}

// comesBack lets the member run again that a fault hit first.
func (w *wipes) comesBack() {
	w.t.Helper()
	m := w.out[0]
	w.out = w.out[1:]
	if w.held[m] {
		delete(w.held, m)
		if err := m.Process.Continue(); err != nil {
			w.t.Fatal(err)
		}
	} else {
		w.Start(m)
	}
	w.last = time.Now()
	w.recordStep("member %d runs again", m.ID)
}

// served waits until a write is acknowledged that was sent after the last fault.
func (w *wipes) served() error {
	what := fmt.Sprintf("a write is acknowledged within %v of the last fault", servesWithin)
	return await(w.ctx, what, w.last.Add(servesWithin), func() error {
		w.again(w.Members, w.restart)
		var errs []error
		for _, m := range w.Members {
			err := writeOnce(m)
			if err == nil {
				return nil
			}
			errs = append(errs, fmt.Errorf("member %d: %w", m.ID, err))
		}
		return errors.Join(errs...)
	})
}

// writeOnce writes to a node through one member, in a session of its own.
func writeOnce(m *process.Member) error {
	raw, err := net.DialTimeout("tcp", m.Clients, time.Second)
	if err != nil {
		return err
	}
	conn := wire.New(raw)
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(attempt)); err != nil {
		return err
	}
	if _, err := conn.Open(visitTimeout); err != nil {
		return err
	}
	r, _, err := conn.Call(1, jute.OpSetData, &jute.SetDataRequest{Path: []byte("/few/empty"), Version: -1})
	if err == nil && r.Err != jute.OK {
		err = r.Err
	}
	if err == nil {
		_, _, err = conn.Call(2, jute.OpCloseSession, nil)
	}
	return err
}

// settle waits until all members vote. Then no disk is lost any more.
func (w *wipes) settle() error {
	var since time.Time // when they began to say so
	err := await(w.ctx, fmt.Sprintf("all members vote within %v of the last fault", completeWithin), w.last.Add(completeWithin), func() error {
		w.again(w.Members, w.restart)
		if err := w.checkWhole(w.ctx, w.Members); err != nil {
			since = time.Time{}
			return err
		}
		if since.IsZero() {
			since = time.Now()
		}
		if time.Since(since) < settleTime {
			return errors.New("they have only just said so")
		}
		return nil
	})
	if err != nil {
		return err
	}
	took := since.Sub(w.last)
	w.sum.longest = max(w.sum.longest, took)
	w.recordStep("all %d vote %v after the last fault", len(w.Members), took.Round(time.Millisecond))
	clear(w.lost)
	return nil
}

// compareMembers pauses the load and compares the state that each serving member shows with the acknowledged writes.
func (w *wipes) compareMembers() error {
	w.visitors.mu.Lock()
	defer w.visitors.mu.Unlock()
	for _, writer := range w.writers {
		defer writer.resume()
		if err := writer.pause(); err != nil {
			return err
		}
	}
	members := slices.DeleteFunc(slices.Clone(w.Members), func(m *process.Member) bool { return m.Mode() == "" })
	if len(members) == 0 {
		return errors.New("no member serves")
	}
	seen, err := walkAll(w.ctx, members)
	if err != nil {
		return err
	}
	for _, writer := range w.writers {
		if err := writer.check(nil, seen); err != nil {
			return err
		}
	}
	if err := w.agree(w.ctx, members); errors.Is(err, errApartStates) {
		return err
	}
	return nil
}
