package wire

import (
	"errors"
	"fmt"
	"testing"

	"rollcall/quorum/trust"
)

// The error of a closed handshake gives way to the error of a proof that the same member rejected before, until a dial
// succeeds.
func TestProofRejectionsExplain(t *testing.T) {
	rejected, closed, refused := fmt.Errorf("handshake: %w", trust.ErrProofRejected), fmt.Errorf("handshake: %w", trust.ErrHandshakeClosed), errors.New("refused")
	p := newProofRejections()
	for i, tt := range []struct {
		member    uint32
		err, want error
	}{
		{2, closed, closed},
		{2, rejected, rejected},
		{2, closed, rejected},
		{3, closed, closed},
		{2, refused, refused},
		{2, closed, rejected},
		{2, nil, nil},
		{2, closed, closed},
	} {
		if got := p.explain(tt.member, tt.err); !errors.Is(got, tt.want) {
			t.Errorf("step %d: member %d, %v: %v, want %v", i, tt.member, tt.err, got, tt.want)
		}
	}
}
