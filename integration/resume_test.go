package integration

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/cluster"
	"rollcall/member"
	"rollcall/zk/jute"
)

// comesBackAtOnce has a client create a node through one member, drop its connection, and resume its session at once
// through another one. It returns an error unless the client is answered with its session.
func comesBackAtOnce(e *cluster.Ensemble, path string, from, to uint32) error {
	c, err := e.Dial(from)
	if err != nil {
		return fmt.Errorf("dial member %d: %w", from, err)
	}
	session, err := c.Open(20 * time.Second)
	if err != nil {
		return fmt.Errorf("open a session on member %d: %w", from, err)
	}
	created, _, err := c.Call(1, jute.OpCreate, &jute.CreateRequest{Path: []byte(path), ACL: jute.OpenACL})
	if err != nil || created.Err != jute.OK {
		return fmt.Errorf("create through member %d: %w, %w", from, created.Err, err)
	}
	_ = c.Close()
	if c, err = e.Dial(to); err != nil {
		return fmt.Errorf("dial member %d: %w", to, err)
	}
	defer func() { _ = c.Close() }()
	resumed, err := c.Resume(session, created.Zxid)
	if err != nil || resumed.SessionID != session.SessionID {
		return fmt.Errorf("resume on member %d what member %d had: session %v, %w", to, from, resumed.SessionID, err)
	}
	return nil
}

// A client that comes back at once through another member is served, although that member has not heard of the
// client's last write yet. Each way to and from the leader takes 5 ms longer for one follower. The ways between
// all members are tried one by one, and then by 1,000 clients at the same time.
func TestClientComesBackBeforeTheCommit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		unlimited := func(cfg *member.Config) { cfg.Limits.MaxClientConns = -1 }
		e := cluster.Start(t, 3, cluster.Options{Tick: 2 * time.Second, Adjust: unlimited})
		leader := e.Ready()
		slow := e.Followers()[0]
		e.Network.DelayBy(leader, slow, 5*time.Millisecond)
		e.Network.DelayBy(slow, leader, 5*time.Millisecond)
		var ways [][2]uint32
		for _, from := range e.IDs() {
			for _, to := range e.IDs() {
				if from != to {
					ways = append(ways, [2]uint32{from, to})
				}
			}
		}
		for i := range 300 {
			way := ways[i%len(ways)]
			if err := comesBackAtOnce(e, fmt.Sprint("/alone-", i), way[0], way[1]); err != nil {
				t.Error(err)
			}
		}
		together := make(chan error)
		for i := range 1000 {
			way := ways[i%len(ways)]
			go func() { together <- comesBackAtOnce(e, fmt.Sprint("/together-", i), way[0], way[1]) }()
		}
		for range 1000 {
			if err := <-together; err != nil {
				t.Error(err)
			}
		}
	})
}
