package schedules

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"

	"rollcall/rollcalltest"
)

// virtual are servers inside the test process, in virtual time.
type virtual struct{ *rollcalltest.Ensemble }

// Dial implements servers.
func (v virtual) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return v.Ensemble.Dial(ctx, network, address)
}

// Expire implements servers.
func (v virtual) Expire(session int64, _ []byte) error { return v.ExpireSession(session) }

// Crash implements servers.
func (v virtual) Crash() (restart func() error, err error) {
	s, err := v.KillLeader()
	if err != nil {
		return nil, err
	}
	return s.Restart, nil
}

var errAllPaused = errors.New("no server leads")

// Pause implements servers.
func (v virtual) Pause() (resume func() error, err error) {
	s := v.Servers[rand.IntN(len(v.Servers))]
	if v.Leader() == nil {
		return nil, errAllPaused
	}
	resume = func() error {
		_ = s.Resume() // it may have crashed meanwhile
		return nil
	}
	return resume, s.Pause()
}
