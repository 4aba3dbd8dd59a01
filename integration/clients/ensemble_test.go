package clients

import (
	"context"
	"testing"
	"time"

	"rollcall/lab/process"
)

// These are the settings of every ensemble here. Elections begin 300 ms after the leader falls silent, so sessions of
// sessionTimeout outlast them by far.
const (
	tick           = time.Second
	sessionTimeout = 10 * time.Second
	longTimeout    = 20 * time.Second // the longest that members grant: 20 ticks
)

// noElections is a line for ensembles whose leader must not change: a member that waits for a processor on a busy machine
// is not taken for a dead one.
const noElections = "failover=4000\n"

// fewElections is a line for ensembles whose leader is killed, which the others notice at once. A member that waits for a
// processor for a second is not taken for a dead one. A longer time would make each start take longer.
const fewElections = "failover=2000\n"

// startEnsemble starts size members and waits until they serve.
func startEnsemble(t *testing.T, size int) *process.Ensemble {
	t.Helper()
	return process.StartEnsemble(t, process.Config{Binary: rollcall, Size: size, Tick: tick})
}

// client returns a client of the whole ensemble with which the test itself can check things. It is
// closed with the test.
func client(ctx context.Context, t *testing.T, e *process.Ensemble) *goClient {
	t.Helper()
	var up []string
	for _, m := range e.Members {
		if m.Process.IsRunning() {
			up = append(up, m.Clients)
		}
	}
	c, err := dialGo(ctx, seat{name: "test", hosts: up, moves: true}, sessionTimeout)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}
