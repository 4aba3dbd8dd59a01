package member

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"rollcall/internal/monotonic"
	"rollcall/quorum"
	"rollcall/server"
)

const (
	// minContactLoss and contactLossHeartbeats limit the time without contact: the larger of both. No ordinary election
	// takes as long: as a rule it takes three heartbeat timeouts, and five if the votes are split.
	minContactLoss        = 2 * time.Second
	contactLossHeartbeats = 6
	// contactChecksPerHeartbeat is the number of checks in a heartbeat timeout. More would notice a cut hardly sooner.
	contactChecksPerHeartbeat = 2
	// cutOffSpread is the time over which the clients' connections are closed.
	cutOffSpread = time.Second
)

// cutOffWatch closes the clients' connections of a member that is cut off from the others, and rejects other clients, so
// that they go to members with a leader while their sessions live. It is safe for concurrent use.
//
// This member has contact if it leads, or if it knows a leader that has received what it has sent lately, or if so many
// of the others are known to be dead that they cannot have a leader without it. With contact, no other member serves its
// clients better. Without, for longer than an election takes, another one may: then it is cut off.
//
// The time since the last contact is counted in checks: a pause of this process counts as one check, however long it is.
// Before the first contact nothing counts. raft replies to heartbeats also while this member's disk hangs.
type cutOffWatch struct {
	clock     monotonic.Clock
	heartbeat time.Duration
	node      *quorum.Node
	server    *server.Server
	isListed  func() bool
	log       *slog.Logger

	missed atomic.Int64 // checks since the last contact
	cutOff atomic.Bool
	begun  atomic.Uint64 // how often this member has been cut off

	lastContact  time.Time   // zero: none yet
	recentChecks []time.Time // that count, the newest last; at most limit of them
	probing      atomic.Bool
	probes       sync.WaitGroup
	closing      sync.WaitGroup
	endClosing   context.CancelFunc
}

func (w *cutOffWatch) interval() time.Duration { return w.heartbeat / contactChecksPerHeartbeat }

// limit is the number of missed checks after which this member is cut off.
func (w *cutOffWatch) limit() int {
	return int((max(minContactLoss, contactLossHeartbeats*w.heartbeat) + w.interval() - 1) / w.interval())
}

// watchLoop checks until ctx ends.
func (w *cutOffWatch) watchLoop(ctx context.Context) error {
	defer w.probes.Wait() // two election timeouts at most
	defer w.stopClosing()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-w.clock.After(w.interval()):
		}
		w.check(ctx)
	}
}

func (w *cutOffWatch) check(ctx context.Context) {
	now, contact := time.Now(), w.node.Reachability().Contact()
	proof := contact.LastProof()
	if proof.IsZero() && w.lastContact.IsZero() {
		return
	}
	if w.recentChecks = append(w.recentChecks, now); len(w.recentChecks) > w.limit() {
		w.recentChecks = w.recentChecks[1:]
	}
	w.missed.Add(1)
	w.noteContact(proof)
	if w.missedRecently() < w.limit()/2 {
		return
	}
	if !contact.OthersMayLead() {
		w.noteContact(now)
		return
	}
	w.startProbes()
	if w.missedRecently() == w.limit() && !w.cutOff.Load() && w.isListed() {
		w.beginCutOff(ctx)
	}
}

// missedRecently returns the number of recent checks since the last contact. The newer ones come last.
func (w *cutOffWatch) missedRecently() int {
	n := 0
	for _, at := range w.recentChecks {
		if at.After(w.lastContact) {
			n++
		}
	}
	return n
}

// startProbes looks for the dead among the others, so that the next checks know them.
func (w *cutOffWatch) startProbes() {
	if w.probing.CompareAndSwap(false, true) {
		w.probes.Go(func() {
			defer w.probing.Store(false)
			w.node.Reachability().Contact().ProbeOthers()
		})
	}
}

func (w *cutOffWatch) beginCutOff(ctx context.Context) {
	w.cutOff.Store(true)
	w.begun.Add(1)
	w.log.Warn("this member is cut off: it has no contact with a leader, which the others may have; it rejects clients and "+
		"closes their connections", "without contact", w.lostFor())
	var closing context.Context
	closing, w.endClosing = context.WithCancel(ctx)
	w.closing.Go(func() {
		if n := w.server.SuspendGradually(closing, cutOffSpread); n > 0 {
			w.log.Info("the connections of clients are closed, because this member is cut off", "count", n)
		}
	})
}

// noteContact records that there was contact at a time. If that is within the limit, a member that was cut off serves again.
func (w *cutOffWatch) noteContact(at time.Time) {
	if !at.After(w.lastContact) {
		return
	}
	lost := w.lostFor()
	w.lastContact = at
	missed := w.missedRecently()
	w.missed.Store(int64(missed))
	if missed == w.limit() || !w.cutOff.Load() {
		return
	}
	w.stopClosing()
	w.cutOff.Store(false)
	w.server.Resume(server.CutOff)
	w.log.Info("this member is no longer cut off, and serves clients again", "leader", w.node.Status().LeaderID(),
		"without contact", lost)
}

// stopClosing ends the closing of connections, and waits for that.
func (w *cutOffWatch) stopClosing() {
	if w.endClosing != nil {
		w.endClosing()
	}
	w.closing.Wait()
}

// lostFor returns for how long this member has had no contact.
func (w *cutOffWatch) lostFor() time.Duration { return time.Duration(w.missed.Load()) * w.interval() }

func (w *cutOffWatch) isCutOff() bool { return w.cutOff.Load() }

// reason returns why this member does not serve, or "" if it is not cut off.
func (w *cutOffWatch) reason() string {
	if !w.isCutOff() {
		return ""
	}
	return fmt.Sprintf("cut off from the others for %v: they may have a leader, which this member does not reach",
		w.lostFor().Round(time.Second))
}
