package drill

import (
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"rollcall/lab/judge"
	"rollcall/lab/report"
	"rollcall/lab/result"
	"rollcall/lab/target"
)

// Config configures a Runner.
type Config struct {
	Target  target.Target
	Timeout time.Duration // of the sessions of the drills' clients; servers raise or lower it to their limits
	Tick    time.Duration // of the ensemble; 0: unknown
	// MaxPause is the longest time without an answer that is allowed for clients that may use any member; 0: a session timeout
	// and two ticks.
	MaxPause time.Duration
	Seed     uint64 // draws the members and the load: the same seed makes the same choices
	Repeat   int    // how many times each drill runs, from 1
	// AmongOthers drills although there are sessions of others.
	AmongOthers bool
	Live        *report.Live
	// Own starts an ensemble that a drill has for itself, beside Target. nil: it may not, and such drills do not run.
	Own func(context.Context, target.ProcessConfig) (target.Target, error)
}

// DefaultTimeout is the timeout of the drills' sessions: the shortest that ZooKeeper with its default tick allows.
const DefaultTimeout = 4 * time.Second

// MaxRepeat limits Config.Repeat: 100 runs of a drill take half an hour.
const MaxRepeat = 100

// Runner runs drills on one ensemble. Use it from one goroutine, and call Close at the end.
type Runner struct {
	cfg     Config
	servers string
	grounds *testGrounds
	ends    time.Time // when all drills are done, about
}

// Check returns nil if the ensemble may be drilled: it is well, nothing of an earlier run is broken or left, and no
// sessions of others exist. It takes the lock, so no other drill runs until Close.
func (c Config) Check(ctx context.Context) (*Runner, error) {
	if err := target.Healthy(ctx, c.Target.Members()); err != nil {
		return nil, fmt.Errorf("the ensemble is not well, and a drill would make it worse: %w", err)
	}
	if !c.AmongOthers {
		err := awaitNoOthers(ctx, func(ctx context.Context) (int, error) { return target.Sessions(ctx, c.Target.Members()) })
		if err != nil {
			return nil, err
		}
	}
	servers := connectString(c.Target.Members())
	g, err := takeGrounds(ctx, servers)
	if err != nil {
		return nil, err
	}
	left, err := g.listLeftovers(ctx)
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("an earlier run has left %s: run \"rollcall drill heal --hosts %s\" first", strings.Join(left, ", "), servers)
	}
	if err != nil {
		return nil, errors.Join(err, g.removeAll(ctx))
	}
	return &Runner{cfg: c, servers: servers, grounds: g}, nil
}

// othersLimit bounds the wait for the end of other clients' sessions. Those of an earlier run, or of a client that has
// just crashed, end within about their timeout and two ticks.
const othersLimit = 10 * time.Second

// awaitNoOthers returns nil when the ensemble has no sessions, and an error if it still has some after othersLimit.
func awaitNoOthers(ctx context.Context, sessions func(context.Context) (int, error)) error {
	limit := time.NewTimer(othersLimit)
	defer limit.Stop()
	for {
		others, err := sessions(ctx)
		switch {
		case err != nil:
			return fmt.Errorf("whether others use the ensemble is unknown: %w. --among-others drills it nevertheless", err)
		case others == 0:
			return nil
		}
		select {
		case <-time.After(wellInterval):
		case <-limit.C:
			return fmt.Errorf("the ensemble has %d sessions that are not this drill's, and had some for %v; they would suffer. "+
				"--among-others drills it nevertheless", others, othersLimit)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// connectString names all members.
func connectString(members []target.Member) string {
	var all []string
	for _, m := range members {
		all = append(all, m.Clients)
	}
	return strings.Join(all, ",")
}

// Run runs the drills and returns their results. Its error is the reason to stop before the last one: ctx has ended,
// the ensemble was not well again in time, or something could not be healed. What was found until then is returned
// with it.
func (r *Runner) Run(ctx context.Context, drills []*Drill) (result.Run, error) {
	members := r.cfg.Target.Members()
	run := result.Run{Format: result.Format, Began: time.Now(), Seed: r.cfg.Seed, Ensemble: result.Ensemble{
		Kind: r.cfg.Target.Kind(), Software: target.Software(ctx, members),
		TickMS: int(r.cfg.Tick.Milliseconds()),
	}}
	for _, m := range members {
		run.Ensemble.Members = append(run.Ensemble.Members, result.Member{Name: m.Name, Clients: m.Clients})
	}
	for i, d := range drills {
		for repeat := 1; repeat <= r.cfg.Repeat; repeat++ {
			r.ends = time.Now().Add(r.timeLeft(drills[i:], repeat))
			r.cfg.Live.Began(report.Current{
				Name: d.Name, Title: d.Title, Repeat: repeat, Of: r.cfg.Repeat, Number: i + 1, All: len(drills),
			})
			found, err := r.runOnce(ctx, d, repeat)
			run.Drills = append(run.Drills, found)
			run.Ended = time.Now()
			r.cfg.Live.Ended(found)
			if err != nil {
				return run, err
			}
			if found.Outcome == result.NotRun {
				break
			}
		}
	}
	return run, nil
}

// timeLeft returns about how long the drills take, if the first one is at a repeat.
func (r *Runner) timeLeft(drills []*Drill, repeat int) (left time.Duration) {
	for _, d := range drills {
		left += d.Lasts(r.cfg.Timeout) * time.Duration(r.cfg.Repeat)
	}
	return left - drills[0].Lasts(r.cfg.Timeout)*time.Duration(repeat-1)
}

// healLimit bounds the repair of everything after ctx has ended.
const healLimit = time.Minute

// runOnce runs one drill once. Its error means that no other drill may follow.
func (r *Runner) runOnce(ctx context.Context, d *Drill, repeat int) (found result.Drill, err error) {
	found = result.Drill{Name: d.Name, Title: d.Title, Repeat: repeat, Seed: r.seedOf(d, repeat), Began: time.Now(), Outcome: result.Pass}
	defer func() { found.Took = result.Since(time.Since(found.Began)) }()
	if err := d.Fits(r.cfg); err != nil {
		found.Outcome, found.Reason = result.NotRun, err.Error()
		return found, nil
	}
	if err := r.grounds.isHeld(); err != nil {
		return r.failedResult(found, err), err
	}
	root, err := r.grounds.newChroot(ctx, chrootName(d, repeat))
	if err != nil {
		return r.failedResult(found, err), err
	}
	stepsErr, healErr := r.performSteps(ctx, d, root, &found)
	if err := errors.Join(stepsErr, healErr); err != nil {
		found = r.failedResult(found, err)
	}
	if healErr != nil {
		return found, healErr
	}
	if ctx.Err() != nil {
		return found, context.Cause(ctx)
	}
	clean, stop := context.WithTimeout(ctx, cleanLimit)
	defer stop()
	return found, r.grounds.removeChroots(clean)
}

// chrootName returns a name for the chroot of a drill that no other one has. It does not depend on the clock, which may be
// set back to the time of an earlier drill whose chroot could not be removed.
func chrootName(d *Drill, repeat int) string {
	const letters = 8
	return fmt.Sprintf("%s-%d-%s", d.Name, repeat, crand.Text()[:letters])
}

func (r *Runner) failedResult(found result.Drill, err error) result.Drill {
	found.Outcome, found.Reason = result.Fail, strings.ReplaceAll(err.Error(), "\n", "; ") // it is shown in one line
	return found
}

// seedOf returns the seed of a repeat of a drill. It does not depend on the drills before it.
func (r *Runner) seedOf(d *Drill, repeat int) uint64 {
	seed := r.cfg.Seed<<8 + uint64(repeat)
	for _, letter := range []byte(d.Name) {
		seed = seed*1099511628211 ^ uint64(letter) // FNV's prime
	}
	return seed
}

// performSteps runs the steps of a drill beside the load, and has the evidence judged. stepsErr is the reason why the
// drill did not go as planned, and healErr means that the ensemble is not as it was.
func (r *Runner) performSteps(ctx context.Context, d *Drill, root string, found *result.Drill) (stepsErr, healErr error) {
	used := r.cfg.Target
	if d.own != nil {
		own, err := r.cfg.Own(ctx, *d.own)
		if err != nil {
			return err, nil
		}
		defer func() { healErr = errors.Join(healErr, closeOwn(ctx, own)) }()
		used = own
	}
	members := used.Members()
	s := &stage{
		ctx: ctx, target: used, own: r.cfg.Own, servers: connectString(members) + root, apart: map[string][]string{}, timeout: r.cfg.Timeout, live: r.cfg.Live,
		rng:           rand.New(rand.NewPCG(found.Seed, 1)),
		currentLeader: func(ctx context.Context) (string, error) { return findLeader(ctx, used.Members()) }, // they may change
		checkHealth:   func(ctx context.Context) error { return target.Healthy(ctx, used.Members()) },
	}
	load, err := r.startClients(ctx, used, root, found.Seed)
	if err != nil {
		return err, nil
	}
	s.startedAt, s.clients = load.began, load
	shown, stopShowing := context.WithCancel(context.WithoutCancel(ctx))
	var showing sync.WaitGroup
	showing.Go(func() { load.updateDisplay(shown, r.cfg.Live, r.ends) })
	showing.Go(func() { found.Leaders = s.followLeaders(shown, members) })
	if stepsErr = s.waitFor(settleTime); stepsErr == nil {
		load.load.Abandon(abandonedHolders)
		stepsErr = d.run(s)
	}
	healErr = s.healAll(ctx)
	if stepsErr == nil && healErr == nil {
		stepsErr = s.settleClients()
	}
	stopShowing()
	showing.Wait()
	load.stopAndJudge(ctx, s, judge.Limits{Gap: result.Since(r.cfg.MaxPause)}, found)
	return stepsErr, healErr
}

// closeLimit bounds the end of an ensemble that a drill has for itself. Its members are killed.
const closeLimit = 2 * time.Minute

// closeOwn ends an ensemble that a drill has for itself, although ctx may have ended.
func closeOwn(ctx context.Context, own target.Target) error {
	ctx, stop := context.WithTimeoutCause(context.WithoutCancel(ctx), closeLimit,
		fmt.Errorf("the ensemble of the drill has not ended within %v", closeLimit))
	defer stop()
	return own.Close(ctx)
}

const (
	// abandonedHolders is the number of sessions that lose their clients when each drill begins: theirs must end in time, whatever
	// is broken.
	abandonedHolders = 2
	// leaderInterval is the time between two queries for the leader, and leaderLimit bounds each of them: a
	// member that stands still does not answer.
	leaderInterval = 250 * time.Millisecond
	leaderLimit    = 200 * time.Millisecond
)

// settleClients waits until the clients have run for settleTime, and until sessions that were abandoned must have ended: while a new
// leader gives them a full timeout, nothing would be judged of them.
func (s *stage) settleClients() error {
	err := s.waitFor(settleTime)
	for range maxStayedWaits {
		left := s.clients.load.StayedFor(s.forJudge())
		if err != nil || left == 0 {
			break
		}
		err = s.waitFor(min(left+stayedMargin, s.timeout+maxStayedWait))
	}
	return err
}

const (
	// maxStayedWaits and maxStayedWait limit the wait for abandoned sessions: a pause of writes makes it longer, and an
	// ensemble without a leader ends none. The judge allows a timeout, two ticks and two seconds.
	maxStayedWaits = 3
	maxStayedWait  = 10 * time.Second
	// stayedMargin is longer than the observers need for another list.
	stayedMargin = 500 * time.Millisecond
)

// followLeaders returns the leaders and their times, until ctx ends.
func (s *stage) followLeaders(ctx context.Context, members []target.Member) (leaders []result.Leader) {
	last := "?" // so that the first one is recorded, also if there is none
	for ticker := time.NewTicker(leaderInterval); ; {
		asked, stop := context.WithTimeout(ctx, leaderLimit)
		name := target.Leader(asked, members)
		stop()
		if ctx.Err() == nil && name != last && len(leaders) < maxLeaders {
			last, leaders = name, append(leaders, result.Leader{At: s.sinceStart(), Member: name})
		}
		select {
		case <-ctx.Done():
			ticker.Stop()
			return leaders
		case <-ticker.C:
		}
	}
}

// maxLeaders limits the changes that are recorded of one drill. An ensemble that changes its leader more often is seen
// to do so.
const maxLeaders = 1000

// findLeader returns the member that leads. While there is none, or two say that they do, it is an error.
func findLeader(ctx context.Context, members []target.Member) (string, error) {
	if name := target.Leader(ctx, members); name != "" {
		return name, nil
	}
	return "", errors.New("no member says that it leads")
}

// healAll repairs what the drill has left broken, although ctx may have ended, and waits until the ensemble is well.
func (s *stage) healAll(ctx context.Context) error {
	heal, stop := context.WithTimeout(context.WithoutCancel(ctx), healLimit+wellLimit)
	defer stop()
	s.ctx = heal
	err := s.repairAll()
	if all := s.target.Heal(heal); all != nil { // it has tried again what could not be repaired
		return errors.Join(err, all)
	}
	for _, f := range s.openFaults { // Heal has ended them, although Repair could not
		s.noteHealed(f.at)
	}
	s.openFaults = nil
	if err := s.awaitWell(wellLimit); err != nil {
		return err
	}
	s.ctx = ctx
	return nil
}

// Close removes what the drills made in the tree and gives up the lock. It does not close the target.
func (r *Runner) Close(ctx context.Context) error {
	return r.grounds.removeAll(context.WithoutCancel(ctx))
}
