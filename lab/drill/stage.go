package drill

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"rollcall/lab/judge"
	"rollcall/lab/report"
	"rollcall/lab/result"
	"rollcall/lab/target"
)

// The clients run for settleTime before the first fault and after the last one: so many requests are answered
// in it that a gap shows against them.
const settleTime = 2 * time.Second

// stage is one run of one drill: what its steps can do, and what they did.
type stage struct {
	ctx           context.Context
	target        target.Target
	currentLeader func(context.Context) (string, error) // the name of the member that leads
	checkHealth   func(context.Context) error           // nil if the ensemble is well
	timeout       time.Duration                         // of the clients' sessions
	servers       string                                // the connect string of all members, with the drill's chroot
	rng           *rand.Rand
	startedAt     time.Time
	live          *report.Live
	clients       *drillClients
	own           func(context.Context, target.ProcessConfig) (target.Target, error) // Config.Own

	openFaults []openFault
	apart      map[string][]string // by the text of a cut: the members at its other side, if not all
	faults     []result.Fault
	windows    []judge.Window
	verdicts   []result.Verdict
}

// openFault is a fault that has not been repaired.
type openFault struct {
	fault target.Fault
	at    int // its place in faults
}

func (s *stage) sinceStart() result.Millis { return result.Since(time.Since(s.startedAt)) }

// waitFor lets the clients run for d.
func (s *stage) waitFor(d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	}
}

// waitTimeouts waits for so many session timeouts.
func (s *stage) waitTimeouts(n float64) error {
	return s.waitFor(time.Duration(n * float64(s.timeout)))
}

// awaitLeader returns the member that leads. It waits for one: a busy machine may answer too late that one leads.
func (s *stage) awaitLeader() (string, error) {
	for left := wellLimit; ; left -= wellInterval {
		name, err := s.currentLeader(s.ctx)
		if err == nil || left <= 0 {
			return name, err
		}
		if err := s.waitFor(wellInterval); err != nil {
			return "", err
		}
	}
}

// listRoles returns the leader, and the other members in an order drawn by the seed.
func (s *stage) listRoles() (leader string, followers []string, err error) {
	if leader, err = s.awaitLeader(); err != nil {
		return "", nil, err
	}
	for _, m := range s.target.Members() {
		if m.Name != leader {
			followers = append(followers, m.Name)
		}
	}
	if len(followers) == 0 {
		return "", nil, errors.New("the ensemble has no follower")
	}
	s.rng.Shuffle(len(followers), func(i, j int) { followers[i], followers[j] = followers[j], followers[i] })
	return leader, followers, nil
}

// pickFollower returns a member that does not lead.
func (s *stage) pickFollower() (string, error) {
	_, followers, err := s.listRoles()
	if err != nil {
		return "", err
	}
	return followers[0], nil
}

// breakMember makes a fault. text says for people what it does.
func (s *stage) breakMember(f target.Fault, text string) error {
	if f.From != nil {
		s.apart[text] = f.From
	}
	s.openFaults = append(s.openFaults, openFault{f, s.noteBroken(f, text)}) // after an error, a part of it may be there
	if err := s.target.Break(s.ctx, f); err != nil {
		return fmt.Errorf("%s: %w", text, err)
	}
	return nil
}

// noteBroken shows and records a fault, and returns its place in s.faults.
func (s *stage) noteBroken(f target.Fault, text string) int {
	shown := result.Fault{Kind: string(f.Kind), Member: f.Member, Text: text, From: s.sinceStart(), To: -1}
	s.live.Broke(shown)
	s.faults = append(s.faults, shown)
	return len(s.faults) - 1
}

// repairAll ends all faults, the latest first.
func (s *stage) repairAll() error {
	for len(s.openFaults) > 0 {
		if err := s.repairFault(len(s.openFaults) - 1); err != nil {
			return err
		}
	}
	return nil
}

// repairMember ends the fault of a member.
func (s *stage) repairMember(member string) error {
	at := slices.IndexFunc(s.openFaults, func(o openFault) bool { return o.fault.Member == member })
	if at < 0 {
		return fmt.Errorf("member %s has no fault", member)
	}
	return s.repairFault(at)
}

// repairFault ends an open fault.
func (s *stage) repairFault(at int) error {
	o := s.openFaults[at]
	if err := s.target.Repair(s.ctx, o.fault); err != nil {
		return fmt.Errorf("the end of %q: %w", s.faults[o.at].Text, err)
	}
	s.openFaults = slices.Delete(s.openFaults, at, at+1)
	s.noteHealed(o.at)
	return nil
}

// changeMember does what an operator does to a member, and waits until the ensemble is well. It stays until repairs or undoes.
func (s *stage) changeMember(f target.Fault, text string) error {
	if err := s.breakMember(f, text); err != nil {
		return err
	}
	if err := s.awaitWell(wellLimit); err != nil {
		return err
	}
	s.noteHealed(s.openFaults[len(s.openFaults)-1].at)
	return nil
}

// undoChange takes back what changes did last, and waits until the ensemble is well. text says for people what it does.
func (s *stage) undoChange(text string) error {
	last := &s.openFaults[len(s.openFaults)-1]
	last.at = s.noteBroken(last.fault, text)
	at := last.at
	if err := s.target.Repair(s.ctx, last.fault); err != nil {
		return fmt.Errorf("%s: %w", text, err)
	}
	s.openFaults = s.openFaults[:len(s.openFaults)-1]
	if err := s.awaitWell(wellLimit); err != nil {
		return err
	}
	s.noteHealed(at)
	return nil
}

// noteHealed records that the fault at a place has ended, unless that is known.
func (s *stage) noteHealed(at int) {
	if s.faults[at].To >= 0 {
		return
	}
	s.faults[at].To = s.sinceStart()
	s.live.Healed(s.faults[at])
}

// breakFor makes the faults, waits for so many session timeouts, and repairs them.
func (s *stage) breakFor(n float64, faults ...textFault) error {
	for _, f := range faults {
		if err := s.breakMember(f.Fault, f.text); err != nil {
			return err
		}
	}
	if err := s.waitTimeouts(n); err != nil {
		return err
	}
	return s.repairAll()
}

// stopsMajority runs steps that keep a majority from working until they end, and notes that time for the judge.
func (s *stage) stopsMajority(steps func() error) error {
	from := s.sinceStart()
	err := steps()
	s.windows = append(s.windows, judge.Window{Kind: judge.Stopped, From: from, To: s.sinceStart(), Text: "the drill stops a majority"})
	return err
}

// textFault is a fault and what it does, for people.
type textFault struct {
	target.Fault
	text string
}

// awaitWell waits until the ensemble is well, for at most limit.
func (s *stage) awaitWell(limit time.Duration) error { return awaitWell(s.ctx, s.checkHealth, limit) }

// wellInterval is the time between two checks of an ensemble that is not well yet.
const wellInterval = 200 * time.Millisecond

// awaitWell waits until well returns nil twice in a row, for at most limit. Once alone may be a moment between two
// elections.
func awaitWell(ctx context.Context, well func(context.Context) error, limit time.Duration) error {
	ctx, stop := context.WithTimeout(ctx, limit)
	defer stop()
	var last error
	for inRow := 0; ; {
		switch err := well(ctx); {
		case err == nil:
			inRow++
		case ctx.Err() == nil:
			inRow, last = 0, err
		}
		if inRow == 2 {
			return nil
		}
		select {
		case <-time.After(wellInterval):
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
				return fmt.Errorf("the ensemble is not well after %v: %w", limit, last)
			}
			return context.Cause(ctx)
		}
	}
}

// describeMember names a member and what it is: "member 2, the leader".
func (s *stage) describeMember(name string) string {
	if leader, err := s.currentLeader(s.ctx); err == nil && leader == name {
		return "member " + name + ", the leader"
	}
	return "member " + name
}
