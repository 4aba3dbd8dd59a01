package quorum

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"rollcall/quorum/disk"
)

// Run starts this member, waiting for other members where it must, and runs raft until ctx ends.
// Then it tries once to hand leadership over, stops and returns nil. In all other cases it returns
// an error. The error wire.ErrRestart means that the member should be started again at once. After ErrNotEnded, only the
// end of the process releases the stores. Run may be called only once.
func (n *Node) Run(ctx context.Context) error {
	if n.started.Swap(true) {
		return errors.New("quorum: Run was called before")
	}
	err := disk.Explain(n.run(ctx), !n.alone())
	if !errors.Is(err, ErrNotEnded) { // otherwise raft still uses the stores
		err = errors.Join(err, n.Close())
		close(n.leadership)
	}
	close(n.stopped)
	n.proposer.failRest()
	return err
}

func (n *Node) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	n.trans.Start()
	start := &bootstrap{
		peers: n.cfg.Peers, byMajority: n.cfg.NewEnsemble, alone: n.alone(), book: n.cfg.Book, disk: n.disk,
		status: n.status, record: n.record, list: n.list, hellos: n.hellos, reach: n.reach, fail: n.failure.set, logger: n.logger,
	}
	if err := start.begin(ctx); err != nil {
		closed := n.trans.Close()
		if errors.Is(err, ctx.Err()) {
			return closed // told to stop while waiting
		}
		return errors.Join(err, closed)
	}
	r, err := n.startRaft()
	if err != nil {
		return err
	}
	n.logger.Info("raft runs", "joining", n.record.copying.Load(), "last", r.LastIndex(), "term", r.CurrentTerm())
	close(n.ready)

	var loops sync.WaitGroup
	loops.Go(func() {
		newMeter(n.cfg.SnapshotEvery, n.cfg.SnapshotBytes, n.cfg.TrailingBytes).run(ctx, r, n.disk, n.failure.set)
	})
	if !n.alone() {
		if n.status.onlyVoter() { // there is nobody to wait for
			loops.Go(func() { _ = n.trans.Stand(n.election) })
		}
		loops.Go(func() { start.join(ctx, r) })
		loops.Go(func() { n.newMembership(r).run(ctx) })
		loops.Go(func() { n.detector.run(ctx, r) })
	}
	select {
	case <-ctx.Done():
		n.endGracefully()
	case <-n.failure.failed:
	}
	cancel()
	loops.Wait()
	return errors.Join(n.failure.err(), n.stopRaft(r))
}

func (n *Node) newMembership(r *raft.Raft) *membership {
	return &membership{
		raft: r, status: n.status, trans: n.trans, list: n.list, hellos: n.hellos, reach: n.reach, transfer: n.transfer,
		election: n.election, logger: n.logger, rivals: map[uint32]string{},
	}
}

func (n *Node) startRaft() (*raft.Raft, error) {
	conf := n.raftConfig()
	newest, err := n.disk.Newest() // before raft runs, because raft may receive another snapshot at once
	if err != nil {
		return nil, errors.Join(err, n.trans.Close())
	}
	n.status.log = &logCache{LogStore: n.disk.Log()}
	r, err := n.newRaft(conf, n.status.log)
	if err != nil {
		return nil, errors.Join(err, n.trans.Close())
	}
	n.status.raft.Store(r)
	n.cfg.Book.Follow(n.status.Configuration)
	n.cfg.Configured()
	n.metrics.observe(r)
	if err := n.checkStarted(r, newest); err != nil {
		return nil, errors.Join(err, n.stopRaft(r))
	}
	if why := n.disk.Unused(); why != nil {
		n.logger.Error("the newest snapshot cannot be used; the log, with an older snapshot if there is one, has everything", "reason", why)
	}
	return r, nil
}

// endGracefully takes no more entries, hands leadership over and waits for the entries under way.
func (n *Node) endGracefully() {
	n.proposer.close()
	ctx, cancel := context.WithTimeout(context.Background(), 2*n.election)
	defer cancel()
	if err := n.transfer.ToAny(ctx); err != nil {
		n.logger.Info("leadership was not handed over", "err", err)
	}
	n.proposer.wait(ctx)
}

// stopRaft ends raft. It waits at most stopTimeout: a goroutine that hangs in a disk or in the
// state machine ends only with the process.
func (n *Node) stopRaft(r *raft.Raft) error {
	n.fsm.noPauses.Store(true)
	future := r.Shutdown()
	done := make(chan error, 1)
	go func() {
		closed := n.trans.Close() // first, so that raft does not wait for requests under way
		err := errors.Join(future.Error(), closed)
		n.disk.Finish() // what raft has appended is written before the stores are closed
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

// newRaft starts raft on the data in the stores.
func (n *Node) newRaft(conf *raft.Config, log raft.LogStore) (r *raft.Raft, err error) {
	defer func() {
		if p := recover(); p != nil { // an unreadable entry
			r, err = nil, n.disk.Unusable(fmt.Errorf("%v", p))
		}
	}()
	r, err = raft.NewRaft(conf, n.fsm, log, n.disk.Stable(), n.disk.Snapshots(), n.trans)
	if err != nil {
		return nil, n.disk.Unusable(err) // its configuration is ours, so the error is about the stored data
	}
	return r, nil
}

// checkStarted checks that raft found everything that must be there, including the newest snapshot.
func (n *Node) checkStarted(r *raft.Raft, newest uint64) error {
	if last := r.LastIndex(); last < newest {
		return n.disk.Unusable(fmt.Errorf("the snapshot of index %d cannot be read, and the readable data end at %d", newest, last))
	}
	return nil
}

// ErrNotEnded says that raft still uses the stores after Run.
var ErrNotEnded = errors.New("quorum: raft did not stop in time")
