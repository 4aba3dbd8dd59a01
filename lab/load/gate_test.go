package load

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"
)

// The error of a dial reaches the client, and does not count as a connection.
func TestGateDialFails(t *testing.T) {
	refused := errors.New("refused")
	g := &clientGate{
		dial:       func(context.Context, string, string) (net.Conn, error) { return nil, refused },
		sinceStart: func() time.Duration { return time.Second },
	}
	if conn, err := g.dialConn(t.Context(), "tcp", "a:1"); conn != nil || !errors.Is(err, refused) || g.dialedAt.Load() != 0 {
		t.Errorf("%v, %v; dialed at %d", conn, err, g.dialedAt.Load())
	}
}
