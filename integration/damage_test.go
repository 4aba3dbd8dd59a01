package integration

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/cluster"
	"rollcall/member"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// damageLimit is the longest time until a member that differs has stopped serving, if a majority is up and clients
// write. It is the sum of a mark each second, a reply and a verdict each half tick, and a transfer of leadership.
const damageLimit = 5 * time.Second

// corruptMember corrupts /a on a member, changes the node, and continues to write until that member no longer serves.
func corruptMember(t *testing.T, e *cluster.Ensemble, at uint32, c *cluster.Client, limit time.Duration) {
	t.Helper()
	e.Wait("the member to have the node to damage", time.Minute, func() bool { return znode.CorruptForTest(e.Member(at).State(), "/a") })
	begin := time.Now()
	for e.Member(at).DamageReason() == "" {
		if time.Since(begin) > limit {
			t.Fatalf("member %d, which is damaged, serves after %v", at, limit)
		}
		change(t, c)
	}
	for _, id := range e.IDs() {
		if id != at && e.Running(id) && e.Member(id).DamageReason() != "" {
			t.Errorf("member %d was told that it is damaged: %s", id, e.Member(id).DamageReason())
		}
	}
}

// change changes /a, and lets some time pass.
func change(t *testing.T, c *cluster.Client) {
	t.Helper()
	if _, err := c.Do(jute.OpSetData, &jute.SetDataRequest{Path: []byte("/a"), Data: []byte("b"), Version: -1}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(200 * time.Millisecond)
}

// outOfService checks that a member serves no client any more, and says so.
func outOfService(t *testing.T, e *cluster.Ensemble, id uint32) {
	t.Helper()
	if role := e.Member(id).Role(); role != "" {
		t.Errorf("member %d is damaged and says it is a %s", id, role)
	}
	c, err := e.Dial(id)
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := c.Open(10 * time.Second); err == nil {
		t.Errorf("member %d is damaged and opens session %v", id, resp.SessionID)
	}
	word, err := e.Dial(id)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := word.Write([]byte("srvr")); err != nil {
		t.Fatal(err)
	}
	if answer, err := io.ReadAll(word); err != nil || !strings.Contains(string(answer), "not currently serving") {
		t.Errorf("srvr: %q, %v", answer, err)
	}
}

// A follower whose memory is corrupt stops serving as soon as the damage shows. Its clients move elsewhere with their
// sessions, and the others' clients notice nothing. It still votes and stores entries, but never leads. A restart does
// not help it, but an empty directory does.
func TestDamagedFollower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := cluster.Start(t, 3, cluster.Options{})
		leader := e.Ready()
		e.Joined()
		bad, other := e.Followers()[0], e.Followers()[1]
		c, own := e.Connect(20*time.Second, leader, other), e.Connect(20*time.Second, bad, other)
		for _, path := range []string{"/a", "/b"} {
			if _, err := c.Create(path, []byte("data"), jute.Persistent); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := own.Create("/own", nil, jute.Ephemeral); err != nil {
			t.Fatal(err)
		}
		session := own.Session()
		corruptMember(t, e, bad, c, damageLimit)
		outOfService(t, e, bad)
		if err := own.WaitConnected(10 * time.Second); err != nil || own.Member() != other || own.Session() != session {
			t.Errorf("its client is at %d with session %v, %v; it had %v", own.Member(), own.Session(), err, session)
		}
		if _, err := own.Exists("/own", false); err != nil {
			t.Errorf("its client's ephemeral: %v", err)
		}
		if c.Disconnects() > 0 {
			t.Errorf("%d disconnects of a client of another member", c.Disconnects())
		}

		e.Kill(other) // the damaged one is needed for a majority: it stores
		change(t, c)
		e.Boot(other)
		e.Ready()
		e.Joined()
		e.Kill(leader) // and it votes, for the only one that may lead
		if l := e.Leader(); l != other {
			t.Errorf("member %d leads, want %d", l, other)
		}
		change(t, own)
		e.Boot(leader)
		e.Ready()

		why := e.Member(bad).DamageReason()
		if !strings.Contains(why, "2 of 3 members") {
			t.Errorf("the reason is %q", why)
		}
		e.Kill(bad)
		e.Boot(bad)
		time.Sleep(10 * time.Second)
		if got := e.Member(bad).DamageReason(); got != why {
			t.Errorf("after a restart: %q, before: %q", got, why)
		}
		outOfService(t, e, bad)

		e.Kill(bad)
		e.Wipe(bad)
		e.Boot(bad)
		e.Wait("the member to serve again", time.Minute, func() bool { return e.Member(bad).Role() == "follower" })
		e.Equal()
		change(t, e.Connect(20*time.Second, bad))
	})
}

// A leader whose memory is damaged transfers leadership before it stops. Clients of the others see
// neither a disconnect nor a lost write.
func TestDamagedLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var leaders atomic.Int64
		var spoiled atomic.Pointer[member.Member]
		e := cluster.Start(t, 3, cluster.Options{Events: func(ev member.Event) {
			if ev.Kind == member.EventLeader {
				leaders.Add(1)
				if m := spoiled.Load(); m != nil && m.DamageReason() != "" {
					t.Error("the member stopped before another one led")
				}
			}
		}})
		bad := e.Ready()
		e.Joined()
		spoiled.Store(e.Member(bad))
		rest := e.Followers()
		c, own := e.Connect(20*time.Second, rest...), e.Connect(20*time.Second, bad, rest[0])
		if _, err := c.Create("/a", []byte("data"), jute.Persistent); err != nil {
			t.Fatal(err)
		}
		before := leaders.Load()
		corruptMember(t, e, bad, c, damageLimit)
		if l := e.Leader(); l == bad || leaders.Load() != before+1 {
			t.Errorf("member %d leads, after %d changes", l, leaders.Load()-before)
		}
		outOfService(t, e, bad)
		if c.Disconnects() > 0 {
			t.Errorf("%d disconnects of a client of another member", c.Disconnects())
		}
		if err := own.WaitConnected(10 * time.Second); err != nil || own.Member() != rest[0] {
			t.Errorf("its client is at %d, %v", own.Member(), err)
		}
		for range 20 {
			change(t, c)
		}
	})
}

// Two members differ while the third is away, so no member can confirm the leader's verdict. After the wait for the
// third, the one that does not lead serves no more, but it is not retired: it may be the one that is right. When the
// third is back, a majority decides, and the member is retired for good.
func TestDamageWithoutAMajority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := cluster.Start(t, 3, cluster.Options{})
		leader := e.Ready()
		e.Joined()
		bad, away := e.Followers()[0], e.Followers()[1]
		c := e.Connect(20*time.Second, leader)
		if _, err := c.Create("/a", []byte("data"), jute.Persistent); err != nil {
			t.Fatal(err)
		}
		own := e.Connect(20*time.Second, bad, leader)
		e.Kill(away)
		begin := time.Now()
		const patience = 5 * time.Second // 5 ticks
		e.Wait("the member to have the node to damage", time.Minute, func() bool { return znode.CorruptForTest(e.Member(bad).State(), "/a") })
		for e.Member(bad).Role() != "" {
			if time.Since(begin) > patience+damageLimit {
				t.Fatalf("member %d, which is damaged, serves after %v", bad, time.Since(begin))
			}
			change(t, c)
		}
		if took := time.Since(begin); took < patience {
			t.Errorf("the member stopped after %v, when the third one could still have decided", took)
		}
		outOfService(t, e, bad)
		if err := own.WaitConnected(10 * time.Second); err != nil || own.Member() != leader {
			t.Errorf("its client is at %d, %v", own.Member(), err)
		}
		for range 150 { // half a minute
			change(t, c)
		}
		for _, id := range []uint32{leader, bad} {
			if why := e.Member(id).DamageReason(); why != "" {
				t.Errorf("member %d is retired without a majority: %s", id, why)
			}
		}
		e.Boot(away)
		e.Ready()
		begin = time.Now()
		for e.Member(bad).DamageReason() == "" {
			if time.Since(begin) > damageLimit {
				t.Fatalf("a majority is up, and member %d is not retired after %v", bad, time.Since(begin))
			}
			change(t, c)
		}
		if why := e.Member(bad).DamageReason(); !strings.Contains(why, "2 of 3 members") {
			t.Errorf("the reason is %q", why)
		}
		change(t, e.Connect(20*time.Second, away))
		for _, id := range []uint32{leader, away} {
			if why := e.Member(id).DamageReason(); why != "" || e.Member(id).Role() == "" {
				t.Errorf("member %d does not serve: %q", id, why)
			}
		}
	})
}

// The leader's state is the wrong one, and its verdict against the other of two cannot be confirmed. The
// other serves again as soon as that leader is gone, and nothing that it has is lost.
func TestDisputeEndsWithItsLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := cluster.Start(t, 3, cluster.Options{})
		wrong := e.Ready()
		e.Joined()
		right, away := e.Followers()[0], e.Followers()[1]
		c := e.Connect(20*time.Second, wrong, away)
		if _, err := c.Create("/a", []byte("data"), jute.Persistent); err != nil {
			t.Fatal(err)
		}
		e.Kill(away)
		e.Wait("the leader to have the node to damage", time.Minute, func() bool { return znode.CorruptForTest(e.Member(wrong).State(), "/a") })
		begin := time.Now()
		for e.Member(right).Role() != "" {
			if time.Since(begin) > time.Minute {
				t.Fatal("the member serves, although the leader has another state")
			}
			change(t, c)
		}
		e.Kill(wrong)
		e.Boot(away)
		e.Wait("the member that was right to serve", time.Minute, func() bool { return e.Member(right).Role() != "" })
		change(t, e.Connect(20*time.Second, right))
		if why := e.Member(right).DamageReason(); why != "" {
			t.Errorf("it is retired: %s", why)
		}
	})
}

// Damage to a node that is not written any more is found when a snapshot is written. A member of
// several then stops serving. A single member ends, and starts again with the data on its disk.
func TestDamageFoundBySnapshot(t *testing.T) {
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := cluster.Start(t, n, cluster.Options{Adjust: func(cfg *member.Config) { cfg.SnapCount = 50 }})
				leader := e.Ready()
				bad := e.IDs()[n-1]
				c := e.Connect(20 * time.Second)
				for _, path := range []string{"/a", "/b"} {
					if _, err := c.Create(path, []byte("data"), jute.Persistent); err != nil {
						t.Fatal(err)
					}
				}
				e.Wait("the member to have the node to damage", time.Minute, func() bool { return znode.CorruptForTest(e.Member(bad).State(), "/b") })
				for range 100 {
					if e.Running(bad) {
						change(t, c)
					}
				}
				if n == 1 {
					e.Wait("the member to end", time.Minute, func() bool { return e.Exited(bad) != nil })
					if err := e.Exited(bad); !strings.Contains(err.Error(), znode.ErrDamaged.Error()) {
						t.Errorf("the member ended with %v", err)
					}
					e.Restart()
					e.Ready()
					r, err := c.Do(jute.OpGetData, &jute.GetDataRequest{Path: []byte("/b")})
					var resp jute.GetDataResponse
					if err = errors.Join(err, r.Into(&resp)); err != nil || string(resp.Data) != "data" {
						t.Errorf("/b is %q, %v", resp.Data, err)
					}
					return
				}
				e.Wait("the damage to be found", time.Minute, func() bool { return e.Member(bad).DamageReason() != "" })
				if why := e.Member(bad).DamageReason(); !strings.Contains(why, znode.ErrDamaged.Error()) {
					t.Errorf("the reason is %q", why)
				}
				outOfService(t, e, bad)
				if l := e.Leader(); leader == bad && l == bad {
					t.Error("the member leads")
				}
			})
		})
	}
}
