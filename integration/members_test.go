package integration

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"rollcall/integration/cluster"
	"rollcall/internal/serverlist"
	"rollcall/member"
	"rollcall/zk/jute"
)

// These schedules change the list of members step by step, at the moments at which that is most dangerous.

// changeable runs a test as ensemble does. Clients may change the list.
func changeable(t *testing.T, run func(t *testing.T, e *cluster.Ensemble, leader, a, b uint32)) {
	t.Helper()
	ensembleWith(t, cluster.Options{Reconfig: true}, run)
}

func leaves(id uint32) serverlist.Change { return serverlist.Change{Leaving: strconv.Itoa(int(id))} }

func comes(e *cluster.Ensemble, id uint32) serverlist.Change {
	return serverlist.Change{Joining: e.ServerLine(id, false)}
}

// mustChange requests a change of the list from a member. The change must be made.
func mustChange(t *testing.T, e *cluster.Ensemble, via uint32, c serverlist.Change) {
	t.Helper()
	if _, err := e.Reconfigure(context.Background(), via, c); err != nil {
		t.Fatalf("%+v: %v", c, err)
	}
}

// votes reports whether a member's configuration has a voter.
func votes(e *cluster.Ensemble, member, voter uint32) bool {
	for _, p := range e.Member(member).RaftConfiguration() {
		if p.ID == voter {
			return !p.Observer
		}
	}
	return false
}

// A member is removed while it leads. It hands over before it leaves, so the others lead on in the next term, and
// their clients notice nothing.
func TestLeaderIsRemoved(t *testing.T) {
	changeable(t, func(t *testing.T, e *cluster.Ensemble, leader, a, b uint32) {
		e.Joined()
		before := term(e, leader).Term
		c := e.Connect(sessionTimeout, a, b)
		if _, err := c.Create("/before", nil, jute.Persistent); err != nil {
			t.Fatal(err)
		}
		mustChange(t, e, leader, leaves(leader))
		e.Follow()
		next := e.Ready()
		if next == leader {
			t.Fatalf("member %d, which was removed, leads", leader)
		}
		if _, err := c.Create("/after", nil, jute.Persistent); err != nil || c.Disconnects() > 0 {
			t.Errorf("a client of another member: %v, %d disconnects", err, c.Disconnects())
		}
		if got := term(e, next).Term; got != before+1 {
			t.Errorf("term %d became %d, want the next one", before, got)
		}
		e.AwaitSilent(leader)
	})
}

// A member is removed while it is cut off, and does not hear of that from raft. When it is back it neither votes nor
// makes another member vote: no term begins because of it. It serves no client, queries the others, and reports that it
// was removed.
func TestRemovedMemberDisturbsNobody(t *testing.T) {
	changeable(t, func(t *testing.T, e *cluster.Ensemble, leader, a, b uint32) {
		e.Joined()
		c := e.Connect(sessionTimeout, a, leader)
		e.Isolate(b)
		mustChange(t, e, leader, leaves(b))
		e.Follow()
		before, voted := term(e, leader).Term, e.Disk(a).Votes(b)
		time.Sleep(10 * tick) // it tries to be elected meanwhile
		e.Rejoin(b)
		for i := range 20 {
			time.Sleep(tick)
			if _, err := c.Create(fmt.Sprint("/", i), nil, jute.Persistent); err != nil {
				t.Fatal(err)
			}
		}
		if got := term(e, e.Leader()).Term; got != before || e.Leader() != leader || c.Disconnects() > 0 {
			t.Errorf("member %d led in term %d, now member %d in term %d; a client saw %d disconnects",
				leader, before, e.Leader(), got, c.Disconnects())
		}
		if got := e.Disk(a).Votes(b); got != voted {
			t.Errorf("member %d has voted for the removed one in term %d", a, got)
		}
		e.AwaitSilent(b)
		e.Wait("the removed member to hear of it", 20*tick, func() bool { return e.Member(b).Health().RemovedVersion != 0 })
	})
}

// A member that has been removed serves its clients until it has seen that. Until then what it hears keeps their
// sessions: a client has its whole timeout from then on to go elsewhere, also the shortest one.
func TestClientOfARemovedMember(t *testing.T) {
	const timeout = 2 * tick
	for phase := range 4 {
		t.Run(fmt.Sprintf("phase=%d", phase), func(t *testing.T) {
			changeable(t, func(t *testing.T, e *cluster.Ensemble, leader, a, b uint32) {
				e.Joined()
				time.Sleep(time.Duration(phase) * tick / 4)
				c, session := e.Open(b, timeout)
				removal := e.Insist(leaves(b), 20*tick, leader)
				heard := time.Now()
				for {
					asked := time.Now()
					if _, _, err := c.Call(int32(jute.XidPing), jute.OpPing, nil); err != nil {
						break
					}
					heard = asked
					time.Sleep(tick / 8)
				}
				if err := removal.Wait(); err != nil || slices.Contains(e.Members(), b) {
					t.Fatalf("the client of member %d was cut off, and its removal: %v", b, err)
				}
				time.Sleep(time.Until(heard.Add(timeout - tick/20)))
				resume(t, e, a, session)
			})
		})
	}
}

// knows reports whether a running member has applied a list with these members.
func knows(e *cluster.Ensemble, id uint32, members ...uint32) bool {
	s := e.Member(id).State()
	s.RLock()
	defer s.RUnlock()
	r, ok := s.ServerList()
	return ok && sameMembers(ids(r.Servers), members)
}

func ids(list serverlist.List) (all []uint32) {
	for _, s := range list {
		all = append(all, s.ID)
	}
	return all
}

// A member is removed, and its id comes back: with an empty disk, and with the old one. It serves as before, and
// gives out no session id again.
func TestIDIsUsedAgain(t *testing.T) {
	for _, disk := range []string{"empty", "old"} {
		t.Run(disk, func(t *testing.T) {
			changeable(t, func(t *testing.T, e *cluster.Ensemble, leader, a, b uint32) {
				e.Joined()
				_, first := e.Open(b, sessionTimeout)
				e.Equal()
				mustChange(t, e, leader, leaves(b))
				e.Follow()
				e.Kill(b)
				if disk == "empty" {
					e.Wipe(b)
				}
				c := e.Connect(sessionTimeout, a)
				if _, err := c.Create("/meanwhile", nil, jute.Persistent); err != nil {
					t.Fatal(err)
				}
				e.Boot(b)
				time.Sleep(3 * tick)
				if e.Member(b).Role() != "" {
					t.Errorf("member %d serves as %s before it was added again", b, e.Member(b).Role())
				}
				mustChange(t, e, leader, comes(e, b))
				e.Follow()
				e.Healed()
				e.Joined()
				_, second := e.Open(b, sessionTimeout)
				if second.SessionID == first.SessionID {
					t.Errorf("session id %v was given out twice", first.SessionID)
				}
				e.Equal()
				if !has(e, b, "/meanwhile") {
					t.Error("a node is missing on the member that came back")
				}
			})
		})
	}
}

// A member is removed and added again while its process runs and has writes under way. Nothing is lost.
func TestRemovedAndAddedAgain(t *testing.T) {
	changeable(t, func(t *testing.T, e *cluster.Ensemble, leader, a, b uint32) {
		e.Joined()
		writers := startWriters(t, e, rand.New(rand.NewPCG(1, 8)), sessions, 60, sessionTimeout, 40*time.Millisecond)
		for range 3 {
			time.Sleep(tick / 4)
			mustChange(t, e, leader, leaves(b))
			mustChange(t, e, leader, comes(e, b))
			e.Follow()
			e.Healed()
		}
		e.Wait("the writers", writersLimit, func() bool { return finished(writers) })
		for _, w := range writers {
			w.check(t)
		}
		e.Equal()
	})
}

// A leader is killed when the list has changed and its configuration has not followed yet. The next leader continues
// with this change, and with the change after it.
func TestTwoChangesAndALeaderLost(t *testing.T) {
	for _, kind := range []string{"add", "remove"} {
		t.Run(kind, func(t *testing.T) {
			changeable(t, func(t *testing.T, e *cluster.Ensemble, leader, a, b uint32) {
				e.Joined()
				e.Add(4)
				e.Boot(4)
				time.Sleep(2 * tick) // it waits for its place in the list
				first, second := comes(e, 4), leaves(b)
				if kind == "remove" {
					first, second = second, first
				}
				done := e.Insist(first, 20*tick, a)
				for slices.Equal(e.Members(), []uint32{1, 2, 3}) {
					time.Sleep(time.Millisecond)
				}
				e.Kill(leader)
				again := e.Insist(second, 20*tick, a)
				time.Sleep(2 * tick)
				e.Boot(leader) // it may be one of two voters
				if err := done.Wait(); err != nil {
					t.Error(err)
				}
				if err := again.Wait(); err != nil {
					t.Error(err)
				}
				e.Follow()
				e.Healed()
				if want := []uint32{leader, a, 4}; !sameMembers(e.Members(), want) {
					t.Errorf("the members are %v, want %v", e.Members(), want)
				}
				e.Equal()
				e.AwaitSilent(b)
			})
		})
	}
}

func sameMembers(a, b []uint32) bool {
	a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	return slices.Equal(a, b)
}

// Every member that a joining one is configured with has been removed. One of them was down when that was done. It has
// heard of the present members since, by asking, and names them also after a restart.
func TestJoinerThatKnowsOnlyRemovedMembers(t *testing.T) {
	changeable(t, func(t *testing.T, e *cluster.Ensemble, leader, a, b uint32) {
		e.Joined()
		e.Add(4)
		e.Add(5)
		e.Isolate(b)
		for _, c := range []serverlist.Change{leaves(b), comes(e, 4), comes(e, 5), leaves(leader)} {
			for _, id := range []uint32{4, 5} {
				if c.Joining == e.ServerLine(id, false) {
					e.Boot(id)
					time.Sleep(2 * tick) // it waits for its place in the list
				}
			}
			mustChange(t, e, leader, c)
			e.Follow()
		}
		e.Kill(leader)
		e.Rejoin(b)
		e.Wait("the removed member to hear of it", 20*tick, func() bool { return e.Member(b).Health().RemovedVersion != 0 })
		time.Sleep(tick) // it stores what it has heard
		e.Kill(b)
		e.Kill(a)
		e.Wipe(a)
		e.Isolate(b)
		e.Network.Heal(a, b)
		e.Boot(b)
		e.Boot(a)
		e.Wait("the member to join those that are left", 60*tick, func() bool { return e.Member(a).Role() == "follower" })
		e.Joined()
		e.Equal()
	})
}

// A member loses its disk, and all others that its server lines name have left and are gone. It cannot find the
// ensemble, but the leader finds it at its address, where it no longer replies to raft.
func TestWipedMemberThatKnowsNobody(t *testing.T) {
	changeable(t, func(t *testing.T, e *cluster.Ensemble, leader, a, b uint32) {
		e.Joined()
		for id, gone := range map[uint32]uint32{4: a, 5: leader} {
			replace(t, e, gone, id)
			e.Kill(gone)
		}
		e.Kill(b)
		e.Wipe(b)
		e.Boot(b)
		e.Wait("the member to come in", 30*tick, func() bool { return e.Member(b).Role() == "follower" && e.Settled() })
		e.Joined()
		e.Equal()
	})
}

// replace lets a member without data take the place of another one in the list, which runs on.
func replace(t *testing.T, e *cluster.Ensemble, gone, id uint32) {
	t.Helper()
	e.Add(id)
	e.Boot(id)
	time.Sleep(2 * tick) // it waits for its place in the list
	for _, c := range []serverlist.Change{comes(e, id), leaves(gone)} {
		mustChange(t, e, e.Leader(), c)
		e.Follow()
		e.Healed()
	}
}

// The others in the server lines of member 1 were replaced. They run again with empty disks, and have heard of the list. Then
// member 1 loses its disk, too. All in its lines say that they have no data, but it hears from them who has: it begins no second
// ensemble.
func TestWipedMemberAmongRemovedOnes(t *testing.T) {
	changeable(t, func(t *testing.T, e *cluster.Ensemble, _, _, _ uint32) {
		e.Joined()
		for id, gone := range map[uint32]uint32{4: 2, 5: 3} {
			replace(t, e, gone, id)
		}
		for _, gone := range []uint32{2, 3} {
			e.Kill(gone)
			e.Wipe(gone)
			e.Boot(gone)
		}
		time.Sleep(2 * tick) // they hear of the list
		e.Kill(1)
		e.Wipe(1)
		e.Boot(1)
		e.Wait("the member to come in", 30*tick, func() bool { return e.Member(1).Role() == "follower" && e.Settled() })
		e.Equal()
	})
}

// A voter has left the list, and votes until one of the new members can take its place. The new members have empty
// disks, and must query it before they join. Its address is in no configuration: the member that they query has it, also
// after a restart.
func TestJoinersAskTheOneThatLeaves(t *testing.T) {
	changeable(t, func(t *testing.T, e *cluster.Ensemble, leader, a, b uint32) {
		e.Joined()
		mustChange(t, e, leader, leaves(a))
		e.Follow()
		e.Kill(a)
		for _, id := range []uint32{4, 5} {
			e.Add(id)
			e.Boot(id)
		}
		time.Sleep(2 * tick) // they wait for their places in the list
		e.BlockLog(leader, 4)
		e.BlockLog(leader, 5)
		mustChange(t, e, leader, serverlist.Change{Leaving: strconv.Itoa(int(b)), Joining: e.ServerLine(4, false) + "," + e.ServerLine(5, false)})
		e.Wait("the list to reach the member that leaves", 5*tick, func() bool { return sameMembers(e.Members(), []uint32{leader, 4, 5}) && knows(e, b, leader, 4, 5) })
		for _, id := range []uint32{leader, 4, 5} {
			e.Kill(id)
			if id != leader {
				e.Wipe(id)
			}
			e.SetServerList(id)
		}
		e.UnblockLog(leader, 4)
		e.UnblockLog(leader, 5)
		e.Follow()
		e.AwaitSilent(b)
		e.Joined()
		e.Equal()
	})
}

// A voter has left the list, and votes until another member can take its place. It lets its clients go meanwhile, since
// nothing that they write through it would be taken.
func TestClientOfAVoterThatLeaves(t *testing.T) {
	changeable(t, func(t *testing.T, e *cluster.Ensemble, leader, a, b uint32) {
		e.Joined()
		e.Add(4)
		e.Boot(4)
		time.Sleep(2 * tick) // it waits for its place in the list
		c := e.Connect(sessionTimeout, b, a)
		for _, id := range []uint32{leader, a} {
			e.BlockLog(id, 4)
		}
		begin := time.Now()
		mustChange(t, e, leader, serverlist.Change{Leaving: strconv.Itoa(int(b)), Joining: e.ServerLine(4, false)})
		for time.Since(begin) < 20*tick {
			_, err := c.Create("/meanwhile", nil, jute.Persistent)
			if err == nil || errors.Is(err, jute.NodeExists) { // the outcome of the first one is not known
				break
			}
		}
		if waited := time.Since(begin); waited > member.RemovedGracePeriod+2*tick {
			t.Errorf("the client waited %v", waited)
		}
		if !votes(e, leader, b) {
			t.Fatal("the member does not vote any more, so this shows nothing")
		}
		if text, serves := e.Member(b).Health().StatusText(); serves || !strings.Contains(text, "votes until another one can take its place") {
			t.Errorf("the member that leaves says %q, serves %t", text, serves)
		}
		for _, id := range []uint32{leader, a} {
			e.UnblockLog(id, 4)
		}
		e.Follow()
		e.AwaitSilent(b)
	})
}

// removedAlone runs a test in which a leader has removed member b in its own configuration, and not in the others',
// which get nothing of its log any more. It tries that at several moments, and at least one must be right.
func removedAlone(t *testing.T, run func(t *testing.T, e *cluster.Ensemble, leader, a, b uint32, removal *cluster.Errand)) {
	t.Helper()
	shown := 0
	for wait := range 12 {
		ensembleWith(t, cluster.Options{Write: 5 * time.Millisecond, Reconfig: true}, func(t *testing.T, e *cluster.Ensemble, leader, a, b uint32) {
			e.Joined()
			removal := e.Insist(leaves(b), 20*tick, leader)
			for len(e.Members()) == 3 {
				time.Sleep(time.Millisecond)
			}
			time.Sleep(time.Duration(wait) * time.Millisecond)
			e.BlockLog(leader, a)
			e.BlockLog(leader, b)
			time.Sleep(20 * time.Millisecond) // for their disks
			if votes(e, leader, b) || !votes(e, a, b) || !votes(e, b, b) {
				return // the change has not begun, or has reached one of the others
			}
			shown++
			run(t, e, leader, a, b, removal)
		})
	}
	if shown == 0 {
		t.Error("the change was always committed, or not begun: this shows nothing")
	}
}

// A leader that has removed a member in its own configuration, but not in the others', is cut off on the ports of the
// log. The others elect one of them with the vote of that member. The old leader completes no sync from then on,
// although the only other voter of its configuration still replies to it.
func TestProofUnderAnUncommittedChange(t *testing.T) {
	removedAlone(t, func(t *testing.T, e *cluster.Ensemble, leader, a, b uint32, removal *cluster.Errand) {
		old := e.Connect(sessionTimeout, leader)
		c := e.Connect(sessionTimeout, a, b)
		if _, err := c.Create("/new", nil, jute.Persistent); err != nil {
			t.Fatal(err)
		}
		answer := old.Go(jute.OpSync, &jute.SyncRequest{Path: []byte("/")})
		read := old.Go(jute.OpExists, &jute.ExistsRequest{Path: []byte("/new")})
		_, synced := answer.Wait()
		if _, err := read.Wait(); synced == nil && errors.Is(err, jute.NoNode) {
			t.Error("a sync was answered by a leader that the others have replaced")
		}
		e.UnblockLog(leader, a)
		e.UnblockLog(leader, b)
		_ = removal.Wait()
		e.Follow()
		e.Healed()
		e.Equal()
	})
}

// A leader has removed a member in its own configuration alone, and is cut off. The others have a new leader, and
// acknowledge a write. One of them loses its disk, and hears of the old leader alone. It does not join on the word of that
// one, although the two are all voters of the old leader's configuration.
func TestJoinerUnderAnUncommittedRemoval(t *testing.T) {
	removedAlone(t, func(t *testing.T, e *cluster.Ensemble, leader, a, b uint32, removal *cluster.Errand) {
		e.Isolate(leader)
		c := e.Connect(sessionTimeout, a, b)
		if _, err := c.Create("/new", nil, jute.Persistent); err != nil {
			t.Fatal(err)
		}
		e.Kill(a)
		e.Wipe(a)
		e.Network.Cut(a, b)
		e.Network.Heal(a, leader)
		e.UnblockLog(leader, a)
		e.Boot(a)
		time.Sleep(20 * tick)
		if role := e.Member(leader).Role(); role != "" || e.Member(a).Role() != "" {
			t.Errorf("the old leader serves as %q, with the vote of a member that has lost its disk", role)
		}
		e.Network.Heal(a, b)
		e.Network.Heal(leader, b)
		e.UnblockLog(leader, b)
		time.Sleep(20 * tick)
		for _, id := range []uint32{leader, a} {
			if role := e.Member(id).Role(); role != "" && !has(e, id, "/new") {
				t.Errorf("member %d serves as %q without an acknowledged node", id, role)
			}
		}
		if !has(e, b, "/new") {
			t.Error("an acknowledged node is missing")
		}
		_ = removal.Wait()
	})
}
