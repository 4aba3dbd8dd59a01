package member

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"rollcall/proto"
	"rollcall/quorum/wire"
)

// onPort serves polite on a port for members as u does, and returns the address.
func (u *unstarted) onPort(s polite) string {
	u.t.Helper()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		u.t.Fatal(err)
	}
	srv := memberServer(newSenderGuard(u.Member.log, u.ports.addressBook.IsKnown, u.mayBeOutsideEnsemble))
	proto.RegisterFollowerServer(srv, s)
	proto.RegisterLeaderServer(srv, s)
	u.ports.hello = wire.NewHello(u.ports.addressBook)
	l := wire.NewListener(inner, u.ports.hello.AcceptingUnknown(), nil)
	go func() { _ = srv.Serve(l) }() // it ends with Stop
	u.t.Cleanup(srv.Stop)
	return inner.Addr().String()
}

// calls makes calls of every kind, and returns their codes. A connection that is being closed has no code yet.
func calls(t *testing.T, p *peerConns) (found map[string]codes.Code) {
	t.Helper()
	f, _ := p.followerClient(1)
	l, err := p.leaderClient(1)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	each := map[string]func() error{
		"hello":     func() error { _, err := f.Hello(ctx, &proto.HelloRequest{Member: 2}); return err },
		"view":      func() error { _, err := f.View(ctx, &proto.ViewRequest{}); return err },
		"sync":      func() error { _, err := l.Sync(ctx, &proto.SyncRequest{Member: 2}); return err },
		"hand over": func() error { _, err := l.HandOver(ctx, &proto.HandOverRequest{}); return err },
		"ping": func() error {
			stream, err := f.Pings(ctx)
			if err == nil {
				_ = stream.Send(&proto.Ping{Leader: 2}) // Recv says why it failed
				_, err = stream.Recv()
			}
			return err
		},
		"writes": func() error {
			stream, err := l.Forward(ctx)
			if err == nil {
				_ = stream.Send(&proto.Forwarded{Member: 2}) // likewise
				_, err = stream.CloseAndRecv()
			}
			return err
		},
	}
	found = map[string]codes.Code{}
	for name, call := range each {
		err := call()
		for status.Code(err) == codes.Unavailable && ctx.Err() == nil {
			err = call()
		}
		if found[name] = status.Code(err); found[name] == codes.PermissionDenied && !strings.Contains(err.Error(), "has not named the ensemble") {
			t.Errorf("%s: %v", name, err)
		}
	}
	return found
}

// A process whose hello has named no ensemble, or another one than a member has by now, may only ask that member for its ensemble.
// Once it has entered that, it connects anew, and every call is served.
func TestCallsNeedTheEnsemble(t *testing.T) {
	u := newUnstarted(t, lines(t, serverOne, serverTwo), nil)
	addr := u.onPort(polite{reached: make(chan string, 100)})
	book := wire.NewAddressBook(2, raftPeers(u.cfg.Servers))
	book.SetDiskID(7)
	p := newPeerConns(time.Second, func(ctx context.Context, id uint32) (net.Conn, error) {
		return wire.NewHello(book).Dial(ctx, wire.DialTCP, addr, id)
	})
	defer p.closeAll()
	book.OnEnsembleSet(p.discardAllConns)
	check := func(when string, rest codes.Code) {
		t.Helper()
		for name, code := range calls(t, p) {
			want := rest
			if name == "hello" {
				want = codes.OK
			}
			if code != want {
				t.Errorf("%s: %s is answered with %v, want %v", when, name, code, want)
			}
		}
	}
	own := wire.EnsembleID{1}
	check("neither has an ensemble", codes.OK)
	u.ports.addressBook.SetEnsembleID(own)
	check("the caller has none", codes.PermissionDenied)
	book.SetEnsembleID(own)
	check("both have the same", codes.OK)
	u.ports.addressBook.SetEnsembleID(wire.EnsembleID{})
	book.SetEnsembleID(wire.EnsembleID{2})
	check("the member that is called has none", codes.OK)
	u.ports.addressBook.SetEnsembleID(own)
	check("the caller has another one", codes.PermissionDenied)
}
