package quorum

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"rollcall/internal/monotonic"
	"rollcall/quorum/wire"
)

// A pause of this member's own process is no evidence about the others: what they have sent lies unread in its sockets. So
// whoever judges another member's silence waits until this process has read what has come. The argument:
//
//  1. A step of silenceWatch that comes on time shows that what can run does run. Whoever reads a socket can run from the moment
//     at which the process does, so after settledSteps such steps it has read what had come before.
//  2. A late step counts as one step of silence, however long the pause was. So a leader whose silence counts as long as the
//     limit was silent for that time while this member ran.

const (
	// stepsPerHeartbeat divides H into steps: 20 ms by default. A step costs about a microsecond.
	stepsPerHeartbeat = 15
	// minStep bounds the steps of an H that no configuration allows, but tests have.
	minStep = time.Millisecond
	// lateSteps is the length of a step, in steps, from which on it counts as late, and minLateStep the least such length: shorter
	// delays are usual on a busy machine.
	lateSteps   = 3
	minLateStep = 40 * time.Millisecond
	// settledSteps is the number of steps on time after which a pause is over.
	settledSteps = 2
	// maxSettlingSteps limits the steps for which awaitBacklog waits: raft's main loop may wait there, and on a machine on which
	// every step is late it must go on.
	maxSettlingSteps = 4
)

// silenceWatch decides when a follower has heard nothing from its leader for too long. It is the judge in place of raft's own
// timer: raft's heartbeat timeout is longestSilence as long as a leader is heard, and is lowered to leaseTimeout at the moment
// when the silence has lasted. raft then looks at once, and stands for election with a pre-vote.
type silenceWatch struct {
	heartbeat time.Duration // H
	clock     monotonic.Clock
	status    *Status
	transport *wire.Transport
	tolerance *pauseTolerance
	logger    *slog.Logger

	settings *raftSettings // of run
	term     uint64        // of the leader at the last step
	contact  time.Time     // the last one with that leader that raft knew at the last step
	silence  time.Duration // since then, without pauses of this process

	mu          sync.Mutex
	running     bool
	lastStep    time.Time
	stepsOnTime int           // since the last pause, up to settledSteps
	stepTaken   chan struct{} // closed and replaced at each step
}

func (w *silenceWatch) step() time.Duration { return max(minStep, w.heartbeat/stepsPerHeartbeat) }

func (w *silenceWatch) isLate(took time.Duration) bool {
	return took >= max(minLateStep, lateSteps*w.step())
}

// run watches until ctx ends.
func (w *silenceWatch) run(ctx context.Context, settings *raftSettings) {
	w.settings = settings
	w.begin()
	defer w.end()
	wait := w.step()
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.clock.After(wait):
		}
		wait = w.watchLeader(w.takeStep(w.clock.Now()))
	}
}

func (w *silenceWatch) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running, w.stepsOnTime, w.lastStep, w.stepTaken = true, settledSteps, w.clock.Now(), make(chan struct{})
}

func (w *silenceWatch) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running = false
	close(w.stepTaken)
}

// takeStep returns the part of the time since the last step in which this process ran.
func (w *silenceWatch) takeStep(now time.Time) (ran time.Duration) {
	took := w.endStep(now)
	if !w.isLate(took) {
		return took
	}
	w.tolerance.notePause(now, took-w.step())
	return w.step()
}

// endStep ends the present step, and returns how long it took.
func (w *silenceWatch) endStep(now time.Time) (took time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	took, w.lastStep = now.Sub(w.lastStep), now
	if w.isLate(took) {
		w.stepsOnTime = 0
	} else {
		w.stepsOnTime = min(w.stepsOnTime+1, settledSteps)
	}
	close(w.stepTaken)
	w.stepTaken = make(chan struct{})
	return took
}

// awaitBacklog waits after a pause of this process until what had come before has been read. It reports whether there was a
// pause, and returns at once if there was none. It waits for at most maxSettlingSteps steps.
func (w *silenceWatch) awaitBacklog() (paused bool) {
	for range maxSettlingSteps {
		taken := w.nextIfUnsettled()
		if taken == nil {
			return paused
		}
		paused = true
		<-taken
	}
	return paused
}

// isSettled reports whether the last pause of this process was over at the last step.
func (w *silenceWatch) isSettled() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stepsOnTime == settledSteps
}

// nextIfUnsettled returns a channel that is closed at the next step, or nil if this process has not just been paused.
func (w *silenceWatch) nextIfUnsettled() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.running || w.stepsOnTime == settledSteps && !w.isLate(w.clock.Now().Sub(w.lastStep)) {
		return nil
	}
	return w.stepTaken
}

// watchLeader counts the silence of the leader, if this member follows one, and lets raft judge it when it has lasted too long.
// It returns the time until the next step: a moment that is not a whole number of steps after the last heartbeat, so that two
// followers seldom give up at once.
func (w *silenceWatch) watchLeader(ran time.Duration) time.Duration {
	r := w.settings.raft
	if r.State() != raft.Follower || w.status.leaderServer() == "" {
		w.silence = 0
		w.limitSilence(leaseTimeout(w.heartbeat)) // a leader's heartbeats, and elections, go by it
		return w.step()
	}
	w.silence += ran
	if contact := r.LastContact(); !contact.Equal(w.contact) {
		w.endSilence(r.CurrentTerm(), contact, ran)
	}
	left := w.patience() - w.silence
	switch {
	case !w.isSettled():
		left = w.step() // whatever is left: what had come before the pause may not have been read
	case left <= 0 && w.isHeardInMainLoop():
		left = minStep
	}
	if left > 0 {
		w.limitSilence(longestSilence(w.heartbeat))
		return min(w.step(), max(left, minStep))
	}
	w.logger.Debug("the leader is silent", "leader", w.status.LeaderID(), "silence", w.silence)
	w.limitSilence(leaseTimeout(w.heartbeat))
	return w.step()
}

// endSilence notes that the leader was heard during the last step, in which this process ran for a time. If the leader of the
// same term was silent for long before, its process or the network has paused.
func (w *silenceWatch) endSilence(term uint64, contact time.Time, ran time.Duration) {
	if term == w.term {
		w.tolerance.notePause(w.clock.Now(), w.silence-ran)
	}
	w.term, w.contact, w.silence = term, contact, min(ran, time.Since(contact))
}

// patience returns how long a leader may be silent: as long as the pauses that are tolerated, and, on two voters, not the same
// time. Two that give up at once each vote for themselves.
func (w *silenceWatch) patience() time.Duration {
	limit := w.tolerance.at(w.clock.Now()) + heartbeatGap(w.heartbeat)
	if w.silence < limit {
		return limit
	}
	return limit + w.turnDelay()
}

// turnDelay returns the delay of this member's turn to give its leader up. A candidate is elected in the turn in which a
// majority has given up, so that turn comes a sixth of H after the first, with any number of voters.
func (w *silenceWatch) turnDelay() time.Duration {
	voters := memberIDs(voterServers(w.settings.raft))
	turn, _ := standRank(w.status.selfPeer().ID, w.status.LeaderID(), voters, w.settings.raft.CurrentTerm())
	return time.Duration(turn) * (w.heartbeat / 6) / time.Duration(max(1, len(voters)/2))
}

// isHeardInMainLoop reports whether raft's main loop hears the leader before it is judged: heartbeats that were read wait in a
// line for it, and a request of this member's own passes it after them. It also returns true if raft is busy, because then
// nothing was heard and nothing can be judged.
func (w *silenceWatch) isHeardInMainLoop() bool {
	err := w.transport.AwaitMainLoop(w.step())
	w.mu.Lock()
	w.lastStep = w.clock.Now() // waiting was no pause
	w.mu.Unlock()
	return err != nil || !w.settings.raft.LastContact().Equal(w.contact)
}

// limitSilence sets raft's heartbeat timeout, and the election timeout, which must not be shorter. If it becomes shorter, raft's
// follower looks at once whether its leader was heard within that time.
func (w *silenceWatch) limitSilence(limit time.Duration) {
	err := w.settings.change(func(c *raft.ReloadableConfig) { c.HeartbeatTimeout, c.ElectionTimeout = limit, limit })
	if err != nil {
		w.logger.Error("raft takes no other timeouts", "err", err) // cannot happen: both are at least the lease
	}
}
