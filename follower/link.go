package follower

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"rollcall/proto"
)

var (
	errNoLeader    = errors.New("follower: no leader known in raft's term")
	errNewTerm     = errors.New("follower: a newer term has started")
	errStreamEnded = errors.New("follower: the leader ended the stream")
)

// probesPerTick is the number of probes in a tick, on the connection on which this member forwards. The reply to
// a write is its entry in the log, so only a probe distinguishes a connection that the network has dropped from
// an idle one.
const probesPerTick = 2

// forwarder sends the outbox to the present leader. Make one with newForwarder. One goroutine calls run.
type forwarder struct {
	cfg         *Config
	out         *outbox
	incarnation *incarnation
	leadership  *leadership
	backoff     *backoff
	linkReport  linkReport
}

func newForwarder(cfg *Config, log *slog.Logger, out *outbox, incarnation *incarnation,
	leadership *leadership,
) *forwarder {
	return &forwarder{
		cfg: cfg, out: out, incarnation: incarnation, leadership: leadership,
		backoff: newBackoff(cfg.Tick), linkReport: linkReport{log: log, self: cfg.Self, gracePeriod: cfg.Tick},
	}
}

// run keeps a link to the current leader and sends the outbox over it, until ctx ends.
func (f *forwarder) run(ctx context.Context) error {
	for {
		t := f.leadership.currentTerm()
		if f.leadership.mayStillLead(t) {
			began := time.Now()
			f.linkReport.linkStarted(t, began)
			err := f.runLink(ctx, t)
			if ctx.Err() != nil {
				return nil
			}
			lived := time.Since(began) > f.backoff.maxDelay
			if lived {
				f.backoff.reset()
			}
			f.linkReport.linkEnded(lived, err)
		}
		if !f.backoff.waitForRetry(ctx, t) {
			return nil
		}
	}
}

// linkReport logs changes of the leader, and links that fail.
type linkReport struct {
	log         *slog.Logger
	self        uint32
	gracePeriod time.Duration // of a new term, whose leader may be starting

	term          *term
	lastWorked    time.Time // when the first link of the term began, or the last that worked ended
	failureLogged bool      // in this term
}

func (r *linkReport) linkStarted(t *term, now time.Time) {
	if r.term == t {
		return
	}
	*r = linkReport{log: r.log, self: r.self, gracePeriod: r.gracePeriod, term: t, lastWorked: now}
	if t.Leader != r.self { // otherwise the member logs that it leads
		r.log.Info("the leader is another member", "leader", t.Leader, "term", t.Term.Term, "cause", t.why.String())
	}
}

// linkEnded records the error of a link that has ended. lived reports whether it had worked.
func (r *linkReport) linkEnded(lived bool, err error) {
	stepsDown := lived && status.Code(err) == codes.FailedPrecondition
	if lived {
		r.lastWorked = time.Now()
	}
	switch {
	case errors.Is(err, errNewTerm) || stepsDown: // the next leader is logged
	case lived:
		r.log.Warn("link to the leader lost", "leader", r.term.Leader, "term", r.term.Term.Term, "err", err)
	case !r.failureLogged && time.Since(r.lastWorked) > r.gracePeriod:
		r.failureLogged = true
		r.log.Warn("no link to the leader", "leader", r.term.Leader, "term", r.term.Term.Term, "err", err)
	}
}

// runLink sends to the leader of t until the link ends, which always is an error. It starts with all writes that
// are not applied yet.
func (f *forwarder) runLink(ctx context.Context, t *term) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer context.AfterFunc(t.ctx, func() { cancel(errNewTerm) })()
	defer cancel(nil)
	leader, err := f.cfg.Peers.Leader(ctx, t.Leader)
	if err != nil {
		return fmt.Errorf("follower: reach leader %d: %w", t.Leader, err)
	}
	stream, err := leader.Forward(ctx)
	if err != nil {
		return fmt.Errorf("follower: open a stream to leader %d: %w", t.Leader, err)
	}
	var partners sync.WaitGroup
	partners.Go(func() {
		err := stream.RecvMsg(new(proto.ForwardEnd)) // returns when the stream has ended
		cancel(cmp.Or(err, errStreamEnded))
	})
	if t.Leader != f.cfg.Self {
		partners.Go(func() { cancel(f.probeLoop(ctx, t)) })
	}
	defer partners.Wait()
	defer cancel(nil)
	f.out.resendUnapplied()
	return f.sendOutbox(ctx, stream, t)
}

// sendOutbox sends the outbox until ctx ends.
func (f *forwarder) sendOutbox(ctx context.Context, stream proto.Leader_ForwardClient, t *term) error {
	var announced announcement
	var txns []*proto.Txn
	for {
		txns = txns[:0]
		if f.incarnation.refreshAnnouncement(&announced) {
			txns = append(txns, announced.txn)
		}
		txns = f.out.takeSendable(txns, time.Now())
		if len(txns) == 0 {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-f.out.work:
			}
			continue
		}
		err := stream.Send(&proto.Forwarded{Member: f.cfg.Self, Incarnation: f.cfg.Boot, Nonce: t.Nonce, Txns: txns})
		if errors.Is(err, io.EOF) {
			<-ctx.Done() // the receiving goroutine sets the cause
			return context.Cause(ctx)
		}
		if err != nil {
			return fmt.Errorf("follower: send to leader %d: %w", t.Leader, err)
		}
	}
}

// probeLoop probes the leader of t while a link to it is open, until ctx ends or the link's connection stalls. A
// probe without a reply takes a tick, and the next one begins at once, over a connection that was replaced.
func (f *forwarder) probeLoop(ctx context.Context, t *term) error {
	for ctx.Err() == nil {
		next := time.After(f.cfg.Tick / probesPerTick)
		err := f.cfg.Peers.Probe(ctx, t.Leader)
		if stalled := errors.Is(err, ErrStalled); err == nil || stalled {
			t.markReached(f.cfg.Monotonic.Now())
			if stalled {
				return err
			}
		}
		select {
		case <-ctx.Done():
		case <-next:
		}
	}
	return nil
}

// backoff doubles the delay between attempts. The first delay is short, because a leader becomes ready a
// moment after its TermStart. The longest one is half a tick, so that a leader that comes back is found before
// leases expire.
type backoff struct{ minDelay, maxDelay, nextDelay time.Duration }

func newBackoff(tick time.Duration) *backoff {
	b := &backoff{minDelay: tick / 200, maxDelay: tick / 2}
	b.reset()
	return b
}

func (b *backoff) reset() { b.nextDelay = b.minDelay }

// waitForRetry waits until the next attempt is due. If t ends meanwhile, it returns at once, and the delay of the next
// term starts anew. It returns false if ctx ended.
func (b *backoff) waitForRetry(ctx context.Context, t *term) bool {
	timer := time.NewTimer(b.nextDelay)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.ctx.Done():
		b.reset()
	case <-timer.C:
		b.nextDelay = min(2*b.nextDelay, b.maxDelay)
	}
	return true
}
