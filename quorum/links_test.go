package quorum

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Every follower applies an entry at the same instant as its leader, even if no entry follows, and if no client of the
// follower waits for it. This holds from a leader's first entry on, however far apart entries are.
func TestFollowersApplyAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 3)
		e.begin()
		pauses := []time.Duration{0, 300 * time.Microsecond, 900 * time.Microsecond, 2 * time.Millisecond, 70 * time.Millisecond, time.Second}
		for round := range 6 {
			lead := e.leader(1, 2, 3)
			e.wait("a term's first entry", func() bool {
				return e.members[lead].node.Propose(fmt.Append(nil, "term ", round), nil).Error() == nil
			})
			e.appliedWith(lead, fmt.Sprint("term ", round))
			for i := range 60 {
				w := fmt.Sprintf("%d.%d", round, i)
				if err := e.members[lead].node.Propose([]byte(w), [][]uint32{nil, {1}, {2}, {3}, {1, 2}}[i%5]).Error(); err != nil {
					t.Fatal(err)
				}
				e.appliedWith(lead, w)
				time.Sleep(pauses[(i+round)%len(pauses)])
			}
			if round < 3 {
				e.handOver(lead)
				continue
			}
			back := others(lead)[round%2]
			e.kill(back)
			e.start(back)
			e.awaitApplied(e.members[lead].machine.commands(), back) // it is reached
		}
	})
}

// appliedWith fails the test unless all members apply a command at the instant at which the leader did.
func (e *ensemble) appliedWith(lead uint32, command string) {
	e.t.Helper()
	synctest.Wait()
	for _, id := range others(lead) {
		if at := e.members[id].machine.appliedAt(command); !at.Equal(e.members[lead].machine.appliedAt(command)) {
			e.t.Errorf("member %d did not apply %s when its leader did", id, command)
		}
	}
}

func (m *machine) appliedAt(command string) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.at[command]
}

// A follower on a slow link is caught up as fast as the link allows, whether it is far behind or
// usually keeps up. Little is sent twice. With -short, a third of the entries are sent.
func TestSlowLink(t *testing.T) {
	t.Parallel()
	const slowest = 256 << 10 // bytes a second: wire catches up no follower on a slower link
	tests := []struct {
		rate, entries, size int64
	}{
		{rate: 2_500_000, entries: 41, size: 1 << 20},
		{rate: slowest, entries: 40, size: 200 << 10},
		{rate: slowest, entries: 3, size: 8 << 20},
	}
	for _, tt := range tests {
		if testing.Short() {
			tt.entries /= 3
		}
		for _, behind := range []bool{true, false} {
			t.Run(fmt.Sprintf("rate=%d,size=%d,behind=%t", tt.rate, tt.size, behind), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					e := newEnsemble(t, 3)
					e.begin()
					lead := e.leader(1, 2, 3)
					late, other := others(lead)[0], others(lead)[1]
					all := []string{"a"}
					add := func() {
						for i := range tt.entries {
							all = append(all, fmt.Sprint(i, strings.Repeat(".", int(tt.size))))
							e.propose(all[len(all)-1], lead, other)
						}
					}
					if behind {
						e.net.partition(lead, late)
						add()
						e.net.limitRate(lead, late, tt.rate)
						e.net.heal()
					} else {
						time.Sleep(time.Second) // in a pipeline
						e.net.limitRate(lead, late, tt.rate)
						add()
					}
					begin := time.Now()
					least := time.Duration(tt.entries*tt.size) * time.Second / time.Duration(tt.rate)
					e.members[late].await(len(all), 3*least)
					if took := time.Since(begin); took > least*3/2 {
						t.Errorf("caught up in %v, which the link allows in %v", took, least)
					}
					if sent := e.net.bytesSent(lead, late); sent > tt.entries*tt.size*3/2 {
						t.Errorf("sent %d bytes for %d", sent, tt.entries*tt.size)
					}
					e.awaitApplied(all, late)
				})
			})
		}
	}
}

// await waits up to limit until the machine has applied that many commands.
func (m *testMember) await(commands int, limit time.Duration) {
	for end := time.Now().Add(limit); m.machine.count() < commands && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
}

func (m *machine) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.Commands)
}

// atOnce is the time in which a member that listens again must get the entries that it missed. A leader tries a few
// times to reach it meanwhile.
const atOnce = 100 * time.Millisecond

// A member that starts again is caught up at once, however long it was down. raft by itself waits
// up to 10.24 s between two attempts.
func TestReturningMemberIsCaughtUpAtOnce(t *testing.T) {
	t.Parallel()
	for _, away := range []time.Duration{6 * time.Second, 15 * time.Second, 45 * time.Second} {
		t.Run(away.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newEnsemble(t, 3)
				e.begin()
				lead := e.leader(1, 2, 3)
				late, all := others(lead)[0], []string{"a"}
				e.kill(late)
				for end := time.Now().Add(away); time.Now().Before(end); time.Sleep(500 * time.Millisecond) {
					all = append(all, fmt.Sprint(len(all)))
					e.propose(all[len(all)-1], others(late)...)
				}
				begin := time.Now()
				e.start(late)
				e.awaitApplied(all, late)
				if took := time.Since(begin); took > atOnce {
					t.Errorf("caught up %v after it began to listen", took)
				}
			})
		})
	}
}

// Followers are killed and started again in turn, each soon after the other is back. No write waits
// for longer than it takes to reach the one that runs. With -short, the last one to come back was down
// for 12 s instead of 27 s, which is still longer than raft waits between two attempts.
func TestFollowerAfterFollower(t *testing.T) {
	t.Parallel()
	times, least := 6, 8000
	if testing.Short() {
		times, least = 3, 2000
	}
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 3)
		e.begin()
		lead := e.leader(1, 2, 3)
		node, stop := e.members[lead].node, make(chan struct{})
		longest, writes := make(chan time.Duration), 0
		go func() {
			var most time.Duration
			for {
				select {
				case longest <- most:
				case <-stop:
					return
				case <-time.After(10 * time.Millisecond):
					begin := time.Now()
					if err := node.Propose(fmt.Append(nil, "w", writes), nil).Error(); err != nil {
						t.Error(err)
						return
					}
					writes++
					most = max(most, time.Since(begin))
				}
			}
		}()
		rest := others(lead)
		e.kill(rest[0])
		for i := range times {
			back, next := rest[i%2], rest[(i+1)%2]
			time.Sleep(time.Duration(2+5*i) * time.Second)
			e.start(back)
			time.Sleep(2 * atOnce)
			e.kill(next)
		}
		time.Sleep(time.Second)
		if most := <-longest; most > 5*atOnce {
			t.Errorf("a write took %v", most)
		}
		close(stop)
		if writes < least {
			t.Errorf("%d writes only, want at least %d", writes, least)
		}
	})
}

// A member that goes down while it installs a snapshot gets one at once when it is back.
func TestSnapshotForAReturningMember(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 3)
		e.compact()
		e.begin()
		late := others(e.leader(1, 2, 3))[0]
		all := e.outdate(late, 10)
		e.members[late].restores = time.Second
		e.start(late)
		time.Sleep(time.Second / 2)
		e.kill(late)
		time.Sleep(15 * time.Second)
		e.members[late].stores, e.members[late].restores = memStores(), 0
		begin := time.Now()
		e.start(late)
		e.awaitApplied(all, late)
		if took := time.Since(begin); took > atOnce {
			t.Errorf("caught up %v after it began to listen", took)
		}
	})
}

// While leadership is being handed over no request is held. After a hand-over that failed, requests
// are held again.
func TestNoHoldDuringHandOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 3)
		e.begin()
		lead := e.leader(1, 2, 3)
		n, late, other := e.members[lead].node, others(lead)[0], others(lead)[1]
		term := n.status.Term()
		if !n.transfer.isStableLeaderIn(term) || n.transfer.isStableLeaderIn(term-1) {
			t.Error("a leader does not know its term")
		}
		e.net.partition(lead, late)
		e.propose("b", lead, other)
		done := make(chan error, 1)
		go func() { done <- n.transfer.ToMember(t.Context(), late) }()
		synctest.Wait()
		if len(done) != 0 || n.transfer.isStableLeaderIn(term) {
			t.Errorf("requests are held while leadership is handed over (%d hand-overs have ended)", len(done))
		}
		if err := <-done; err == nil {
			t.Error("leadership was handed over to a member that is out of reach")
		}
		if !n.transfer.isStableLeaderIn(term) {
			t.Error("no request is held after a hand-over that has failed")
		}
	})
}
