package leader

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// tenure is the term in which this member leads.
type tenure struct {
	term, nonce uint64
	over        chan struct{} // closed when the term ends
}

// checkNonce returns the error for a message that is meant for another term or that comes after this
// one is over. The sender then looks for the current leader.
func (t *tenure) checkNonce(nonce uint64) error {
	if nonce != t.nonce {
		return status.Errorf(codes.FailedPrecondition, "leader: term %d has another nonce", t.term)
	}
	select {
	case <-t.over:
		return t.errOver()
	default:
		return nil
	}
}

func (t *tenure) errOver() error {
	return status.Errorf(codes.FailedPrecondition, "leader: term %d is over here", t.term)
}
