package quorum

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"rollcall/quorum/disk"
	"rollcall/quorum/history"
)

// Run starts this member, waits for other members if it must, and runs raft until ctx ends. Then it tries once to
// hand leadership over, stops and returns nil. In all other cases it returns an error. wire.ErrRestart means that
// the member should be started again at once. After ErrNotEnded, only the end of the process releases the stores.
// Run may be called only once.
func (n *Node) Run(ctx context.Context) error {
	if n.started.Swap(true) {
		return errors.New("quorum: Run was called before")
	}
	err := disk.WithAdvice(n.run(ctx), !n.cfg.runsAlone())
	if !errors.Is(err, ErrNotEnded) { // otherwise raft still uses the stores
		err = errors.Join(err, renewDiskIfSpent(n.disk, err), n.Close())
		close(n.leadershipChanges)
	}
	close(n.runEnded)
	n.proposer.failPending()
	return err
}

func (n *Node) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	n.transport.Start()
	start := &bootstrap{
		configuredPeers: n.cfg.Peers, foundByMajority: n.cfg.FoundByMajority, selfJoin: n.cfg.SelfJoin, runsAlone: n.cfg.runsAlone(),
		addressBook: n.cfg.AddressBook, disk: n.disk,
		status: n.status, record: n.record, serverList: n.serverList, hellos: n.hellos, reachability: n.reachability,
		endMember: n.failure.endMember, logger: n.logger,
	}
	if err := start.joinOrFound(ctx); err != nil {
		closed := n.transport.Close()
		if errors.Is(err, ctx.Err()) {
			return closed // stopped while waiting
		}
		return errors.Join(err, closed)
	}
	r, err := n.startRaft()
	if err != nil {
		return err
	}
	n.logger.Info("raft runs", "joining", n.record.copying.Load(), "last", r.LastIndex(), "term", r.CurrentTerm())
	close(n.raftStarted)

	var loops sync.WaitGroup
	settings := &raftSettings{raft: r}
	loops.Go(func() {
		newSnapshotTuner(n.cfg.SnapshotEvery, n.cfg.SnapshotBytes, n.cfg.TrailingBytes).run(ctx, settings, n.disk,
			n.failure.endMember)
	})
	defer keepPast(ctx, n.past, n.logger)()
	if n.status.isOnlyVoter() { // no other voter to wait for
		loops.Go(func() { _ = n.transport.StandForElection(n.electionTimeout) })
	}
	if !n.cfg.runsAlone() {
		loops.Go(func() { start.announceWhileUnknown(ctx, r) })
		loops.Go(func() { n.newMembership(r).run(ctx) })
		loops.Go(func() { n.failureDetector.run(ctx, r) })
		loops.Go(func() { n.silenceWatch.run(ctx, settings) })
	}
	select {
	case <-ctx.Done():
		n.handOverAndDrain()
	case <-n.failure.ended:
	}
	cancel()
	loops.Wait()
	return errors.Join(n.failure.endError(), n.stopRaft(r))
}

// pastEndWait is the longest that a member that ends waits for its Keeper. A disk that hangs must not hold it up.
const pastEndWait = time.Second

// keepPast lets a Keeper, which may be nil, work until ctx ends. The function that it returns waits for that, up to pastEndWait.
func keepPast(ctx context.Context, past *history.Keeper, logger *slog.Logger) (wait func()) {
	if past == nil {
		return func() {}
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		past.Run(ctx)
	}()
	return func() {
		select {
		case <-ended:
		case <-time.After(pastEndWait):
			logger.Warn("history: a file of the past is still being read or written; the end does not wait for it")
		}
	}
}

func (n *Node) newMembership(r *raft.Raft) *membership {
	return &membership{
		raft: r, status: n.status, transport: n.transport, serverList: n.serverList, hellos: n.hellos,
		reachability: n.reachability, transfer: n.transfer, awaitLeaseEnd: ReadLeases{n}.awaitLeaseEnd,
		electionTimeout: n.electionTimeout, logger: n.logger, loggedRivals: map[uint32]string{},
	}
}

func (n *Node) startRaft() (*raft.Raft, error) {
	conf := n.raftConfig()
	newest, err := n.disk.NewestSnapshotIndex() // before raft runs, because raft may receive another snapshot at once
	if err != nil {
		return nil, errors.Join(err, n.transport.Close())
	}
	n.status.logCache = &logCache{LogStore: n.disk.Log(), entryStored: n.cfg.EntryStored}
	r, err := n.newRaft(conf, n.status.logCache)
	if err != nil {
		return nil, errors.Join(err, n.transport.Close())
	}
	n.status.lastAtStart.Store(r.LastIndex())
	n.status.appliedAtStart.Store(min(newest, r.LastIndex()))
	n.status.raft.Store(r)
	n.cfg.AddressBook.SetRaftPeersFunc(n.status.ConfiguredMembers)
	n.cfg.ConfigurationChanged()
	n.metrics.observeElections(r, n.electionTimeout)
	if err := n.checkAllDataFound(r, newest); err != nil {
		return nil, errors.Join(err, n.stopRaft(r))
	}
	if reason := n.disk.NewestSnapshotUnusedReason(); reason != nil {
		n.logger.Error("the newest snapshot cannot be used; the log, with an older snapshot if there is one, has everything",
			"reason", reason)
	}
	return r, nil
}

// handOverAndDrain takes no more entries, hands leadership over and waits for the pending entries.
func (n *Node) handOverAndDrain() {
	n.proposer.rejectNew()
	ctx, cancel := context.WithTimeout(context.Background(), 2*n.electionTimeout)
	defer cancel()
	if err := n.transfer.ToAny(ctx); err != nil {
		n.logger.Info("leadership was not handed over", "err", err)
	}
	n.proposer.waitForPending(ctx)
}

// stopRaft ends raft. It waits at most stopTimeout: a goroutine that hangs in a disk or in the state machine ends
// only with the process.
func (n *Node) stopRaft(r *raft.Raft) error {
	n.fsm.noPauses.Store(true)
	n.emptyStateMachine()
	future := r.Shutdown()
	done := make(chan error, 1)
	go func() {
		closed := n.transport.Close() // first, so that raft does not wait for requests under way
		err := errors.Join(future.Error(), closed)
		n.disk.AwaitQueuedWrites() // raft's appended entries are written before the stores are closed
		done <- err
	}()
	timer := time.NewTimer(stopTimeout)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		return ErrNotEnded
	}
}

// emptyStateMachine lets raft's FSM goroutine fail what it has not applied, instead of waiting for the disk: raft never completes
// the entries that wait for that goroutine when it ends.
func (n *Node) emptyStateMachine() {
	n.disk.Durability().EndWaits()
	n.fsm.roster.Close()
	ctx, cancel := context.WithTimeout(context.Background(), emptyTimeout)
	defer cancel()
	n.proposer.waitForPending(ctx)
}

func (n *Node) newRaft(conf *raft.Config, log raft.LogStore) (r *raft.Raft, err error) {
	defer func() {
		if p := recover(); p != nil { // an unreadable entry
			r, err = nil, n.disk.ExplainStartError(fmt.Errorf("%v", p))
		}
	}()
	r, err = raft.NewRaft(conf, n.fsm, log, n.disk.Stable(), n.disk.Snapshots(), n.transport)
	if err != nil {
		return nil, n.disk.ExplainStartError(err) // its configuration is ours, so the error is about the stored data
	}
	return r, nil
}

// checkAllDataFound checks that raft has found all data, including the newest snapshot.
func (n *Node) checkAllDataFound(r *raft.Raft, newest uint64) error {
	if last := r.LastIndex(); last < newest {
		return n.disk.ExplainStartError(fmt.Errorf("the snapshot of index %d cannot be read, and the readable data end at %d",
			newest, last))
	}
	return nil
}

// ErrNotEnded means that raft still uses the stores after Run.
var ErrNotEnded = errors.New("quorum: raft did not stop in time")
