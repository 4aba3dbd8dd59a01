// Package rollcalltest runs real servers inside the process of a test, for the tests of applications that use
// ZooKeeper's protocol:
//
//	srv := rollcalltest.Start(t)
//	conn, _, err := zk.Connect([]string{srv.ConnectString()}, 5*time.Second)
//
// A Server is a member of Rollcall like those of `rollcall serve`. Only its disk is in memory, and so is the network
// between the servers of an Ensemble. The end of the test ends it. It starts in milliseconds, so each test can have
// its own, and many tests can run in parallel.
//
// # Clients
//
// By default, clients in any language connect over TCP. With Config.Pipes, clients connect by Dial, over memory, and
// everything works in a testing/synctest bubble: a session that is silent for a minute expires at once.
//
// # Faults
//
//   - Server and Ensemble have Faults, those between clients and servers: lost requests and replies, delays, broken
//     connections, expired sessions. Faults.OnRequest decides on each request.
//   - Server: Kill and Restart, Pause and Resume, SlowDisk.
//   - Ensemble: KillLeader, Partition and Heal.
//
// The super user of all servers is super with the password secret (digest).
package rollcalltest

import (
	"context"
	"testing"
)

// Start starts one server, with the defaults of Config, and ends it when the test ends. It returns when the server
// serves. If it cannot, the test fails at once.
func Start(t testing.TB) *Server {
	t.Helper()
	return StartWith(t, Config{})
}

// StartWith starts one server, as Start does, with a Config.
func StartWith(t testing.TB, cfg Config) *Server {
	t.Helper()
	return StartEnsembleWith(t, 1, cfg).Servers[0]
}

// StartEnsemble starts some servers, 1 to MaxServers, which form an ensemble, with the defaults of Config, and ends
// them when the test ends. It returns when all of them serve. If they cannot, the test fails at once.
func StartEnsemble(t testing.TB, servers int) *Ensemble {
	t.Helper()
	return StartEnsembleWith(t, servers, Config{})
}

// StartEnsembleWith starts an ensemble, as StartEnsemble does, with a Config.
func StartEnsembleWith(t testing.TB, servers int, cfg Config) *Ensemble {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	e, err := New(ctx, servers, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Errorf("rollcalltest: end the servers: %v", err)
		}
	})
	return e
}
