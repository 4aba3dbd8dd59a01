package member

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/follower"
	"rollcall/integration/wire"
	quorumwire "rollcall/quorum/wire"
	"rollcall/server"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// A member that was removed while its state was disputed serves nobody when the dispute ends, and a disputed one
// nobody when it is added again.
func TestADisputeEndsWhileUnlisted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own := quorumwire.EnsembleID{1}
		three := lines(t, serverOne, serverTwo, serverThree)
		without := lines(t, serverTwo, serverThree)
		u := newUnstarted(t, three, withData(t, three, own))
		u.ports.addressBook.SetEnsembleID(own)
		list := func(version int64, servers []string) {
			u.serverLists.appliedList.Store(&znode.ServerList{EnsembleID: own, Version: version, Servers: lines(t, servers...)})
		}
		rejects := serveUnstarted(t, u)
		if rejects() {
			t.Fatal("a handshake is rejected at once without a reason: this shows nothing")
		}
		list(1, without.CanonicalLines())
		u.health.recordDispute("2 to 1")
		time.Sleep(u.cfg.Tick / 8) // so the loops of the two parts look at different moments
		for range 8 * disputeTicks {
			time.Sleep(u.cfg.Tick / 4)
			if !rejects() {
				t.Fatalf("a handshake is admitted; disputed %t, unlisted %t", u.health.disputeReason() != "", u.removalWatch.unlistedVersion() != 0)
			}
		}
		if u.health.disputeReason() != "" {
			t.Fatal("the dispute has not ended: this shows nothing")
		}
		u.health.recordDispute("2 to 1")
		list(2, three.CanonicalLines())
		time.Sleep(u.cfg.Tick / 2)
		if !rejects() {
			t.Error("a handshake is admitted at a member that is listed and disputed")
		}
		time.Sleep((disputeTicks + 1) * u.cfg.Tick)
		if rejects() {
			t.Error("a handshake is rejected although nothing keeps the member from serving")
		}
	})
}

// noRaft is the raft of a member that knows no leader.
type noRaft struct{}

func (noRaft) DiskID() uint64            { return 7 }
func (noRaft) Term() uint64              { return 0 }
func (noRaft) Leader() uint32            { return 0 }
func (noRaft) IsJoining() bool           { return false }
func (noRaft) Voters() []uint32          { return nil }
func (noRaft) LastLead(uint64) time.Time { return time.Time{} }

// serveUnstarted runs the server of a member that is not started, and the loops that suspend it. The function that it
// returns reports whether a handshake is rejected at once; otherwise the client waits for a leader.
func serveUnstarted(t *testing.T, u *unstarted) (rejects func() bool) {
	t.Helper()
	var err error
	if u.follower, err = follower.New(follower.Config{
		Self: 1, Boot: 1, Tick: u.cfg.Tick, State: u.state, Clients: connectionCloser{u.Member}, SyncLimit: 1,
		Raft: noRaft{}, Peers: followerPeers{u.Member}, WallClock: time.Now, OnDamage: func(string) {}, OnDivergence: func(string) {},
	}); err != nil {
		t.Fatal(err)
	}
	if u.server, err = server.New(server.Config{Member: u.follower, State: u.state, Tick: u.cfg.Tick}); err != nil {
		t.Fatal(err)
	}
	u.health.server, u.removalWatch.server = u.server, u.server
	l := newLoopback(1)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 3)
	for _, run := range []func(context.Context) error{
		u.health.disputeLoop, u.removalWatch.suspendUnlistedLoop, func(ctx context.Context) error { return u.server.Serve(ctx, l) },
	} {
		go func() { ended <- run(ctx) }()
	}
	t.Cleanup(func() {
		cancel()
		for range cap(ended) {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
	return func() bool {
		c, err := l.dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(time.Millisecond))
		_, err = wire.New(c).Handshake(jute.ConnectRequest{TimeOut: 30000, Passwd: make([]byte, 16)})
		if late, ok := errors.AsType[net.Error](err); ok && late.Timeout() {
			return false
		}
		return errors.Is(err, io.EOF) || errors.Is(err, io.ErrClosedPipe)
	}
}
