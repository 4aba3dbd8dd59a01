package integration

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/cluster"
	"rollcall/zk/jute"
)

// A follower commits by its copy and the leader's before the leader has heard of its copy. A sync at the third member sees
// what that follower has acknowledged: here the leader hears of the copy a tenth of a second later, and its log does not reach
// the third member at all when the sync begins.
func TestSyncSeesWhatAFollowerCommitted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, leader, follower, third, writer, reader := startWord(t)
		if err := createAckedEarly(e, leader, follower, third, writer); err != nil {
			t.Fatal(err)
		}
		sync := reader.Go(jute.OpSync, &jute.SyncRequest{Path: []byte("/")})
		read := reader.Go(jute.OpExists, &jute.ExistsRequest{Path: []byte("/acknowledged")})
		time.Sleep(leaderHearsAfter / 5)
		e.UnblockLog(leader, third)
		e.Network.DelayBy(follower, leader, 0)
		if reply, err := sync.Wait(); err != nil || reply.Err != jute.OK {
			t.Fatalf("sync: %v, %v", reply.Err, err)
		}
		if reply, err := read.Wait(); err != nil || reply.Err != jute.OK {
			t.Errorf("a node whose create was acknowledged before the sync: %v, %v", reply.Err, err)
		}
	})
}

// leaderHearsAfter is the time that a follower's messages take to the leader in these tests: less than would make it
// stand.
const leaderHearsAfter = 100 * time.Millisecond

func startWord(t *testing.T) (e *cluster.Ensemble, leader, follower, third uint32, writer, reader *cluster.Client) {
	e = cluster.Start(t, 3, cluster.Options{Tick: 2 * time.Second})
	leader = e.Ready()
	follower, third = e.Followers()[0], e.Followers()[1]
	writer, reader = e.Connect(20*time.Second, follower), e.Connect(20*time.Second, third)
	for _, c := range []*cluster.Client{writer, reader} {
		if err := c.WaitConnected(10 * time.Second); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(10 * time.Second) // raft has pipelines, and nothing is under way
	return e, leader, follower, third, writer, reader
}

// createAckedEarly creates a node at a follower. It returns when the follower has acknowledged it, before the leader
// has heard of any copy but its own, and otherwise an error.
func createAckedEarly(e *cluster.Ensemble, leader, follower, third uint32, writer *cluster.Client) error {
	e.BlockLog(leader, third)
	e.Network.DelayBy(follower, leader, leaderHearsAfter)
	begun := time.Now()
	_, err := writer.Create("/acknowledged", nil, jute.Persistent)
	if took := time.Since(begun); took >= 2*leaderHearsAfter && err == nil {
		err = fmt.Errorf("after %v the leader has heard of the follower's copy, so this test shows nothing", took)
	}
	return err
}

// A client that comes to the leader right after a follower has acknowledged its write is served there: the leader waits until it
// has counted the follower's copy, and does not take the client for one of another history.
func TestClientAheadOfTheLeaderWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, leader, follower, third, writer, _ := startWord(t)
		c, err := e.Dial(follower)
		if err != nil {
			t.Fatal(err)
		}
		session, err := c.Open(20 * time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if err := createAckedEarly(e, leader, follower, third, writer); err != nil {
			t.Fatal(err)
		}
		reply, _, err := c.Call(1, jute.OpExists, &jute.ExistsRequest{Path: []byte("/acknowledged")})
		if err != nil || reply.Err != jute.OK {
			t.Fatalf("a read at the follower: %v, %v", reply.Err, err)
		}
		_ = c.Close()
		if c, err = e.Dial(leader); err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if resumed, err := c.Resume(session, reply.Zxid); err != nil || resumed.SessionID != session.SessionID {
			t.Errorf("a client that is ahead of the leader gets the session %v: %v", resumed.SessionID, err)
		}
		e.UnblockLog(leader, third)
	})
}
