package leader

import (
	"context"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"rollcall/proto"
)

// proofs runs the rounds that prove that this leader still leads. A round is a number that is sent
// to every member. It is done when a majority has sent it back: no member does so once it knows of
// a later term. One round runs at a time, and all requests that come meanwhile share the next,
// which begins after each of them came.
type proofs struct {
	majority int

	mu       sync.Mutex
	begun    uint64            // newest round; under way if it is not done
	done     uint64            // newest round that a majority has answered
	next     bool              // a round later than begun is wanted
	answered map[uint32]uint64 // newest round that each member has answered
	changed  chan struct{}     // closed and replaced when done changes
}

func (p *proofs) init(members int) {
	p.majority = members/2 + 1
	p.answered = make(map[uint32]uint64, members)
	p.changed = make(chan struct{})
}

// begin returns the number of a round that has not been sent yet. It reports whether to send it
// now; otherwise it is sent when the round under way is done.
func (p *proofs) begin() (round uint64, now bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.begun == p.done {
		p.begun++
		return p.begun, true
	}
	p.next = true
	return p.begun + 1, false
}

// answer records that member has answered a round, and reports whether that completes the round.
func (p *proofs) answer(member uint32, round uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if round > p.begun || round <= p.answered[member] {
		return false
	}
	p.answered[member] = round
	n := 0
	for _, round := range p.answered {
		if round == p.begun {
			n++
		}
	}
	if p.done == p.begun || n < p.majority {
		return false
	}
	p.done = p.begun
	if p.next {
		p.next = false
		p.begun++
	}
	close(p.changed)
	p.changed = make(chan struct{})
	return true
}

// state returns the newest round, and the newest that is done.
func (p *proofs) state() (begun, done uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.begun, p.done
}

// isDone reports whether round is done, and returns a channel that is closed when that may have
// changed.
func (p *proofs) isDone(round uint64) (done bool, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.done >= round, p.changed
}

// prove begins a round, and returns its number.
func (l *Leader) prove() uint64 {
	round, now := l.proofs.begin()
	if now {
		l.wakeAll()
	}
	return round
}

// Sync implements proto.LeaderServer. It returns an index that is at or above everything committed
// before the call. It returns when it is proved that this leader knew of all that: after a round
// begun since the call. It blocks as long as no majority answers.
func (l *Leader) Sync(ctx context.Context, request *proto.SyncRequest) (*proto.SyncReply, error) {
	if err := l.refuse(request.Nonce); err != nil {
		return nil, err
	}
	l.syncing.Add(1)
	defer l.syncing.Add(-1)
	index := l.cfg.Log.CommitIndex()
	round := l.prove()
	for {
		done, changed := l.proofs.isDone(round)
		if done {
			return &proto.SyncReply{Index: index}, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, status.FromContextError(ctx.Err()).Err()
		case <-l.over:
			return nil, status.Errorf(codes.FailedPrecondition, "leader: term %d ended before its proof", l.cfg.Term)
		}
	}
}
