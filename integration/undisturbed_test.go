package integration

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/config"
	"rollcall/integration/cluster"
	"rollcall/zk/jute"
)

// undisturbed starts an ensemble with the times of a member without settings, and connects a client to each member.
func undisturbed(t *testing.T, n int, timeout time.Duration, run func(e *cluster.Ensemble, clients map[uint32]*cluster.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		e := cluster.Start(t, n, cluster.Options{Tick: 3 * time.Second, Adjust: defaults})
		e.Ready()
		e.Joined()
		clients := map[uint32]*cluster.Client{}
		for _, id := range e.IDs() {
			clients[id] = e.Connect(timeout, id)
		}
		run(e, clients)
	})
}

// mustServeReads checks that clients have lost no connection, and can read.
func mustServeReads(t *testing.T, when string, clients map[uint32]*cluster.Client, of ...uint32) {
	t.Helper()
	for _, id := range of {
		if n := clients[id].Disconnects(); n > 0 {
			t.Errorf("%s: the client at member %d has lost %d connections", when, id, n)
		} else if _, err := clients[id].Do(jute.OpExists, &jute.ExistsRequest{Path: []byte("/")}); err != nil {
			t.Errorf("%s: a read at member %d: %v", when, id, err)
		}
	}
}

// Members that know that too many of the others are dead keep their clients and their reads, because no other member could
// serve them better: also one that cannot reach the last of them. They still do when the dead come back.
func TestClientsOfTheLastMembersStay(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		members, killed int
		cut             bool // the others that are left do not reach each other
	}{{3, 2, false}, {5, 3, false}, {5, 3, true}, {3, 1, true}, {2, 1, false}, {2, 0, true}} {
		t.Run(fmt.Sprintf("%d of %d, cut %t", tt.killed, tt.members, tt.cut), func(t *testing.T) {
			undisturbed(t, tt.members, time.Minute, func(e *cluster.Ensemble, clients map[uint32]*cluster.Client) {
				time.Sleep(5 * time.Second)
				dead := append([]uint32{e.Leader()}, e.Followers()...)[:tt.killed]
				left := slices.DeleteFunc(e.IDs(), func(id uint32) bool { return slices.Contains(dead, id) })
				for _, id := range dead {
					e.Kill(id)
				}
				if tt.cut {
					between(e.Network.Hang, left[0], left[1])
				}
				for range 20 {
					time.Sleep(time.Second)
					mustServeReads(t, "while they are dead", clients, left...)
				}
				if tt.cut {
					between(e.Network.EndHang, left[0], left[1])
				}
				for _, id := range dead {
					e.Boot(id)
					time.Sleep(time.Second)
				}
				e.Ready()
				time.Sleep(10 * time.Second)
				mustServeReads(t, "when they are back", clients, left...)
			})
		})
	}
}

// A member that is silent is not known to be dead, even if another one is.
func TestSilenceIsNotDeath(t *testing.T) {
	t.Parallel()
	undisturbed(t, 5, time.Minute, func(e *cluster.Ensemble, clients map[uint32]*cluster.Client) {
		left, dead := e.Followers()[0], e.Followers()[1:3]
		for _, id := range dead {
			e.Kill(id)
		}
		e.Ready()
		others := slices.DeleteFunc(e.Members(), func(id uint32) bool { return id == left || slices.Contains(dead, id) })
		for _, id := range others { // two, and with the dead ones they were a majority
			between(e.Network.Hang, left, id)
		}
		time.Sleep(10 * time.Second)
		mustServeReads(t, "two are dead, and two are silent and no majority", clients, left)
		e.Boot(dead[0])
		for _, id := range others {
			between(e.Network.EndHang, left, id)
		}
		e.Ready()
		mustServeReads(t, "a majority is back", clients, left)
		others = append(others, dead[0])
		for _, id := range others { // three, of which two were silent before
			between(e.Network.Hang, left, id)
		}
		time.Sleep(5 * time.Second)
		if clients[left].Disconnects() == 0 {
			t.Error("the client has kept its connection, although a majority may have a leader")
		}
		for _, id := range others {
			between(e.Network.EndHang, left, id)
		}
	})
}

// Elections, a rolling restart, disks that hang and pauses of a process cost no client of another member its connection, and
// none of the same member that would keep it otherwise.
func TestOrdinaryFaultsDisturbNobody(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(e *cluster.Ensemble, clients map[uint32]*cluster.Client) (disturbed uint32){
		"the leader is killed and comes back": func(e *cluster.Ensemble, _ map[uint32]*cluster.Client) uint32 {
			lead := e.Leader()
			e.Kill(lead)
			time.Sleep(3 * time.Second)
			e.Boot(lead)
			return lead
		},
		"the leader stops and comes back": func(e *cluster.Ensemble, _ map[uint32]*cluster.Client) uint32 {
			lead := e.Leader()
			e.Stop(lead)
			time.Sleep(3 * time.Second)
			e.Boot(lead)
			return lead
		},
		"a follower stops and comes back": func(e *cluster.Ensemble, _ map[uint32]*cluster.Client) uint32 {
			id := e.Followers()[0]
			e.Stop(id)
			time.Sleep(3 * time.Second)
			e.Boot(id)
			return id
		},
		"the leader's process pauses": func(e *cluster.Ensemble, _ map[uint32]*cluster.Client) uint32 {
			id := e.Leader()
			e.Pause(id)
			time.Sleep(8 * time.Second)
			e.Resume(id)
			return 0
		},
		"a follower's process pauses": func(e *cluster.Ensemble, _ map[uint32]*cluster.Client) uint32 {
			id := e.Followers()[0]
			e.Pause(id)
			time.Sleep(8 * time.Second)
			e.Resume(id)
			return 0
		},
		"a follower's disk hangs for a moment": func(e *cluster.Ensemble, clients map[uint32]*cluster.Client) uint32 {
			id := e.Followers()[0]
			e.Disk(id).Stall()
			clients[e.Leader()].Go(jute.OpCreate, &jute.CreateRequest{Path: []byte("/w"), ACL: jute.OpenACL})
			time.Sleep(2900 * time.Millisecond)
			e.Disk(id).Release()
			return 0
		},
		"links take a third of a heartbeat timeout in each direction, and a follower's disk hangs": func(e *cluster.Ensemble, clients map[uint32]*cluster.Client) uint32 {
			for _, a := range e.IDs() {
				for _, b := range e.IDs() {
					if a != b {
						e.Network.DelayBy(a, b, config.DefaultHeartbeatTimeout/3)
					}
				}
			}
			time.Sleep(10 * time.Second)
			lead, id := e.Leader(), e.Followers()[0]
			e.Disk(id).Stall()
			clients[lead].Go(jute.OpCreate, &jute.CreateRequest{Path: []byte("/w"), ACL: jute.OpenACL})
			time.Sleep(2900 * time.Millisecond)
			e.Disk(id).Release()
			return 0
		},
		"the leader is cut off for less than an election": func(e *cluster.Ensemble, _ map[uint32]*cluster.Client) uint32 {
			id := e.Leader()
			e.Isolate(id)
			time.Sleep(1500 * time.Millisecond)
			e.Rejoin(id)
			return 0
		},
	} {
		t.Run(name, func(t *testing.T) {
			undisturbed(t, 3, 30*time.Second, func(e *cluster.Ensemble, clients map[uint32]*cluster.Client) {
				time.Sleep(5 * time.Second)
				disturbed := fault(e, clients)
				e.Ready()
				time.Sleep(5 * time.Second)
				rest := slices.DeleteFunc(e.IDs(), func(id uint32) bool { return id == disturbed })
				mustServeReads(t, name, clients, rest...)
			})
		})
	}
}
