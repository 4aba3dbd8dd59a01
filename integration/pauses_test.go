package integration

import (
	"testing"
	"testing/synctest"
	"time"

	"rollcall/config"
	"rollcall/integration/cluster"
	"rollcall/member"
)

// pausing runs a test on three members with the default failover.
func pausing(t *testing.T, run func(t *testing.T, e *cluster.Ensemble, seen *terms)) {
	t.Helper()
	opts := cluster.Options{Adjust: func(cfg *member.Config) { cfg.HeartbeatTimeout = config.DefaultHeartbeatTimeout }}
	watched(t, opts, run)
}

// pauseFor pauses members for a time, and then lets them run for long enough to show what they have made of it.
func pauseFor(e *cluster.Ensemble, d time.Duration, members ...uint32) {
	for _, id := range members {
		e.Pause(id)
	}
	time.Sleep(d)
	for _, id := range members {
		e.Resume(id)
	}
	time.Sleep(tick)
}

// A leader that pauses for 257 to 378 ms keeps its place. When it continues, the replies of all members lie unread.
func TestLeaderPausesForAMoment(t *testing.T) {
	pausing(t, func(t *testing.T, e *cluster.Ensemble, seen *terms) {
		lead := e.Leader()
		for d := 378 * time.Millisecond; d >= 257*time.Millisecond; d -= 3 * time.Millisecond { // so that no pause prepares for a longer one
			pauseFor(e, d, lead)
		}
		if n := len(seen.all()); n != 1 || e.Leader() != lead {
			t.Errorf("%d terms, and member %d leads; want the first one, of member %d", n, e.Leader(), lead)
		}
	})
}

// Pauses that become longer widen what is tolerated, up to twice the usual, and the leader's lease does not cost it its
// place although it is shorter than the pause.
func TestLongerPausesAreLearned(t *testing.T) {
	pausing(t, func(t *testing.T, e *cluster.Ensemble, seen *terms) {
		lead := e.Leader()
		for _, d := range []time.Duration{390, 550, 750, 750, 750} {
			pauseFor(e, d*time.Millisecond, lead)
			if n := len(seen.all()); n != 1 {
				t.Fatalf("another leader after a pause of %d ms", d)
			}
		}
		pauseFor(e, 5*time.Second, lead) // no tolerance is that long
		if n := len(seen.all()); n != 2 || e.Leader() == lead {
			t.Errorf("%d terms, and member %d leads after its pause of 5 s", n, e.Leader())
		}
	})
}

// A follower that is paused, for whatever time, hears its leader before it declares it dead. So do two.
func TestPausedFollowerKeepsItsLeader(t *testing.T) {
	pausing(t, func(t *testing.T, e *cluster.Ensemble, seen *terms) {
		start := term(e, e.Leader())
		for _, d := range []time.Duration{300, 500, 700, 900, 1500, 3000, 7000} {
			for _, id := range e.Followers() {
				pauseFor(e, d*time.Millisecond, id)
			}
		}
		pauseFor(e, 380*time.Millisecond, e.Followers()...) // a longer one costs a leader its majority
		if now := term(e, e.Leader()); len(seen.all()) != 1 || now != start {
			t.Errorf("%d leaders, and term %v; want %v", len(seen.all()), now, start)
		}
	})
}

// A machine with all members stands still. When it continues, the leader's process is the last that gets a processor. Nothing has
// happened to it.
func TestAllPauseTogether(t *testing.T) {
	pausing(t, func(t *testing.T, e *cluster.Ensemble, seen *terms) {
		lead := e.Leader()
		for _, d := range []time.Duration{300, 500, 700, 1000, 1500, 5000} {
			last := 200 * time.Millisecond
			if d > 1500 { // raft's own timers have run out
				last = 0
			}
			e.Pause(lead)
			time.AfterFunc(d*time.Millisecond+last, func() { e.Resume(lead) })
			pauseFor(e, d*time.Millisecond, e.Followers()...)
			if n := len(seen.all()); n != 1 {
				t.Fatalf("%d terms after a pause of %d ms, want the first one", n, d)
			}
		}
	})
}

// A leader that is cut off gives up within H and the usual tolerance, although it is not paused and pauses have widened what
// its followers tolerate.
func TestCutOffLeaderStepsDown(t *testing.T) {
	pausing(t, func(t *testing.T, e *cluster.Ensemble, _ *terms) {
		lead := e.Leader()
		for _, d := range []time.Duration{390, 550, 750} {
			pauseFor(e, d*time.Millisecond, lead)
		}
		const limit = config.DefaultHeartbeatTimeout + 200*time.Millisecond
		e.Isolate(lead)
		cut := time.Now()
		e.Wait("the leader to step down", limit+20*time.Millisecond, func() bool { return e.Member(lead).Role() != "leader" })
		if took := time.Since(cut); took < limit/2 {
			t.Errorf("it stepped down %v after it was cut off: something else did that", took)
		}
		e.Rejoin(lead)
		e.Ready()
		e.Equal()
	})
}

// A leader that is cut off teaches the others no patience: the silence before its successor's first heartbeat is not a pause
// that has ended. With five members, some have not given up when another is elected.
func TestReplacementsTeachNoPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const silence = config.DefaultHeartbeatTimeout
		var seen terms
		e := cluster.Start(t, 5, cluster.Options{
			Events: seen.hear, Adjust: func(cfg *member.Config) { cfg.HeartbeatTimeout = silence },
		})
		e.Ready()
		e.Joined()
		for i := range 10 {
			old, n, cut := e.Leader(), len(seen.all()), time.Now()
			e.Isolate(old)
			e.Wait("another leader", 5*silence, func() bool { return len(seen.all()) > n })
			if took := time.Since(cut); took > 8*silence/3 {
				t.Errorf("replacement %d took %v", i+1, took)
			}
			e.Rejoin(old)
			e.Ready()
			time.Sleep(2 * tick)
		}
	})
}
