package clients

import (
	"context"
	"testing"
	"time"

	"rollcall/integration/process"
)

// These are the settings of every ensemble here. Elections begin a quarter of a tick after the
// leader falls silent, so sessions of sessionTimeout outlast them by far.
const (
	tick           = time.Second
	sessionTimeout = 10 * time.Second
	longTimeout    = 20 * time.Second // the longest that members grant: 20 ticks
)

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
		if m.Process.Running() {
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
