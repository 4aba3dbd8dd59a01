package wire

import (
	"errors"
	"sync"

	"rollcall/quorum/trust"
)

// proofRejections remembers the members that rejected this member's proof. Such a member soon closes connections before the
// proof, because they come too fast, and the error of those does not say why. It has one entry at most for each member that is
// dialed. It is safe for concurrent use.
type proofRejections struct {
	mu      sync.Mutex
	members map[uint32]error // the error of the rejection
}

func newProofRejections() *proofRejections { return &proofRejections{members: map[uint32]error{}} }

// explain records err, the outcome of a dial to a member, and returns the error that says what is wrong there: err, or that of
// the last rejected proof.
func (p *proofRejections) explain(member uint32, err error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	last, wasRejected := p.members[member]
	switch {
	case errors.Is(err, trust.ErrProofRejected):
		p.members[member] = err
	case errors.Is(err, trust.ErrHandshakeClosed) && wasRejected:
		return last
	case err == nil:
		delete(p.members, member)
	}
	return err
}
