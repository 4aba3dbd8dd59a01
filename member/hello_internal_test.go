package member

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"rollcall/operator/logs/logtest"
	"rollcall/proto"
	"rollcall/quorum/disk"
	"rollcall/quorum/wire"
)

// askedBy calls Hello on the connection of a process.
func (u *unstarted) askedBy(from peerInfo, start uint64) (*proto.HelloReply, error) {
	ctx := peer.NewContext(u.t.Context(), &peer.Peer{AuthInfo: from})
	return services{m: u.Member}.Hello(ctx, &proto.HelloRequest{Member: from.member, Start: start, Election: "b:3888"})
}

// Two processes with one disk are both refused. A restart and another disk are no second process, and commands have no disk.
func TestHelloNamesTheDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newUnstarted(t, lines(t, serverOne, serverTwo), nil)
		u.ports.hello = wire.NewHello(u.ports.addressBook)
		for _, tt := range []struct {
			name  string
			disk  disk.ID
			start uint64
			twins bool
		}{
			{"a process", 7, 1, false},
			{"its next one", 7, 2, false},
			{"another disk", 8, 3, false},
			{"the first one again", 7, 1, true},
			{"the second one again", 7, 2, true},
			{"the other disk again", 8, 3, false},
			{"a command", 0, 1, false},
			{"another command", 0, 2, false},
			{"the first command again", 0, 1, false},
		} {
			reply, err := u.askedBy(peerInfo{member: 2, disk: tt.disk, remoteAddr: "b:50000"}, tt.start)
			if tt.twins {
				if status.Code(err) != codes.Aborted || !strings.Contains(err.Error(), "runs twice with the disk 0000000000000007") {
					t.Errorf("%s: %v", tt.name, err)
				}
			} else if err != nil || disk.ID(reply.GetDisk()) != u.node.DiskID() || reply.GetDisk() == 0 {
				t.Errorf("%s: %v, %v", tt.name, reply, err)
			}
			time.Sleep(1100 * time.Millisecond)
		}
	})
}

// The caller of a call has the disk that its connection has proved.
func TestCallerHasADisk(t *testing.T) {
	ours, theirs := net.Pipe()
	defer ours.Close()
	defer theirs.Close()
	_, info, err := peerCredentials{}.ServerHandshake(&wire.Conn{Conn: ours, PeerID: 2, PeerDisk: 7})
	if err != nil {
		t.Fatal(err)
	}
	from := callerInfo(peer.NewContext(t.Context(), &peer.Peer{AuthInfo: info}))
	if from.member != 2 || from.disk != 7 || from.remoteAddr != ours.RemoteAddr().String() {
		t.Errorf("the caller is %+v", from)
	}
	if from := callerInfo(t.Context()); from.member != 0 || from.disk != 0 {
		t.Errorf("without a connection, the caller is %+v", from)
	}
}

// A member logs each time that it hears of another process with its number, and once as long as nothing changes.
func TestRivalIsLoggedOnce(t *testing.T) {
	u := newUnstarted(t, lines(t, serverOne, serverTwo), nil)
	u.ports.hello = wire.NewHello(u.ports.addressBook)
	ctx := peer.NewContext(t.Context(), &peer.Peer{AuthInfo: peerInfo{member: 2, disk: 7}})
	for i, said := range []string{"", "two", "two", "three", "", "", "three"} {
		if _, err := (services{m: u.Member}).Hello(ctx, &proto.HelloRequest{Member: 2, Start: 1, Rival: said}); err != nil {
			t.Fatal(err)
		}
		if got, want := strings.Count(u.log.String(), "another process runs with this member's number"), []int{0, 1, 1, 2, 2, 2, 3}[i]; got != want {
			t.Errorf("after %q: %d lines, want %d", said, got, want)
		}
	}
}

// The servers of raft's configuration are told with their disks, both of a member that has two.
func TestConfigurationIsTold(t *testing.T) {
	if got := configurationMessage(nil); got != nil {
		t.Errorf("before raft runs: %v", got)
	}
	got := configurationMessage([]wire.Peer{{ID: 3, DiskID: 7, Addr: "c:3888"}, {ID: 3, DiskID: 8, Addr: "c:3888", Observer: true}}).GetServers()
	if len(got) != 2 || got[0].GetDisk() != 7 || !got[0].GetVoter() || got[1].GetDisk() != 8 || got[1].GetVoter() || got[1].GetMember() != 3 || got[1].GetAddress() != "c:3888" {
		t.Errorf("%v", got)
	}
}

// The error of a call is why its connection was not opened, so that callers can tell the reasons apart. gRPC passes on its text alone.
func TestWhyAConnectionWasNotOpened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fails := error(wire.ErrOtherEnsemble)
		ours, theirs := net.Pipe()
		defer ours.Close()
		defer theirs.Close()
		p := newPeerConns(time.Second, func(context.Context, uint32) (net.Conn, error) {
			if fails != nil {
				return nil, fails
			}
			return &wire.Conn{Conn: ours, PeerID: 2}, nil
		})
		defer p.closeAll()
		c, err := p.followerClient(2)
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Hello(t.Context(), &proto.HelloRequest{})
		if errors.Is(err, wire.ErrOtherEnsemble) || !errors.Is(p.preferDialError(2, err), wire.ErrOtherEnsemble) {
			t.Errorf("%v, explained as %v", err, p.preferDialError(2, err))
		}
		if err := p.preferDialError(2, nil); err != nil {
			t.Errorf("a call that has succeeded: %v", err)
		}
		fails = nil
		if _, err := p.dialPeer(t.Context(), peerRoute{2, 0}); err != nil {
			t.Fatal(err)
		}
		if other := errors.New("other"); p.preferDialError(2, other) != other { //nolint:errorlint // the same one
			t.Errorf("with a connection: %v", p.preferDialError(2, other))
		}
	})
}

// A connection on which no reply to Hello comes within a tick is closed. One whose Hello has failed at once stays.
func TestSilentConnectionIsReplaced(t *testing.T) {
	for _, silent := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			u := newUnstarted(t, lines(t, serverOne, serverTwo), nil)
			ours, theirs := net.Pipe()
			defer ours.Close()
			defer theirs.Close()
			go func() { // until it is closed
				b := make([]byte, 1024)
				for err := error(nil); err == nil; {
					_, err = theirs.Read(b)
				}
				_ = theirs.Close()
			}()
			peers := newPeerConns(time.Second, func(context.Context, uint32) (net.Conn, error) { return &wire.Conn{Conn: ours, PeerID: 2}, nil })
			defer peers.closeAll()
			route := peerRoute{2, 0}
			if !silent {
				if _, err := peers.dialPeer(t.Context(), route); err != nil {
					t.Fatal(err)
				}
				peers.closed = true
			}
			began := time.Now()
			c := &helloClient{
				cfg: &u.cfg, ports: u.helloClient.ports, peers: peers, node: u.node, otherAddress: u.helloClient.otherAddress,
				probes: map[peerRoute]*probe{},
			}
			p := c.startProbe(route)
			if silent && c.startProbe(route) != p {
				t.Error("a second probe begins while the first one is under way")
			}
			<-p.done
			took := map[bool]time.Duration{true: time.Second}[silent]
			if kept := peers.newestConns[route] != nil; p.err == nil || kept == silent || time.Since(began) != took || len(c.probes) > 0 {
				t.Errorf("silent: %t; %v after %v, and the connection is kept: %t", silent, p.err, time.Since(began), kept)
			}
			peers.closed = false
		})
	}
}

// A newcomer has proved nothing, so its Hello changes nothing here. It gets a reply, from which it learns the list.
func TestHelloOfANewcomer(t *testing.T) {
	u := newUnstarted(t, lines(t, serverOne, serverTwo), nil)
	u.ports.hello = wire.NewHello(u.ports.addressBook)
	u.helloClient.lastWords = newLastWords(time.Now)
	for _, isNewcomer := range []bool{true, false} {
		from := peerInfo{member: 9, disk: 7, remoteAddr: "x:50000", isNewcomer: isNewcomer}
		ctx := peer.NewContext(t.Context(), &peer.Peer{AuthInfo: from})
		reply, err := services{m: u.Member}.Hello(ctx, &proto.HelloRequest{Member: 9, Start: 1, Election: "x:3888", LastWords: "bye"})
		if err != nil || reply.GetMember() != u.cfg.ID {
			t.Errorf("a newcomer: %v, %v", reply, err)
		}
		isPresent := len(u.node.Reachability().PresentMembers([]wire.Peer{{ID: 9, Addr: "x:3888"}})) > 0
		if words := u.helloClient.lastWords.describe(9); isPresent == isNewcomer || (words == "") != isNewcomer {
			t.Errorf("a newcomer %t: present %t, last words %q", isNewcomer, isPresent, words)
		}
	}
}

// On a newcomer's connection, no method but Hello is called, also once the list has its number.
func TestNewcomerMayOnlySayHello(t *testing.T) {
	guard := newSenderGuard(slog.New(slog.DiscardHandler), func(uint32) bool { return true }, func(peerInfo) bool { return false })
	ctx := peer.NewContext(t.Context(), &peer.Peer{AuthInfo: peerInfo{member: 9, disk: 7, isNewcomer: true}, Addr: &net.TCPAddr{}})
	for method := range messageSenders {
		err := guard.checkMessage(ctx, method, &proto.HelloRequest{Member: 9})
		if method == proto.Follower_Hello_FullMethodName && err != nil || method != proto.Follower_Hello_FullMethodName && status.Code(err) != codes.PermissionDenied {
			t.Errorf("%s: %v", method, err)
		}
	}
}

// What strangers send under a thousand numbers is logged as seldom as what one member sends.
func TestRejectedStrangersShareTheirLines(t *testing.T) {
	logs := &logtest.Buffer{}
	guard := newSenderGuard(slog.New(slog.NewTextHandler(logs, nil)), func(id uint32) bool { return id == 2 }, func(peerInfo) bool { return false })
	for id := range uint32(1000) {
		ctx := peer.NewContext(t.Context(), &peer.Peer{AuthInfo: peerInfo{member: id, disk: 7}, Addr: &net.TCPAddr{}})
		if err := guard.checkMessage(ctx, proto.Leader_Sync_FullMethodName, &proto.SyncRequest{Member: 1001}); status.Code(err) != codes.PermissionDenied {
			t.Errorf("member %d: %v", id, err)
		}
	}
	if n := strings.Count(logs.String(), "rejected a message"); n != 2 || len(guard.lastLogged) != 2 {
		t.Errorf("%d lines about member 2 and strangers, want 2; %d are remembered", n, len(guard.lastLogged))
	}
}
