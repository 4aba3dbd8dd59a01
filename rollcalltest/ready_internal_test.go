package rollcalltest

import (
	"testing"
	"testing/synctest"
)

// Servers that are ready serve and have votes, also one that comes back. One that is down is not waited for.
func TestReadyServersVote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, n := range []int{1, 3} {
			e := StartEnsembleWith(t, n, Config{Pipes: true})
			check := func(when string) {
				t.Helper()
				if err := e.AwaitReady(t.Context()); err != nil {
					t.Fatal(err)
				}
				for _, s := range e.Servers {
					if s.runningMember() != nil && (!s.isServing() || !s.hasVote()) {
						t.Errorf("%s: server %d of %d serves: %t, votes: %t", when, s.number, n, s.isServing(), s.hasVote())
					}
				}
			}
			check("at first")
			if n == 1 {
				continue
			}
			if err := e.Servers[0].Kill(); err != nil {
				t.Fatal(err)
			}
			check("without a server")
			if err := e.Servers[0].Restart(); err != nil {
				t.Fatal(err)
			}
			check("with it")
		}
	})
}
