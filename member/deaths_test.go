package member_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/cluster"
	"rollcall/jute"
	"rollcall/member"
)

// Every member knows how sessions ended: by a close or by silence, since when, and under which
// leader. A member that starts again has this from its log.
func TestDeaths(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tick, timeout = 2 * time.Second, 8 * time.Second
		e := cluster.Start(t, 3, cluster.Options{})
		leader := e.Ready()
		away := e.Followers()[0]
		polite, silent := e.Connect(timeout, leader), e.Connect(timeout, away)
		for _, path := range []string{"/a", "/b"} {
			if _, err := silent.Create(path, nil, jute.Ephemeral); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(10 * tick)
		silent.Abandon()
		abandoned := time.Now()
		e.Wait("the silent one to end", 2*timeout, func() bool { return len(deathsOf(e, leader)) == 1 })
		ended := time.Now()
		if _, err := polite.Do(jute.OpCloseSession, nil); err != nil {
			t.Fatal(err)
		}
		e.Equal()

		if n := e.Member(leader).Tracked(); n != 0 {
			t.Errorf("the leader's table has %d sessions, and none lives", n)
		}
		got := deathsOf(e, leader)
		if len(got) != 2 {
			t.Fatalf("deaths: %+v, want two", got)
		}
		term := raftTerm(e, leader)
		closed, expired := got[0], got[1]
		if closed.Session != polite.Session() || closed.Expired || !closed.Heard.IsZero() || closed.Member != leader || closed.Leader != leader || closed.Term != term {
			t.Errorf("closed by its client: %+v", closed)
		}
		if expired.Session != silent.Session() || !expired.Expired || expired.Ephemerals != 2 || expired.Member != away ||
			expired.Leader != leader || expired.Term != term || expired.Timeout != timeout || expired.Address == "" || expired.Zxid >= closed.Zxid {
			t.Errorf("silent: %+v", expired)
		}
		// It was last heard from at most a third of its timeout before it was abandoned, and the
		// table's step is half a tick.
		if since := abandoned.Sub(expired.Heard); since < -tick/2 || since > timeout/3+tick/2 {
			t.Errorf("heard %v before it was abandoned", since)
		}
		if late := ended.Sub(expired.At); late < 0 || late > tick/2 {
			t.Errorf("it ended %v before that was seen", late)
		}

		e.Kill(away)
		e.Boot(away)
		e.Ready()
		e.Equal()
		for _, id := range e.IDs() {
			if other := deathsOf(e, id); !slices.Equal(other, got) {
				t.Errorf("member %d remembers %+v, want %+v", id, other, got)
			}
		}
	})
}

func deathsOf(e *cluster.Ensemble, id uint32) []member.Death {
	return slices.Collect(e.Member(id).Deaths())
}

// The last ten thousand are remembered, and a listing has none of those that are added meanwhile.
func TestDeathsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := cluster.Start(t, 1, cluster.Options{})
		e.Ready()
		m := e.Member(1)
		next := jute.SessionID(0)
		die := func(n int) {
			for range n {
				m.Dies(next)
				next++
			}
		}
		die(5)
		if got := deathsOf(e, 1); len(got) != 5 || got[0].Session != 4 || got[4].Session != 0 {
			t.Errorf("of five: %+v", got)
		}
		die(24_995)
		want, n := jute.SessionID(24_999), 0
		for one := range m.Deaths() {
			if one.Session != want {
				t.Fatalf("number %d is %d, want %d", n, one.Session, want)
			}
			if want, n = want-1, n+1; n == 3000 {
				die(100)
			}
		}
		if n != 9900 { // the last of them made room
			t.Errorf("%d are listed, want 9900", n)
		}
		for one := range m.Deaths() {
			if one.Session != 25_099 {
				t.Errorf("the newest is %d", one.Session)
			}
			break
		}
	})
}
