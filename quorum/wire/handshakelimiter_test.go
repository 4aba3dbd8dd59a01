package wire

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// begun returns the number of handshakes with addr, out of n, that may begin now.
func begun(d *HandshakeLimiter, addr string, n int) (passed int) {
	for range n {
		if d.takeToken(netip.MustParseAddr(addr)) == nil {
			passed++
		}
	}
	return passed
}

// Each address of a member has a bucket of its own, each source of strangers has one, and all strangers
// share one. An IPv6 network is one source.
func TestHandshakeRates(t *testing.T) {
	peers := []Peer{{ID: 1, Addr: "10.0.0.1:1"}, {ID: 2, Addr: "10.0.0.2:1"}, {ID: 3, Addr: "[fd00::3]:1"}}
	for _, tt := range []struct {
		name        string
		addrs       []string
		first, soon int // how many of 1,000 handshakes with each, taken by turns, begin at once, and how many after a second
	}{
		{"member", []string{"10.0.0.2"}, 200, 100},
		{"two members", []string{"10.0.0.2", "fd00::3"}, 400, 200},
		{"stranger", []string{"10.0.0.9"}, 20, 5},
		{"neighbor of a member", []string{"fd00::4"}, 20, 5},
		{"two strangers", []string{"10.0.0.9", "10.0.0.10"}, 40, 10},
		{"one network of IPv6", []string{"fd01::1", "fd01::2", "fd01::3"}, 20, 5},
		{"two networks of IPv6", []string{"fd01::1", "fd01:0:0:1::1"}, 40, 10},
		{"many strangers", strings.Fields("10.1.0.1 10.1.0.2 10.1.0.3 10.1.0.4 10.1.0.5 10.1.0.6 10.1.0.7"), 64, 20},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newHandshakeLimiter(testBook(1, peers))
				turn := func() (n int) {
					for range 1000 {
						for _, addr := range tt.addrs {
							n += begun(d, addr, 1)
						}
					}
					return n
				}
				first := turn()
				time.Sleep(time.Second)
				if soon := turn(); first != tt.first || soon != tt.soon {
					t.Errorf("%d begin at once and %d after a second, want %d and %d", first, soon, tt.first, tt.soon)
				}
			})
		})
	}
}

// However many strangers come, and however long, an address that is known to be a member's has its
// handshakes: one in the server list, the last ones from which a member has said hello, and those that
// stand for a name in the list.
func TestStrangersEmptyNoMembersBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newHandshakeLimiter(testBook(1, []Peer{{ID: 1, Addr: "m1:1"}, {ID: 2, Addr: "10.0.0.2:1"}, {ID: 3, Addr: "m3:1"}, {ID: 4, Addr: "m4:1"}}))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var asked atomic.Bool
		go func() {
			_ = d.RunLookups(ctx, func(_ context.Context, host string) ([]netip.Addr, error) {
				if host == "m4" && !asked.Swap(true) { // the first time alone
					return []netip.Addr{netip.MustParseAddr("::ffff:10.0.0.4")}, nil
				}
				return nil, errors.New("no such host")
			})
		}()
		for _, from := range []string{"10.0.0.31", "10.0.0.32", "10.0.0.33", "10.0.0.32"} {
			d.learnAddress(3, netip.MustParseAddr(from))
		}
		if n := begun(d, "10.0.0.4", sourceRate.burst+1); n != sourceRate.burst {
			t.Errorf("%d handshakes with an address that is not known yet, want %d", n, sourceRate.burst)
		}
		for minute := range 60 {
			for i := range 3 * maxSources {
				begun(d, fmt.Sprintf("10.1.%d.%d", i/256, i%256), 2)
			}
			synctest.Wait()
			for addr, want := range map[string]int{"10.0.0.2": 50, "10.0.0.32": 50, "10.0.0.33": 50, "10.0.0.4": 50, "10.0.0.31": 0} {
				if n := begun(d, addr, 50); n != want {
					t.Fatalf("minute %d: %d handshakes with %s, want %d", minute, n, addr, want)
				}
			}
			time.Sleep(time.Minute)
		}
		if refused := d.Rejections(); refused["members"] != 0 || refused["others"] == 0 {
			t.Errorf("refused: %v", refused)
		}
	})
}

// An address that a member has left is a stranger's, even if it has used up its share as a member. Its rejections count
// as strangers' rejections, and names are resolved, because it may be a member with a new address.
func TestAddressThatAMemberHasLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newHandshakeLimiter(testBook(1, []Peer{{ID: 1, Addr: "10.0.0.1:1"}, {ID: 2, Addr: "10.0.0.2:1"}}))
		begun(d, "10.0.0.2", memberRate.burst)
		d.setServerList([]Peer{{ID: 1, Addr: "10.0.0.1:1"}, {ID: 2, Addr: "10.0.0.3:1"}})
		if n := begun(d, "10.0.0.2", sourceRate.burst+1); n != sourceRate.burst {
			t.Errorf("%d handshakes, want %d", n, sourceRate.burst)
		}
		if refused := d.Rejections(); refused["members"] != 0 || refused["others"] != 1 || len(d.lookupWanted) != 1 {
			t.Errorf("refused: %v; names are to be looked up: %t", refused, len(d.lookupWanted) == 1)
		}
	})
}

// Names are resolved only while strangers are rejected, and not more often than lookupInterval allows.
func TestNamesAreLookedUpWhenNeeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newHandshakeLimiter(testBook(1, []Peer{{ID: 1, Addr: "m1:1"}, {ID: 2, Addr: "m1:2"}, {ID: 3, Addr: "10.0.0.3:1"}}))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var asked []string
		go func() {
			_ = d.RunLookups(ctx, func(ctx context.Context, host string) ([]netip.Addr, error) {
				asked = append(asked, host)
				if len(asked) == 2 {
					<-ctx.Done() // a resolver that does not answer
				}
				return make([]netip.Addr, 10*maxAddrsPerName), ctx.Err()
			})
		}()
		begun(d, "10.0.0.3", 1000)
		begun(d, "10.0.0.9", sourceRate.burst)
		time.Sleep(time.Hour)
		if len(asked) > 0 {
			t.Errorf("asked for %q although no stranger is refused", asked)
		}
		for range int(10 * lookupInterval / time.Second) {
			begun(d, "10.0.0.9", 2*sourceRate.burst)
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if want := slices.Repeat([]string{"m1"}, 10); !slices.Equal(asked, want) { // at 0, 5, 15, 20 … 50 s
			t.Errorf("asked for %q, want %q", asked, want)
		}
		if n := len(d.memberAddresses.resolvedNames["m1"]); n != maxAddrsPerName {
			t.Errorf("%d addresses of a name, want %d", n, maxAddrsPerName)
		}
	})
}

// The names are resolved at the same time. A name without a reply of the name service delays no other one, and the next
// round only by lookupTimeout, however many such names there are.
func TestNamesAreLookedUpTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newHandshakeLimiter(testBook(1, []Peer{{ID: 1, Addr: "m1:1"}, {ID: 2, Addr: "m2:1"}, {ID: 3, Addr: "m3:1"}, {ID: 4, Addr: "m4:1"}}))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var mu sync.Mutex
		asked := map[string]int{}
		addr := netip.MustParseAddr("10.0.0.4")
		go func() {
			_ = d.RunLookups(ctx, func(ctx context.Context, host string) ([]netip.Addr, error) {
				mu.Lock()
				asked[host]++
				mu.Unlock()
				if host == "m4" {
					return []netip.Addr{addr}, nil
				}
				<-ctx.Done()
				return nil, ctx.Err()
			})
		}()
		refuse := func() { begun(d, "10.0.0.9", 2*sourceRate.burst) }
		refuse()
		synctest.Wait()
		if !d.isMember(addr) {
			t.Error("the address of m4 is not known, because the other names are not answered for")
		}
		refuse() // so that a second look is wanted
		time.Sleep(lookupTimeout + lookupInterval)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if want := map[string]int{"m1": 2, "m2": 2, "m3": 2, "m4": 2}; !maps.Equal(asked, want) {
			t.Errorf("asked %v, want %v", asked, want)
		}
	})
}

// No more buckets are kept than there is room for. The one that was used longest ago makes room, and its
// address has a full one again.
func TestBucketsAreBounded(t *testing.T) {
	const most = 10
	b, now := newAddressBuckets(tokenRate{perToken: time.Hour, burst: 2}, most), time.Unix(1e9, 0)
	addr := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, byte(i / 256), byte(i)}) }
	for i := range most {
		b.takeToken(addr(i), now)
	}
	b.takeToken(addr(0), now)
	b.takeToken(addr(most), now)
	if b.hasToken(addr(0), now) || b.byAddress[addr(0)] == nil || b.byAddress[addr(1)] != nil || b.byAddress[addr(2)] == nil {
		t.Error("the bucket that was used longest ago is to make room, and no other one")
	}
	for i := range 1000 {
		if b.takeToken(addr(i), now); len(b.byAddress) != most || b.recentlyUsed.Len() != most {
			t.Fatalf("%d buckets, %d in order, want %d", len(b.byAddress), b.recentlyUsed.Len(), most)
		}
	}
	if !b.hasToken(addr(0), now) {
		t.Error("an address that was forgotten has no full bucket")
	}
}

// On a port with a secret, a storm of strangers that begin handshakes is cut off, and a member comes
// through it. Silent connections and plain ones take no tokens.
func TestStormOfHandshakes(t *testing.T) {
	const secret = "the secret of the members"
	synctest.Test(t, func(t *testing.T) {
		var logs bytes.Buffer
		come := make(arrivals)
		hello := guarded(t, 1, secret, false)
		hello.handshakeLimiter = newHandshakeLimiter(testBook(1, []Peer{{ID: 1, Addr: "10.0.0.1:1"}, {ID: 2, Addr: "10.0.0.2:1"}}))
		l := NewListener(come, hello, slog.New(slog.NewTextHandler(&logs, nil)))
		defer l.Close()
		handshake := func(i int) error {
			conn := come.from(memberAddr(fmt.Sprintf("10.1.0.%d:1", i%250)))
			defer conn.Close()
			return tls.Client(conn, &tls.Config{MinVersion: tls.VersionTLS13, NextProtos: []string{"rollcall-secret-1"}, InsecureSkipVerify: true}).Handshake()
		}
		for i := range 10 * maxHandshakes {
			come.from("10.1.0.250:1")
			conn := come.from(memberAddr(fmt.Sprintf("10.1.0.%d:1", i%250)))
			if _, err := NewHello(testBook(2, testPeers)).HandshakeDialed(conn, 1); err == nil {
				t.Fatal("a plain member is let in")
			}
		}
		if refused := hello.HandshakeLimiter().Rejections()["others"]; refused != 0 {
			t.Errorf("%d connections are refused before a handshake", refused)
		}
		done := 0
		for i := range 1000 {
			if handshake(i) == nil {
				done++
			}
		}
		if done != strangersRate.burst {
			t.Errorf("%d handshakes of 1,000 strangers, want %d", done, strangersRate.burst)
		}
		silent, begin := come.from("10.1.0.251:1"), time.Now()
		if _, err := silent.Read(make([]byte, 1)); !errors.Is(err, io.EOF) || !time.Now().Equal(begin) {
			t.Errorf("a stranger in the storm is told %v after %v, want its end at once", err, time.Since(begin))
		}
		for i := range 50 {
			_ = handshake(i)
			conn, err := guarded(t, 2, secret, false).HandshakeDialed(come.from("10.0.0.2:1"), 1)
			if err != nil {
				t.Fatal(err)
			}
			in, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			in.Close()
			conn.Close()
		}
		synctest.Wait()
		const line = `msg="refused connections, because they come faster than this member takes them" remote=10.1.0.`
		if n := strings.Count(logs.String(), line); n != 1 {
			t.Errorf("%d lines about the storm, want 1:\n%s", n, logs.String())
		}
		time.Sleep(refusalInterval)
		for i := range 1000 {
			_ = handshake(i)
		}
		synctest.Wait()
		if n := strings.Count(logs.String(), line); n != 2 || !strings.Contains(logs.String(), "from=others closed=1") {
			t.Errorf("%d lines about the storm, want 2:\n%s", n, logs.String())
		}
	})
}

// A handshake that passes the check at the door, and finds its token taken when it begins, ends.
func TestHandshakeFindsNoToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		come := make(arrivals)
		hello := guarded(t, 1, "the secret of the members", false)
		l := NewListener(come, hello, nil)
		defer l.Close()
		var waiting []net.Conn
		for range 2 * sourceRate.burst {
			waiting = append(waiting, come.from("10.1.0.1:1"))
		}
		done := 0
		for _, conn := range waiting {
			if tls.Client(conn, &tls.Config{MinVersion: tls.VersionTLS13, NextProtos: []string{"rollcall-secret-1"}, InsecureSkipVerify: true}).Handshake() == nil {
				done++
			}
			conn.Close()
		}
		if done != sourceRate.burst || hello.HandshakeLimiter().Rejections()["others"] != uint64(sourceRate.burst) {
			t.Errorf("%d handshakes and %v refused, want %d of each", done, hello.HandshakeLimiter().Rejections(), sourceRate.burst)
		}
	})
}
