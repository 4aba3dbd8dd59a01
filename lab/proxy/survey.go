// Package proxy finds out whether a program survives what happens to clients of an ensemble. A survey stands between
// the program and its servers. It records the requests of a run of the program's own tests, and then repeats the run
// with a fault at every request.
package proxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// recordings is the number of runs without a fault. Two show which requests come in every run.
	recordings = 2
	// DefaultTimeLimit limits a run without a fault.
	DefaultTimeLimit = 5 * time.Minute
	// DefaultLimit limits the runs with a fault.
	DefaultLimit = 1_000
	// MaxJobs limits the runs at one time. Each has an ensemble or a chroot, and a copy of the program.
	MaxJobs = 32
	// slowdown and patience make up the time limit of a run with a fault: so many times the longest run without one, and
	// so many of the longest session timeouts, which a program may wait for.
	slowdown = 3
	patience = 5
	// leastPatience is for programs and session timeouts that are very short.
	leastPatience = 5 * time.Second
	// shownLines limits the lines of output that a report has of a run that broke.
	shownLines = 25
	// closeTimeout limits the time in which an ensemble is closed after a run. It is for the removal of all nodes of a
	// program, from an ensemble that replies: one that does not is given up much earlier.
	closeTimeout = 5 * time.Minute
	// maxCloseErrors limits the ensembles that an error names because they could not be closed. Each may be a node that
	// the user has to remove.
	maxCloseErrors = 100
)

// Config has the settings of a survey. Program and Ensemble are required.
type Config struct {
	Program  Program
	Ensemble Ensemble
	Faults   []Fault       // default: all
	Limit    int           // of the runs with a fault; default: DefaultLimit
	Jobs     int           // runs at one time; default: 1
	Seed     uint64        // selects the runs if there are more than Limit, and the server that programs use first
	TimeLim  time.Duration // for a run without a fault; default: DefaultTimeLimit
	At       *Point        // only this run; nil: all
	// Listen opens the port of a relay. Default: a free port of 127.0.0.1.
	Listen func() (net.Listener, error)
	// Repeat returns the command line that runs one point again. Default: none.
	Repeat func(Point) string
	// Progress receives each run that ends, and the number of runs in all. Calls come one at a time.
	Progress func(run Run, ended, all int)
	// Recorded is called after the runs without a fault. Default: nothing.
	Recorded func(Result)
}

// Point is a request and the fault that happens at it.
type Point struct {
	Key   Key   `json:"request"`
	Fault Fault `json:"fault"`
}

// String returns the point as ParsePoint reads it.
func (p Point) String() string { return p.Key.String() + ":" + string(p.Fault) }

// ParsePoint parses the form of Point.String. The error shows that form.
func ParsePoint(text string) (Point, error) {
	at := strings.LastIndexByte(text, ':')
	if at < 0 {
		return Point{}, fmt.Errorf("%.200q has no fault; it must be REQUEST:FAULT", text)
	}
	faults, err := ParseFaults(text[at+1:])
	if err != nil {
		return Point{}, err
	}
	if len(faults) != 1 {
		return Point{}, fmt.Errorf("%.200q must have one fault", text)
	}
	key, err := ParseKey(text[:at])
	return Point{key, faults[0]}, err
}

// Outcome is the end of a run.
type Outcome string

const (
	Survived   Outcome = "survived"    // the program succeeded, although the fault happened
	Broke      Outcome = "broke"       // the program failed
	Hung       Outcome = "hung"        // the program did not end in time
	NotReached Outcome = "not reached" // the request did not come in this run
	NotDone    Outcome = "not done"    // the fault could not be put into effect
	Unrelated  Outcome = "unrelated"   // the program failed before the fault
)

// Outcomes returns all outcomes.
func Outcomes() []Outcome { return []Outcome{Survived, Broke, Hung, NotReached, NotDone, Unrelated} }

// IsBreak reports whether the program did not survive.
func (o Outcome) IsBreak() bool { return o == Broke || o == Hung }

// Run is a run with a fault.
type Run struct {
	Point
	Path    string    `json:"path,omitempty"` // of the request, in this run
	Outcome Outcome   `json:"outcome"`
	Exit    string    `json:"exit,omitempty"`   // how the program ended, unless it succeeded
	Reason  string    `json:"reason,omitempty"` // of NotDone
	TookMS  int64     `json:"tookMs"`
	Output  []string  `json:"output,omitempty"`    // the last lines, if it broke
	Next    []Request `json:"following,omitempty"` // what the program requested after the fault, if it broke
	Repeat  string    `json:"repeat,omitempty"`    // the command line that runs it again
	Again   Outcome   `json:"again,omitempty"`     // the outcome of a second run with the same fault, if it broke
}

// Result is the result of a survey.
type Result struct {
	Format        int             `json:"format"` // ResultFormat
	Command       []string        `json:"command,omitempty"`
	Ensemble      string          `json:"ensemble"`
	Began         time.Time       `json:"began"`
	TookMS        int64           `json:"tookMs"`
	Seed          uint64          `json:"seed"`
	Faults        []Fault         `json:"faults"`
	Recorded      []Request       `json:"recorded"`                  // by the first run without a fault
	Unsteady      int             `json:"unsteady"`                  // recorded requests that are not the same in the second run
	Unkept        int             `json:"unkept,omitempty"`          // requests beyond the limit of a recording
	TimeoutMS     int64           `json:"timeoutMs"`                 // the longest session timeout that the program got
	RunMS         int64           `json:"runMs"`                     // the longest run without a fault
	LimitMS       int64           `json:"limitMs"`                   // the time limit of a run with a fault
	Skipped       int             `json:"skipped"`                   // points that cannot be, such as a move with one server
	LeftOut       int             `json:"leftOut"`                   // points beyond Config.Limit
	Unended       int             `json:"unendedSessions,omitempty"` // sessions of the program that could not be ended, and expire
	UnendedReason string          `json:"unendedReason,omitempty"`   // of the first of them
	Runs          []Run           `json:"runs"`                      // in the order of the requests
	Counts        map[Outcome]int `json:"counts"`                    // of Runs
}

// ResultFormat is the version of the JSON document.
const ResultFormat = 1

// Broken returns the runs that the program did not survive.
func (r Result) Broken() []Run {
	return slices.DeleteFunc(slices.Clone(r.Runs), func(run Run) bool { return !run.Outcome.IsBreak() })
}

// surveyRun is a survey that runs.
type surveyRun struct {
	Config
	result  Result
	timeout time.Duration // the longest session timeout
	servers int
	ready   chan freshServers
	closing sync.WaitGroup // the servers of runs that have ended; each takes closeTimeout at most
	closers chan struct{}  // one for each that is being closed: a run waits if they are more than the runs

	mu        sync.Mutex // guards what follows, and makes calls of Progress come one at a time
	runs      map[Point]Run
	ended     int
	closeErrs []error // at most maxCloseErrors
	moreErrs  int     // beyond them
	unended   unendedSessions
}

// Survey records runs of the program, and repeats them with faults. It blocks until all runs have ended. The error
// means that the survey could not be done: the program failed without a fault, an ensemble did not start, or ctx ended.
// A program that broke is no error.
func Survey(ctx context.Context, cfg Config) (Result, error) {
	s := &surveyRun{Config: cfg, runs: map[Point]Run{}, ready: make(chan freshServers)}
	s.setDefaults()
	s.closers = make(chan struct{}, s.Jobs)
	s.result = Result{
		Format: ResultFormat, Ensemble: cfg.Ensemble.Describe(), Began: time.Now(), Seed: cfg.Seed, Faults: s.Faults,
		Counts: map[Outcome]int{},
	}
	startCtx, cancel := context.WithCancel(ctx)
	var starting sync.WaitGroup
	for range s.Jobs {
		starting.Go(func() { s.startAhead(startCtx) })
	}
	err := s.runSurvey(ctx)
	cancel()
	starting.Wait()
	s.closing.Wait()
	s.result.TookMS = time.Since(s.result.Began).Milliseconds()
	if s.result.Unended = s.unended.sessions; s.result.Unended > 0 {
		s.result.UnendedReason = s.unended.err.Error()
	}
	return s.result, errors.Join(append([]error{err}, s.leftOpen()...)...)
}

// runSurvey does the runs without a fault, and then those with one.
func (s *surveyRun) runSurvey(ctx context.Context) error {
	points, err := s.recordRun(ctx)
	if err != nil {
		return err
	}
	if s.Recorded != nil {
		s.Recorded(s.result)
	}
	err = s.runAll(ctx, points)
	for _, p := range points {
		if run, ok := s.runs[p]; ok {
			s.result.Runs = append(s.result.Runs, run)
			s.result.Counts[run.Outcome]++
		}
	}
	return err
}

func (s *surveyRun) setDefaults() {
	if len(s.Faults) == 0 {
		s.Faults = Faults()
	}
	s.Limit = cmp.Or(s.Limit, DefaultLimit)
	s.Jobs = min(max(s.Jobs, 1), MaxJobs)
	s.TimeLim = cmp.Or(s.TimeLim, DefaultTimeLimit)
	if s.Listen == nil {
		s.Listen = func() (net.Listener, error) { return net.Listen("tcp", "127.0.0.1:0") }
	}
}

// recordRun runs the program without a fault, and returns the points to try.
func (s *surveyRun) recordRun(ctx context.Context) ([]Point, error) {
	var seen [recordings]runRecord
	for i := range recordings {
		a, err := s.runOnce(ctx, nil, s.TimeLim)
		switch {
		case err != nil:
			return nil, err
		case a.outcome != Survived:
			return nil, fmt.Errorf("run %d of the program without a fault: %w", i+1, a.failureError(s.TimeLim))
		case a.record.broken != nil:
			return nil, fmt.Errorf("run %d of the program without a fault: %w", i+1, a.record.broken)
		case len(a.record.requests) == 0:
			return nil, fmt.Errorf("the program succeeded without a request: it must connect to the address in the environment "+
				"variable %s, or in place of %s in its arguments", ConnectVariable, ConnectWord)
		}
		seen[i], s.servers, s.timeout = a.record, a.servers, max(s.timeout, a.timeout)
		s.result.RunMS = max(s.result.RunMS, a.took.Milliseconds())
	}
	s.result.Recorded, s.result.Unkept = seen[0].requests, seen[0].unkept
	s.result.TimeoutMS = s.timeout.Milliseconds()
	s.result.LimitMS = s.timeLimit().Milliseconds()
	if s.At != nil {
		return []Point{*s.At}, nil
	}
	return s.choosePoints(seen[0].requests, seen[1].requests), nil
}

// timeLimit returns the time limit of a run with a fault.
func (s *surveyRun) timeLimit() time.Duration {
	longest := time.Duration(s.result.RunMS) * time.Millisecond
	return slowdown*longest + max(patience*s.timeout, leastPatience)
}

// choosePoints returns the requests of a recording with their faults, at most Limit of them. A request that the second
// recording does not have in the same session is identified by its place in the run.
func (s *surveyRun) choosePoints(first, second []Request) (points []Point) {
	again := map[Key]bool{}
	for _, r := range second {
		again[r.Key()] = true
	}
	for _, r := range first {
		key := r.Key()
		if !again[key] {
			key = r.anyKey()
			s.result.Unsteady++
		}
		for _, f := range s.Faults {
			if impossibleReason(f, r.Op, r.Opens, s.servers) != "" {
				s.result.Skipped++
				continue
			}
			points = append(points, Point{key, f})
		}
	}
	if len(points) <= s.Limit {
		return points
	}
	s.result.LeftOut = len(points) - s.Limit
	chosen := rand.New(rand.NewPCG(s.Seed, 0)).Perm(len(points))[:s.Limit]
	slices.Sort(chosen)
	for i, at := range chosen {
		points[i] = points[at]
	}
	return points[:s.Limit]
}

// runAll runs the program at each point, Jobs of them at one time.
func (s *surveyRun) runAll(ctx context.Context, points []Point) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan Point)
	var workers sync.WaitGroup
	for range min(s.Jobs, len(points)) {
		workers.Go(func() {
			for p := range next {
				run, err := s.runWithFault(ctx, p)
				if err != nil {
					cancel(err)
					return
				}
				s.noteRun(run, len(points))
			}
		})
	}
	func() {
		defer close(next)
		for _, p := range points {
			select {
			case next <- p:
			case <-ctx.Done():
				return
			}
		}
	}()
	workers.Wait()
	return context.Cause(ctx)
}

// noteRun keeps a run that has ended.
func (s *surveyRun) noteRun(run Run, all int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended++
	s.runs[run.Point] = run
	if s.Progress != nil {
		s.Progress(run, s.ended, all)
	}
}

// runWithFault runs the program with a fault. If the request does not come in the session with its number, it is
// matched in all sessions. If the program breaks, one more run shows whether it breaks each time.
func (s *surveyRun) runWithFault(ctx context.Context, p Point) (Run, error) {
	t := p
	a, err := s.runOnce(ctx, &t, s.timeLimit())
	if err == nil && a.outcome == NotReached && p.Key.Session != 0 {
		if other, ok := s.inRun(p.Key); ok {
			t.Key = other
			a, err = s.runOnce(ctx, &t, s.timeLimit())
		}
	}
	if err != nil {
		return Run{}, err
	}
	run := Run{Point: p, Outcome: a.outcome, TookMS: a.took.Milliseconds()}
	if s.Repeat != nil {
		run.Repeat = s.Repeat(p)
	}
	if a.record.fired != nil {
		run.Path = a.record.fired.Path
	}
	if why := errors.Join(a.record.undone, a.record.broken); why != nil {
		run.Reason = strings.ReplaceAll(why.Error(), "\n", "; ")
	}
	if a.outcome == Survived || a.outcome == NotReached {
		return run, nil
	}
	run.Exit, run.Output, run.Next = a.exitText(s.timeLimit()), a.output, a.record.following
	if run.Outcome.IsBreak() {
		again, err := s.runOnce(ctx, &t, s.timeLimit())
		if err != nil {
			return Run{}, err
		}
		run.Again = again.outcome
	}
	return run, nil
}

// inRun returns the key of a recorded request by its place in the run.
func (s *surveyRun) inRun(key Key) (Key, bool) {
	i := slices.IndexFunc(s.result.Recorded, key.matchesRequest)
	if i < 0 {
		return Key{}, false
	}
	return s.result.Recorded[i].anyKey(), true
}

// runAttempt is one run of the program.
type runAttempt struct {
	outcome Outcome
	err     error // of the program
	took    time.Duration
	timeout time.Duration // the longest session timeout
	servers int
	output  []string
	record  runRecord
}

// failureError returns the error for a run without a fault that failed.
func (a runAttempt) failureError(limit time.Duration) error {
	text := a.exitText(limit)
	for _, line := range a.output {
		text += "\n" + line
	}
	return errors.New(text)
}

// exitText describes the end of a program that failed.
func (a runAttempt) exitText(limit time.Duration) string {
	if a.outcome == Hung {
		return fmt.Sprintf("it did not end in %v", limit.Round(time.Millisecond))
	}
	var exit *exec.ExitError
	if errors.As(a.err, &exit) {
		return exit.ProcessState.String()
	}
	if a.err != nil {
		return a.err.Error()
	}
	return "exit status 0"
}

// runOnce runs the program once, with a fault unless t is nil.
func (s *surveyRun) runOnce(ctx context.Context, t *Point, limit time.Duration) (a runAttempt, err error) {
	var next freshServers
	select {
	case next = <-s.ready:
	case <-ctx.Done():
		return a, ctx.Err()
	}
	if next.err != nil {
		return a, next.err
	}
	servers := next.servers
	defer s.closeLater(ctx, servers)
	l, err := s.Listen()
	if err != nil {
		return a, fmt.Errorf("listen for the program: %w", err)
	}
	var p Process
	started := make(chan struct{})
	program := func() Pauser { // the program starts after its relay
		<-started
		return p
	}
	r := newRelay(l, servers, int(s.Seed%uint64(len(servers.Addresses))), t, program)
	var out lastLines
	began := time.Now()
	p, err = s.Program.Start(ctx, l.Addr().String()+servers.Chroot, &out)
	if err != nil {
		r.closeAll()
		return a, err
	}
	close(started)
	hung := false
	a.err, hung = awaitEnd(ctx, p, limit)
	a.took, a.servers = time.Since(began), len(servers.Addresses)
	a.record = r.closeAll()
	a.output = out.lastOf(shownLines)
	a.timeout = r.longestTimeout()
	if servers.Outlive {
		s.noteUnended(endAll(context.WithoutCancel(ctx), servers, r.unclosedSessions()))
		s.noteUnended(a.record.unendedOf())
	}
	a.outcome = judgeOutcome(t, a.record, a.err, hung)
	return a, ctx.Err()
}

// freshServers is the result of Fresh.
type freshServers struct {
	servers Servers
	err     error
}

// startAhead starts the servers of the next runs, one at a time, during earlier runs, because an election takes as long as
// a run of many programs. When ctx ends, it closes what no run has taken.
func (s *surveyRun) startAhead(ctx context.Context) {
	for ctx.Err() == nil {
		servers, err := s.Ensemble.Fresh(ctx)
		select {
		case s.ready <- freshServers{servers, err}:
		case <-ctx.Done():
			if err == nil { // nothing has used them
				s.noteClosed(closeServers(ctx, servers))
			}
		}
	}
}

// closeLater closes the servers of a run during the next one.
func (s *surveyRun) closeLater(ctx context.Context, servers Servers) {
	s.closers <- struct{}{}
	s.closing.Go(func() {
		defer func() { <-s.closers }()
		s.noteClosed(closeServers(ctx, servers))
	})
}

// noteClosed keeps the error of servers that were closed, if there is one.
func (s *surveyRun) noteClosed(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil:
	case len(s.closeErrs) < maxCloseErrors:
		s.closeErrs = append(s.closeErrs, err)
	default:
		s.moreErrs++
	}
}

// leftOpen returns the errors of the servers that could not be closed.
func (s *surveyRun) leftOpen() []error {
	if s.moreErrs == 0 {
		return s.closeErrs
	}
	return append(s.closeErrs, fmt.Errorf("%d more of these errors are not shown", s.moreErrs))
}

// noteUnended keeps which sessions of a run could not be ended.
func (s *surveyRun) noteUnended(u unendedSessions) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unended.addFrom(u)
}

// closeServers closes the servers of a run, also if ctx has ended.
func closeServers(ctx context.Context, servers Servers) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	return servers.Close(ctx)
}

// awaitEnd waits until the program has ended. It ends it after the limit, or when ctx ends.
func awaitEnd(ctx context.Context, p Process, limit time.Duration) (err error, hung bool) {
	ended := make(chan error, 1)
	go func() { ended <- p.Wait() }()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case err := <-ended:
		return err, false
	case <-timer.C:
		hung = true
	case <-ctx.Done():
	}
	p.Kill()
	return <-ended, hung
}

// judgeOutcome returns the outcome of a run.
func judgeOutcome(t *Point, seen runRecord, err error, hung bool) Outcome {
	switch {
	case t != nil && (seen.undone != nil || seen.broken != nil):
		return NotDone
	case hung && (t == nil || seen.fired != nil):
		return Hung
	case t == nil && err != nil:
		return Broke
	case t == nil:
		return Survived
	case seen.fired == nil && (err != nil || hung):
		return Unrelated
	case seen.fired == nil:
		return NotReached
	case err != nil:
		return Broke
	}
	return Survived
}
