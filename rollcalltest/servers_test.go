package rollcalltest_test

import (
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	rollcall "rollcall/client"
	"rollcall/rollcalltest"
)

// The other servers replace a leader that was killed, sessions continue, and the server comes back.
func TestKillLeader(t *testing.T) {
	inBubble(t, 3, rollcalltest.Config{}, func(t *testing.T, e *rollcalltest.Ensemble) {
		c := connect(t, e)
		c.insist("/before")
		killed, err := e.KillLeader()
		must(t, err)
		c.insist("/after")
		if leader := e.Leader(); leader == nil || leader == killed {
			t.Errorf("server %d leads, which was killed", killed.Number())
		}
		if err := killed.Kill(); err == nil {
			t.Error("a server that was down was killed")
		}
		must(t, killed.Restart())
		if err := killed.Restart(); err == nil {
			t.Error("a server that ran was started")
		}
		awaitReady(t, e)
		if again := connect(t, killed); !again.exists("/before") || !again.exists("/after") {
			t.Error("the server has lost a node")
		}
	})
}

// Every server has its vote when a start returns, so the death of any one leaves a majority. Nothing is left of it.
func TestAnyServerMayDieAtOnce(t *testing.T) {
	for range 5 {
		inBubble(t, 3, rollcalltest.Config{}, func(t *testing.T, e *rollcalltest.Ensemble) {
			goroutines := runtime.NumGoroutine()
			_, err := e.KillLeader()
			must(t, err)
			connect(t, e).insist("/a")
			time.Sleep(5 * time.Second)
			if left := runtime.NumGoroutine(); left > goroutines*5/6 {
				t.Errorf("of %d goroutines, %d are left", goroutines, left)
			}
		})
	}
}

// A server that is alone keeps its state and its address through a crash.
func TestKillAndRestart(t *testing.T) {
	inBubble(t, 1, rollcalltest.Config{}, func(t *testing.T, e *rollcalltest.Ensemble) {
		c := connect(t, e)
		must(t, c.create("/kept"))
		must(t, e.Servers[0].Kill())
		await(t, "the client to notice", func() bool { return c.count(rollcall.Suspended) > 0 })
		if _, err := e.Sessions(); err == nil {
			t.Error("a server that is down has sessions")
		}
		if _, err := e.KillLeader(); err == nil {
			t.Error("a leader was killed that there was not")
		}
		must(t, e.Servers[0].Restart())
		if !c.exists("/kept") {
			t.Error("the node is gone, or its session")
		}
	})
}

// A paused server replies to nothing, and continues where it was.
func TestPause(t *testing.T) {
	inBubble(t, 1, rollcalltest.Config{}, func(t *testing.T, e *rollcalltest.Ensemble) {
		c, srv := connect(t, e), e.Servers[0]
		must(t, srv.Pause())
		read := make(chan bool, 1)
		go func() { read <- c.exists("/") }()
		const pause = time.Second
		time.Sleep(pause)
		select {
		case <-read:
			t.Error("a paused server has replied")
		default:
		}
		must(t, srv.Resume())
		if !<-read {
			t.Error("the root is not there")
		}
		if n := c.connects(); n != 1 {
			t.Errorf("the session was connected %d times, want once", n)
		}
	})
}

// A session outlives a pause that is longer than its timeout, and sessions expire again after that.
func TestPauseIsLongerThanTheTimeout(t *testing.T) {
	inBubble(t, 1, rollcalltest.Config{}, func(t *testing.T, e *rollcalltest.Ensemble) {
		c, srv := connect(t, e), e.Servers[0]
		must(t, c.create("/mine"))
		must(t, srv.Pause())
		time.Sleep(4800 * time.Millisecond) // after a third more, the client would give up
		must(t, srv.Resume())
		if !c.exists("/mine") || c.count(rollcall.Expired) > 0 {
			t.Error("the session has expired in the pause")
		}
		c.Abandon()
		time.Sleep(5 * time.Second)
		if connect(t, e).exists("/mine") {
			t.Error("the session has not expired")
		}
	})
}

// A leader that is paused is replaced, and follows when it continues. A session that the others keep survives.
func TestPauseLeader(t *testing.T) {
	inBubble(t, 3, rollcalltest.Config{}, func(t *testing.T, e *rollcalltest.Ensemble) {
		c, paused := connect(t, e), e.Leader()
		must(t, paused.Pause())
		must(t, paused.Pause()) // again
		c.insist("/meanwhile")
		if leader := e.Leader(); leader == nil || leader == paused {
			t.Error("the paused server leads")
		}
		must(t, paused.Resume())
		awaitReady(t, e)
		if !connect(t, paused).exists("/meanwhile") {
			t.Error("the server has not followed")
		}
		if c.count(rollcall.Expired) > 0 {
			t.Error("the session has expired")
		}
	})
}

// A server that is killed while it is paused comes back unpaused.
func TestKillPaused(t *testing.T) {
	inBubble(t, 1, rollcalltest.Config{}, func(t *testing.T, e *rollcalltest.Ensemble) {
		srv := e.Servers[0]
		must(t, srv.Pause())
		must(t, srv.Kill())
		if srv.Pause() == nil || srv.Resume() == nil {
			t.Error("a server that is down was paused, or resumed")
		}
		must(t, srv.Restart())
		connect(t, e)
	})
}

// A leader that reaches no other server is replaced. It serves again when the network is healed.
func TestPartition(t *testing.T) {
	inBubble(t, 3, rollcalltest.Config{}, func(t *testing.T, e *rollcalltest.Ensemble) {
		old := e.Leader()
		others := slices.DeleteFunc(slices.Clone(e.Servers), func(s *rollcalltest.Server) bool { return s == old })
		for _, s := range others {
			must(t, e.Partition(old, s))
		}
		await(t, "another leader", func() bool { return e.Leader() != nil && e.Leader() != old })
		connect(t, others[0]).insist("/beyond")
		for _, s := range others {
			e.Heal(old, s)
		}
		awaitReady(t, e)
		if !connect(t, old).exists("/beyond") {
			t.Error("the server has not followed")
		}
		if e.Partition(old, old) == nil {
			t.Error("a server was parted from itself")
		}
	})
}

// A write takes as long as the disk needs, and no longer than before when that is over.
func TestSlowDisk(t *testing.T) {
	inBubble(t, 1, rollcalltest.Config{}, func(t *testing.T, e *rollcalltest.Ensemble) {
		c, srv := connect(t, e), e.Servers[0]
		const slow = 700 * time.Millisecond
		for _, d := range []time.Duration{slow, 0} {
			srv.SlowDisk(d)
			began := time.Now()
			must(t, c.create("/"+d.String()))
			if took := time.Since(began); took < d || took >= d+slow {
				t.Errorf("with a write of %v, a create took %v", d, took)
			}
		}
	})
}

// New rejects settings that are wrong, and names what is allowed.
func TestConfigIsChecked(t *testing.T) {
	for want, cfg := range map[string]rollcalltest.Config{
		"Port 65536 must be 1 to 65535":          {Port: 65536},
		"Port -1 must be":                        {Port: -1},
		"leave out Port":                         {Port: 2181, Pipes: true},
		"Tick 1ms must be at least 10ms":         {Tick: time.Millisecond},
		"must not be negative":                   {MinSessionTimeout: -1},
		"1m0s is more than MaxSessionTimeout 1s": {MinSessionTimeout: time.Minute, MaxSessionTimeout: time.Second},
	} {
		if _, err := rollcalltest.New(t.Context(), 1, cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", cfg, err, want)
		}
	}
	for _, n := range []int{0, rollcalltest.MaxServers + 1} {
		if _, err := rollcalltest.New(t.Context(), n, rollcalltest.Config{}); err == nil {
			t.Errorf("%d servers were accepted", n)
		}
	}
}

// A server that is killed loses what its disk has not stored yet: a write under way is gone when it restarts.
func TestKillLosesUnsyncedData(t *testing.T) {
	inBubble(t, 1, rollcalltest.Config{}, func(t *testing.T, e *rollcalltest.Ensemble) {
		c, srv := connect(t, e), e.Servers[0]
		must(t, c.create("/stored"))
		srv.SlowDisk(time.Second)
		created := make(chan error, 1)
		go func() { created <- c.create("/under-way") }()
		time.Sleep(100 * time.Millisecond)
		must(t, srv.Kill())
		time.Sleep(3 * time.Second) // the write would have ended
		srv.SlowDisk(0)
		must(t, srv.Restart())
		if err := <-created; err == nil {
			t.Error("a write that was not stored was acknowledged")
		}
		if !c.exists("/stored") || c.exists("/under-way") {
			t.Errorf("stored: %t, under way: %t; want only the first", c.exists("/stored"), c.exists("/under-way"))
		}
	})
}
