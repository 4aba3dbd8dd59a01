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
	protobuf "google.golang.org/protobuf/proto"

	"rollcall/proto"
	"rollcall/zk/jute"
	"rollcall/znode"
)

var (
	errNoLeader = errors.New("follower: no leader known in raft's term")
	errNewTerm  = errors.New("follower: a newer term has started")
	errEnded    = errors.New("follower: the leader ended the stream")
)

// term is a TermStart that has been applied. Its ctx ends when a newer one has been applied.
type term struct {
	znode.Term
	reached
	ctx    context.Context // ends with the term
	cancel context.CancelFunc
}

func newTerm(t znode.Term, now time.Time) *term {
	ctx, end := context.WithCancel(context.Background())
	return &term{Term: t, reached: reached{at: now}, ctx: ctx, cancel: end}
}

// isCurrent reports whether t's leader may still lead, as far as raft on this member knows. It may
// not while an old log is replayed, nor during elections.
func (f *Follower) isCurrent(t *term) bool {
	return t.Index > 0 && t.Term.Term >= f.cfg.RaftTerm()
}

// linkLoop keeps a link to the current leader and sends the outbox over it.
func (f *Follower) linkLoop(ctx context.Context) error {
	retry := f.newBackoff()
	report := linkReport{log: f.log, self: f.cfg.Self, patience: f.cfg.Tick}
	for {
		t := f.leadership()
		if f.isCurrent(t) {
			began := time.Now()
			report.begin(t, began)
			err := f.link(ctx, t)
			if ctx.Err() != nil {
				return nil
			}
			lived := time.Since(began) > retry.most
			if lived {
				retry.reset()
			}
			report.ended(lived, err)
		}
		if !retry.wait(ctx, t) {
			return nil
		}
	}
}

// linkReport logs what an operator should know of the links to the leaders, one after another.
type linkReport struct {
	log      *slog.Logger
	self     uint32
	patience time.Duration // how long the links of a new term may fail: its leader may be starting

	term   *term
	since  time.Time // when the first link of the term began, or the last that worked ended
	failed bool      // that links of the term fail has been logged
}

// begin records that a link of t is tried.
func (r *linkReport) begin(t *term, now time.Time) {
	if r.term == t {
		return
	}
	*r = linkReport{log: r.log, self: r.self, patience: r.patience, term: t, since: now}
	if t.Leader != r.self { // otherwise the member logs that it leads
		r.log.Info("the leader is another member", "leader", t.Leader, "term", t.Term.Term)
	}
}

// ended records why a link has ended. lived reports whether it had worked.
func (r *linkReport) ended(lived bool, err error) {
	stepsDown := lived && status.Code(err) == codes.FailedPrecondition
	if lived {
		r.since = time.Now()
	}
	switch {
	case errors.Is(err, errNewTerm) || stepsDown: // the next leader is logged
	case lived:
		r.log.Warn("link to the leader lost", "leader", r.term.Leader, "term", r.term.Term.Term, "err", err)
	case !r.failed && time.Since(r.since) > r.patience:
		r.failed = true
		r.log.Warn("no link to the leader", "leader", r.term.Leader, "term", r.term.Term.Term, "err", err)
	}
}

// link sends to the leader of t, starting with all that is not applied yet, and returns why the
// link ended.
func (f *Follower) link(ctx context.Context, t *term) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer context.AfterFunc(t.ctx, func() { cancel(errNewTerm) })()
	defer cancel(nil)
	leader, err := f.cfg.Leader(ctx, t.Leader)
	if err != nil {
		return fmt.Errorf("follower: reach leader %d: %w", t.Leader, err)
	}
	stream, err := leader.Forward(ctx)
	if err != nil {
		return fmt.Errorf("follower: open a stream to leader %d: %w", t.Leader, err)
	}
	var partners sync.WaitGroup
	partners.Go(func() {
		err := stream.RecvMsg(new(proto.ForwardEnd)) // carries nothing: it only shows that the stream has ended
		cancel(cmp.Or(err, errEnded))
	})
	if t.Leader != f.cfg.Self {
		partners.Go(func() { f.probeLoop(ctx, t) })
	}
	defer partners.Wait()
	defer cancel(nil)
	f.out.rewind()
	return f.send(ctx, stream, t)
}

// send sends what there is, waits for more, and so on until ctx ends.
func (f *Follower) send(ctx context.Context, stream proto.Leader_ForwardClient, t *term) error {
	var told announcement
	var txns []*proto.Txn
	for {
		txns = txns[:0]
		if f.announce(&told) {
			txns = append(txns, told.txn)
		}
		txns = f.out.take(txns, time.Now())
		if len(txns) == 0 {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-f.out.work:
			}
			continue
		}
		err := stream.Send(&proto.Forwarded{Member: f.cfg.Self, Boot: f.cfg.Boot, Nonce: t.Nonce, Txns: txns})
		if errors.Is(err, io.EOF) {
			<-ctx.Done() // the receiving goroutine sets the cause
			return context.Cause(ctx)
		}
		if err != nil {
			return fmt.Errorf("follower: send to leader %d: %w", t.Leader, err)
		}
	}
}

// announcement is the announcement of this boot that a link has sent to the leader.
type announcement struct {
	txn      *proto.Txn // nil: none was sent
	replaces uint64
	list     int64 // version of the list at that time; one from before this member was added again has no effect
}

// announce fills in a and returns true if an announcement must be sent. None is needed once this
// boot has been the member's current one, or if the link has already sent one that replaces the
// present boot, under the present list of servers.
func (f *Follower) announce(a *announcement) bool {
	f.mu.Lock()
	current, wasOurs, list := f.boot, f.wasOurs, f.list
	f.mu.Unlock()
	if wasOurs || a.txn != nil && a.replaces == current && a.list == list {
		return false
	}
	body, err := protobuf.Marshal(&proto.Announce{Replaces: current, Format: znode.FormatLevel})
	if err != nil {
		panic(err) // cannot happen: these are two numbers
	}
	a.replaces, a.list = current, list
	a.txn = &proto.Txn{Member: f.cfg.Self, Boot: f.cfg.Boot, Op: int32(jute.OpAnnounce), Body: body}
	return true
}

// backoff is the time to wait between attempts, which doubles each time. The first retry comes
// soon, because a leader becomes ready a moment after its TermStart. No wait is longer than half a
// tick, so that a leader that comes back is found before leases run out.
type backoff struct{ least, most, next time.Duration }

func (f *Follower) newBackoff() *backoff {
	b := &backoff{least: f.cfg.Tick / 200, most: f.cfg.Tick / 2}
	b.reset()
	return b
}

func (b *backoff) reset() { b.next = b.least }

// wait waits until the next attempt is due. If t ends meanwhile it returns at once, so that the
// next term is tried without delay. It reports false if ctx ended.
func (b *backoff) wait(ctx context.Context, t *term) bool {
	timer := time.NewTimer(b.next)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.ctx.Done():
		b.reset()
	case <-timer.C:
		b.next = min(2*b.next, b.most)
	}
	return true
}
