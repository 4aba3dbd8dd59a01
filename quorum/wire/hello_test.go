package wire

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"rollcall/quorum/disk"
	"rollcall/quorum/trust"
	"rollcall/zk/kerberos"
	"rollcall/zk/kerberos/kdctest"
)

var testPeers = []Peer{{ID: 1, Addr: "m1:3888"}, {ID: 2, Addr: "m2:3888"}, {ID: 3, Addr: "m3:3888"}}

var testEnsemble = EnsembleID{1, 2, 3}

// testDisk returns the disk of a member.
func testDisk(id uint32) disk.ID { return disk.ID(0xd0 + id) }

// server returns a member as raft knows it, at an address.
func server(id uint32, addr string) Peer { return Peer{ID: id, DiskID: testDisk(id), Addr: addr} }

// named returns the name of a member in raft.
func named(id uint32) raft.ServerID { return server(id, "").ServerID() }

// testBook returns the book of a member that knows its disk and its ensemble.
func testBook(id uint32, peers []Peer) *AddressBook {
	book := NewAddressBook(id, peers)
	book.SetDiskID(testDisk(id))
	book.SetEnsembleID(testEnsemble)
	return book
}

func testHello(id uint32) Hello { return NewHello(testBook(id, testPeers)) }

// newTestListener returns a Listener of member 1, over memory.
func newTestListener(t *testing.T, logs io.Writer) (*Listener, arrivals) {
	come := make(arrivals)
	l := NewListener(come, testHello(1), slog.New(slog.NewTextHandler(logs, nil)))
	t.Cleanup(func() { l.Close() })
	return l, come
}

// These cases list the accepted hellos, and the replies to the other dialers.
func TestHello(t *testing.T) {
	right, none := testEnsemble[:], make([]byte, hashSize)
	preface := func(magic string, version uint16, from, to uint32, hash []byte) []byte {
		b := binary.BigEndian.AppendUint16([]byte(magic), version)
		b = binary.BigEndian.AppendUint32(b, from)
		b = binary.BigEndian.AppendUint32(b, to)
		for _, n := range []uint64{uint64(testDisk(from)), 7, uint64(testDisk(1))} {
			b = binary.BigEndian.AppendUint64(b, n)
		}
		return appendChecksum(append(b, hash...))
	}
	summed := func(hello []byte) []byte { return appendChecksum(hello[:helloSize-checksumSize]) }
	without := func(hello []byte, at int) []byte { // with a zero in place of one of the three numbers
		clear(hello[18+8*at : 26+8*at])
		return summed(hello)
	}
	other := bytes.Repeat([]byte{7}, hashSize)
	lost := preface("ROLLCALL", 1, 2, 1, right)
	lost[34]++
	lost = summed(lost)
	changed := preface("ROLLCALL", 1, 2, 1, right)
	changed[30]++
	tests := []struct {
		name string
		sent []byte
		code int // of the answer; -1: none
		say  string
	}{
		{"right", preface("ROLLCALL", 1, 2, 1, right), 0, ""},
		{"to any disk", without(preface("ROLLCALL", 1, 2, 1, right), 2), 0, ""},
		{"wrong magic", preface("ZOOKEEPE", 1, 2, 1, right), -1, "not a Rollcall member"},
		{"HTTP", []byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n"), -1, "not a Rollcall member"},
		{"without an ensemble", preface("ROLLCALL", 1, 2, 1, none), int(helloNoEnsemble), "does not know its ensemble"},
		{"wrong version", preface("ROLLCALL", 2, 2, 1, right), int(helloBadVersion), "protocol version 2"},
		{"wrong version, of another length", preface("ROLLCALL", 2, 2, 1, right)[:10], int(helloBadVersion), "protocol version 2"},
		{"next version", preface("ROLLCALL", 2, 2, 1, right), int(helloBadVersion), "member 1 speaks 1"},
		{"meant for another disk", lost, int(helloBadDisk), "meant for member 1 with the disk 01000000000000d1, and this one has the disk 00000000000000d1"},
		{"wrong to", preface("ROLLCALL", 1, 2, 3, right), int(helloBadTo), "meant for member 3"},
		{"other ensemble", preface("ROLLCALL", 1, 2, 1, other), int(helloBadEnsemble), "is of the ensemble 07070707, and member 1 of 01020300"},
		{"without a disk", without(preface("ROLLCALL", 1, 2, 1, right), 0), int(helloBadFrom), "names no disk"},
		{"from itself", preface("ROLLCALL", 1, 1, 1, right), int(helloBadFrom), "says it is member 1"},
		{"from itself, with another disk", without(preface("ROLLCALL", 1, 1, 1, right), 0), int(helloBadFrom), "says it is member 1"},
		{"from member 0", preface("ROLLCALL", 1, 0, 1, right), int(helloBadFrom), "member id 0 is not between 1 and 255"},
		{"from member 256", preface("ROLLCALL", 1, 256, 1, right), int(helloBadFrom), "member id 256 is not between 1 and 255"},
		{"from a member that came in meanwhile", preface("ROLLCALL", 1, 9, 1, right), 0, ""},
		{"cut short", preface("ROLLCALL", 1, 2, 1, right)[:20], -1, "cut short"},
		{"changed on the way", changed, -1, "bytes were changed on the way"},
		{"silent", nil, -1, "no hello"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var logs bytes.Buffer
				l, come := newTestListener(t, &logs)
				conn := come.from("m2:1")
				begin := time.Now()
				go func() { _, _ = conn.Write(tt.sent) }()
				code, text, err := readHelloReply(conn)
				if took := time.Since(begin); took != 0 && took != helloTimeout {
					t.Errorf("answered after %v", took)
				}
				if tt.code < 0 && err == nil || tt.code >= 0 && (err != nil || int(code) != tt.code) {
					t.Errorf("answer %d, %v; want %d", code, err, tt.code)
				}
				if tt.code > 0 && !strings.Contains(string(text), tt.say) {
					t.Errorf("told %q, want %q", text, tt.say)
				}
				if tt.code == 0 {
					c, err := l.Accept()
					if from := binary.BigEndian.Uint32(tt.sent[10:]); err != nil || c.(*Conn).PeerID != from || c.(*Conn).PeerDisk != testDisk(from) {
						t.Errorf("Accept: %v, %v", c, err)
					}
				}
				synctest.Wait()
				passing := (&helloRejection{replyCode: byte(max(0, tt.code))}).isTransient()
				if !passing && !strings.Contains(logs.String(), tt.say) || passing && logs.Len() > 0 {
					t.Errorf("logged %q, want %q", logs.String(), tt.say)
				}
			})
		})
	}
}

// Raft's port accepts no member before both sides have named the same ensemble, and none without a disk. The open port
// does: a member that has no data queries the ensemble, and a command sends its query without a disk. Neither port
// accepts a member of another ensemble, and none replies before this member knows its disk.
func TestHelloOfUnsettledMembers(t *testing.T) {
	none, own, other := EnsembleID{}, testEnsemble, EnsembleID{7}
	const untold = -1 // the connection is closed without an answer
	for _, tt := range []struct {
		name           string
		dialer, dialed EnsembleID
		from, at       disk.ID
		raft, open     int // codes of the two ports
	}{
		{"settled", own, own, 0xd2, 0xd1, 0, 0},
		{"the dialer knows none", none, own, 0xd2, 0xd1, int(helloNoEnsemble), 0},
		{"the dialed knows none", own, none, 0xd2, 0xd1, int(helloNoEnsemble), 0},
		{"neither knows one", none, none, 0xd2, 0xd1, int(helloNoEnsemble), 0},
		{"of another one", other, own, 0xd2, 0xd1, int(helloBadEnsemble), int(helloBadEnsemble)},
		{"a command", own, own, 0, 0xd1, int(helloBadFrom), 0},
		{"a command that knows no ensemble", none, own, 0, 0xd1, int(helloNoEnsemble), 0},
		{"the dialed does not know its disk", own, own, 0xd2, 0, untold, untold},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dialer, dialed := NewHello(NewAddressBook(2, testPeers)), NewHello(NewAddressBook(1, testPeers))
				dialer.addressBook.SetEnsembleID(tt.dialer)
				dialed.addressBook.SetEnsembleID(tt.dialed)
				dialer.addressBook.SetDiskID(tt.from)
				dialed.addressBook.SetDiskID(tt.at)
				for port, want := range map[*Hello]int{&dialed: tt.raft, new(dialed.AcceptingUnknown()): tt.open} {
					come := make(arrivals)
					l := NewListener(come, *port, nil)
					conn := come.from("10.0.0.2:1")
					begin := time.Now()
					if _, err := conn.Write(dialer.encodeHello(1)); err != nil {
						t.Fatal(err)
					}
					code, answer, err := readHelloReply(conn)
					if want == untold && !errors.Is(err, io.EOF) || want != untold && (err != nil || int(code) != want) {
						t.Errorf("open %t: answer %d, %v; want %d", port.acceptsUnknown, code, err, want)
					}
					if time.Since(begin) != 0 {
						t.Errorf("open %t: answered after %v", port.acceptsUnknown, time.Since(begin))
					}
					if want == 0 {
						c, err := l.Accept()
						if err != nil || c.(*Conn).PeerDisk != tt.from || binary.BigEndian.Uint64(answer) != uint64(tt.at) ||
							binary.BigEndian.Uint64(answer[8:]) != dialed.addressBook.RunID() {
							t.Errorf("open %t: %+v, %v; answer %x", port.acceptsUnknown, c, err, answer)
						}
					}
					l.Close()
				}
			})
		})
	}
}

// A start number is drawn, so two starts differ. So do the numbers of two books in one process.
func TestStartsDiffer(t *testing.T) {
	seen := map[uint64]bool{0: true}
	for range 100 {
		start := NewAddressBook(1, testPeers).RunID()
		if seen[start] {
			t.Fatalf("start %x twice", start)
		}
		seen[start] = true
	}
}

// The dialer gets the reason for a rejection, in bounded length and in bounded time.
func TestDialed(t *testing.T) {
	hello := NewHello(testBook(2, testPeers))
	tests := []struct {
		name   string
		answer []byte
		want   string
		is     error
	}{
		{"taken", encodeHelloReply(helloOK, make([]byte, welcomeSize)), "", nil},
		{"taken, and cut short", encodeHelloReply(helloOK, make([]byte, welcomeSize))[:9], "cut short", io.ErrUnexpectedEOF},
		{"taken, with too few bytes", encodeHelloReply(helloOK, make([]byte, welcomeSize-1)), "15 bytes", nil},
		{"of another ensemble", encodeHelloReply(helloBadEnsemble, []byte("no")), `"no"`, ErrOtherEnsemble},
		{"twice", encodeHelloReply(helloTwins, []byte("no")), `"no"`, ErrTwins},
		{"refused", encodeHelloReply(helloBadTo, []byte("no \nw")), `"no \nw"`, errHelloRejected},
		{"refused without a text", encodeHelloReply(helloBadTo, nil), `""`, errHelloRejected},
		{"code alone", []byte{4}, "cut short", io.EOF},
		{"text cut short", append([]byte{4, 200}, "half"...), "cut short", io.ErrUnexpectedEOF},
		{"closed", nil, "no reply", io.EOF},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a, b := net.Pipe()
			got := make(chan []byte, 1)
			go func() {
				buf := make([]byte, helloSize)
				_, _ = io.ReadFull(b, buf)
				got <- buf
				_, _ = b.Write(tt.answer)
				if tt.want != "" {
					b.Close()
				}
			}()
			conn, err := hello.HandshakeDialed(a, 1)
			if sent := <-got; !bytes.Equal(sent, hello.encodeHello(1)) {
				t.Errorf("sent %q", sent)
			}
			if tt.want == "" {
				if err != nil || conn.(*Conn).PeerID != 1 {
					t.Fatalf("Dialed: %v", err)
				}
				return
			}
			if tt.is != nil && !errors.Is(err, tt.is) || err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Dialed: %v, want %q", err, tt.want)
			}
		})
	}
	t.Run("silent", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			a, b := net.Pipe()
			defer b.Close()
			go func() { _, _ = io.Copy(io.Discard, b) }()
			begin := time.Now()
			if _, err := hello.HandshakeDialed(a, 1); err == nil || time.Since(begin) != helloTimeout {
				t.Errorf("Dialed: %v after %v", err, time.Since(begin))
			}
		})
	})
}

// A dialer that wants one disk accepts no reply of another one, even if that has not rejected it.
func TestDialedByAnotherDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, want := range []disk.ID{0, testDisk(1), testDisk(1) + 1} {
			a, b := net.Pipe()
			go func() {
				_, _ = io.ReadFull(b, make([]byte, helloSize))
				_, _ = b.Write(testHello(1).encodeWelcome())
			}()
			hello := testHello(2)
			hello.dialedDisk = want
			c, err := hello.HandshakeDialed(a, 1)
			if refused := want == testDisk(1)+1; (err != nil) != refused || refused != isClosed(a) {
				t.Errorf("wanted %v: %v, %v", want, c, err)
			}
			if err == nil {
				c.Close()
			}
		}
	})
}

// The address of a member that is rejected for now counts as a member's, because the member dials often. The address of
// a process whose number is no member's does not.
func TestAddressOfARefusedMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, come := newTestListener(t, io.Discard)
		for from, addr := range map[uint32]netip.AddrPort{3: netip.MustParseAddrPort("10.0.0.3:1"), maxMemberID + 1: netip.MustParseAddrPort("10.0.0.4:1")} {
			hello := NewHello(testBook(from, append([]Peer{{ID: from, Addr: "m:3888"}}, testPeers...)))
			hello.dialedDisk = testDisk(1) + 1 // a lost one
			if _, err := hello.HandshakeDialed(come.from(memberAddr(addr.String())), 1); !errors.Is(err, errHelloRejected) {
				t.Fatal(err)
			}
			if is, want := l.hello.handshakeLimiter.isMember(addr.Addr()), from == 3; is != want {
				t.Errorf("the address of member %d counts as a member's: %t, want %t", from, is, want)
			}
		}
	})
}

// The time limit of the hello ends with the hello, on both sides.
func TestNoDeadlineAfterHello(t *testing.T) {
	for name, hellos := range map[string][2]Hello{
		"plain":   {testHello(2), testHello(1)},
		"guarded": {guarded(t, 2, "the secret of the members", false), guarded(t, 1, "the secret of the members", false)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				come := make(arrivals)
				l := NewListener(come, hellos[1], nil)
				defer l.Close()
				out, err := hellos[0].HandshakeDialed(come.from("10.0.0.2:1"), 1)
				if err != nil {
					t.Fatal(err)
				}
				in, err := l.Accept()
				if err != nil {
					t.Fatal(err)
				}
				defer out.Close()
				defer in.Close()
				time.Sleep(time.Hour)
				for _, ends := range [][2]net.Conn{{out, in}, {in, out}} {
					go func() { _, _ = ends[0].Write([]byte("x")) }()
					if _, err := io.ReadFull(ends[1], make([]byte, 1)); err != nil {
						t.Error(err)
					}
				}
			})
		})
	}
}

// Silent connections delay no other one, however many they are: the oldest make room.
func TestSilentConnectionsHoldUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, come := newTestListener(t, io.Discard)
		for range 10 * maxHandshakes {
			come.from("m2:1")
		}
		begin := time.Now()
		go func() {
			_, _ = NewHello(testBook(2, testPeers)).HandshakeDialed(come.from("m2:1"), 1)
		}()
		if _, err := l.Accept(); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took != 0 {
			t.Errorf("held up for %v", took)
		}
	})
}

// arrivals is a listener whose connections the test makes, from addresses of its choice.
type arrivals chan net.Conn

func (a arrivals) Accept() (net.Conn, error) {
	if c, ok := <-a; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}
func (a arrivals) Close() error   { close(a); return nil }
func (a arrivals) Addr() net.Addr { return memberAddr("m1:3888") }

type arrival struct {
	net.Conn
	from memberAddr
}

func (a arrival) RemoteAddr() net.Addr { return a.from }

// from makes a connection that comes from an address, and returns its far end.
func (a arrivals) from(addr memberAddr) net.Conn {
	near, far := net.Pipe()
	a <- arrival{near, addr}
	return far
}

// Strangers cannot take the places of a member's address, whether it is in the server list or known
// from a correct hello. Of each kind, the oldest silent connection makes room for the newest.
func TestMembersHavePlacesOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		peers := []Peer{{ID: 1, Addr: "m1:3888"}, {ID: 2, Addr: "10.0.0.2:3888"}, {ID: 3, Addr: "m3:3888"}}
		come := make(arrivals)
		l := NewListener(come, NewHello(testBook(1, peers)), nil)
		defer l.Close()
		if _, err := NewHello(testBook(3, peers)).HandshakeDialed(come.from("10.0.0.3:1"), 1); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Accept(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // it is no longer among those that are greeted
		isOpen := func(c net.Conn) bool {
			_ = c.SetReadDeadline(time.Now().Add(time.Millisecond))
			_, err := c.Read(make([]byte, 1))
			return errors.Is(err, os.ErrDeadlineExceeded)
		}
		listed, known := come.from("10.0.0.2:1"), come.from("[::ffff:10.0.0.3]:2")
		first := come.from("10.0.0.4:1")
		for i := range maxHandshakes - 1 {
			come.from(memberAddr(fmt.Sprintf("10.0.1.%d:1", i)))
		}
		synctest.Wait()
		if !isOpen(first) {
			t.Error("a stranger was dropped while there was room")
		}
		second := come.from("10.0.0.5:1")
		synctest.Wait()
		if isOpen(first) || !isOpen(second) {
			t.Error("the newest stranger did not take the place of the oldest")
		}
		for range 10 * maxHandshakes {
			come.from("10.0.0.5:2")
		}
		synctest.Wait()
		if isOpen(second) || !isOpen(listed) || !isOpen(known) {
			t.Errorf("open after a flood of strangers: one of them %t, want false; a member's by the list %t, by its hello %t, want true",
				isOpen(second), isOpen(listed), isOpen(known))
		}
		for range maxHandshakes {
			come.from("10.0.0.2:2")
		}
		synctest.Wait()
		if isOpen(listed) {
			t.Error("a silent connection from a member's address was kept before newer ones")
		}
	})
}

// Over TCP, 3,000 silent connections do not keep a member out, even if they come from its own
// address.
func TestFloodKeepsNoMemberOut(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	peers := []Peer{{ID: 1, Addr: inner.Addr().String()}, {ID: 2, Addr: "127.0.0.1:1"}}
	l := NewListener(inner, NewHello(testBook(1, peers)), nil)
	defer l.Close()
	for range 3000 {
		silent, err := DialTCP(t.Context(), inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer silent.Close()
	}
	conn, err := DialTCP(t.Context(), inner.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if conn, err = NewHello(testBook(2, peers)).HandshakeDialed(conn, 1); err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := l.Accept(); err != nil {
		t.Fatal(err)
	}
}

// Close ends Accept, the connections being greeted and every goroutine.
func TestListenerClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, come := newTestListener(t, io.Discard)
		silent, greeted := come.from("m2:1"), come.from("m2:2")
		if _, err := NewHello(testBook(2, testPeers)).HandshakeDialed(greeted, 1); err != nil {
			t.Fatal(err) // and nobody accepts it
		}
		l.Close()
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Accept: %v", err)
		}
		for _, c := range []net.Conn{silent, greeted} {
			if _, err := c.Read(make([]byte, 1)); err == nil {
				t.Error("a connection is still open")
			}
		}
	})
}

// The same rejection is logged only once in a while, not for each retry.
func TestRefusalsAreLoggedSparingly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logs bytes.Buffer
		_, come := newTestListener(t, &logs)
		stranger := NewHello(testBook(9, append([]Peer{{ID: 9, Addr: "m9:3888"}}, testPeers...)))
		stranger.addressBook.SetEnsembleID(EnsembleID{9})
		for range 25 { // seconds
			if _, err := stranger.HandshakeDialed(come.from("m9:1"), 1); !errors.Is(err, errHelloRejected) {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if lines := strings.Count(logs.String(), "\n"); lines != 3 {
			t.Errorf("logged %d lines in 25 s, want 3:\n%s", lines, logs.String())
		}
	})
}

// This covers Stream over real TCP: the advertised address, the hello, and a rejection.
func TestStreamTCP(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	peers := []Peer{{ID: 1, Addr: inner.Addr().String()}, {ID: 2, Addr: "m2:3888"}}
	hello := NewHello(testBook(1, peers))
	s := NewStream(NewListener(inner, hello, nil), hello, DialTCP)
	defer s.Close()
	if s.Addr().String() != peers[0].Addr {
		t.Errorf("Addr = %v", s.Addr())
	}
	book := testBook(2, peers)
	dialer := NewStream(nil, NewHello(book), DialTCP)
	conn, err := dialer.Dial(server(1, peers[0].Addr).ServerAddress(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	in, err := s.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if in.(*Conn).PeerID != 2 {
		t.Errorf("from member %d", in.(*Conn).PeerID)
	}
	go func() { _, _ = conn.Write([]byte("after the hello")) }()
	buf := make([]byte, 15)
	if _, err := io.ReadFull(in, buf); err != nil || string(buf) != "after the hello" {
		t.Errorf("read %q, %v", buf, err)
	}
	for _, address := range []string{
		"nowhere:1", "3@" + peers[0].Addr, "3.@" + peers[0].Addr, "3.0000000000000000@" + peers[0].Addr, "3.d1@" + peers[0].Addr, "1.00000000000000d1",
		"0.00000000000000d1@" + peers[0].Addr, "256.00000000000000d1@" + peers[0].Addr, "1.00000000000000D1@" + peers[0].Addr, "",
	} {
		if conn, err := dialer.Dial(raft.ServerAddress(address), time.Second); err == nil {
			conn.Close()
			t.Errorf("dialed %q, which is no server's address", address)
		}
	}
	lost := server(1, peers[0].Addr)
	lost.DiskID++
	if _, err := dialer.Dial(lost.ServerAddress(), time.Minute); !errors.Is(err, errHelloRejected) ||
		!strings.Contains(err.Error(), "meant for member 1 with the disk 00000000000000d2") {
		t.Errorf("meant for another disk: %v", err)
	}
	book.SetEnsembleID(EnsembleID{7})
	if _, err := dialer.Dial(server(1, peers[0].Addr).ServerAddress(), time.Minute); !errors.Is(err, errHelloRejected) {
		t.Errorf("of another ensemble: %v", err)
	}
}

// guarded returns the hello of a member that has a secret.
func guarded(t testing.TB, self uint32, secret string, unify bool) Hello {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	g, err := trust.New(trust.Config{Settings: trust.Settings{SecretFile: path, AcceptPlain: unify}, MemberID: self})
	if err != nil {
		t.Fatal(err)
	}
	return NewHello(testBook(self, testPeers)).WithGuard(g)
}

// With a secret, the hello is inside TLS and names the member that was proved. Strangers learn nothing,
// and each kind of them is logged with address and reason.
func TestGuardedListener(t *testing.T) {
	const secret, other = "the secret of the members", "the secret of a stranger"
	lying := guarded(t, 2, secret, false)
	lying.memberID = 3
	tests := []struct {
		name   string
		dialer Hello
		logged string // "": it is let in
	}{
		{"member", guarded(t, 2, secret, false), ""},
		{"other secret", guarded(t, 2, other, false), "the proof is wrong"},
		{"plain", NewHello(testBook(2, testPeers)), "portUnification is not set"},
		{"another member's name", lying, "member 2 has proved itself, but it says that it is member 3"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var logs bytes.Buffer
				come := make(arrivals)
				l := NewListener(come, guarded(t, 1, secret, false), slog.New(slog.NewTextHandler(&logs, nil)))
				defer l.Close()
				conn, err := tt.dialer.HandshakeDialed(come.from("10.0.0.7:1"), 1)
				synctest.Wait()
				if tt.logged != "" {
					if err == nil || errors.Is(err, errHelloRejected) || !strings.Contains(logs.String(), tt.logged) ||
						!strings.Contains(logs.String(), "10.0.0.7:1") {
						t.Errorf("Dialed: %v; logged %q, want %q", err, logs.String(), tt.logged)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				in, err := l.Accept()
				if err != nil || in.(*Conn).PeerID != 2 {
					t.Fatal(in, err)
				}
				go func() { _, _ = conn.Write([]byte("raft")) }()
				heard := make([]byte, 4)
				if _, err := io.ReadFull(in, heard); err != nil || string(heard) != "raft" {
					t.Errorf("heard %q, %v", heard, err)
				}
				in.Close()
				conn.Close()
			})
		})
	}
}

// With portUnification a member speaks with plain members both ways, and privately with the others. The log of a plain
// member shows that its peer is private.
func TestUnifiedPorts(t *testing.T) {
	const secret = "the secret of the members"
	for _, tt := range []struct {
		name           string
		dialer, dialed Hello
		private, meet  bool
		logged         string
	}{
		{"both unify", guarded(t, 2, secret, true), guarded(t, 1, secret, true), true, true, ""},
		{"to a plain one", guarded(t, 2, secret, true), NewHello(testBook(1, testPeers)), false, true, "neither ensembleSecretFile nor sslQuorum"},
		{"from a plain one", NewHello(testBook(2, testPeers)), guarded(t, 1, secret, true), false, true, ""},
		{"to one that is done", guarded(t, 2, secret, true), guarded(t, 1, secret, false), true, true, ""},
		{"from one that is done", guarded(t, 2, secret, false), guarded(t, 1, secret, true), true, true, ""},
		{"done, to a plain one", guarded(t, 2, secret, false), NewHello(testBook(1, testPeers)), false, false, "neither ensembleSecretFile nor sslQuorum"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var logs bytes.Buffer
				come := make(arrivals)
				l := NewListener(come, tt.dialed, slog.New(slog.NewTextHandler(&logs, nil)))
				defer l.Close()
				dial := func(context.Context, string) (net.Conn, error) { return come.from("10.0.0.7:1"), nil }
				conn, err := tt.dialer.Dial(t.Context(), dial, "m1:3888", 1)
				if (err == nil) != tt.meet {
					t.Fatal(err)
				}
				synctest.Wait()
				if !strings.Contains(logs.String(), tt.logged) || tt.logged == "" && logs.Len() > 0 {
					t.Errorf("logged %q, want %q", logs.String(), tt.logged)
				}
				if err != nil {
					return
				}
				in, err := l.Accept()
				if err != nil {
					t.Fatal(err)
				}
				_, plain := in.(*Conn).Conn.(*checksumConn)
				if plain == tt.private || in.(*Conn).PeerID != 2 {
					t.Errorf("plain %t from member %d, want %t from 2", plain, in.(*Conn).PeerID, !tt.private)
				}
				go func() { _, _ = io.WriteString(conn, "after the hello") }()
				heard := make([]byte, len("after the hello"))
				if _, err := io.ReadFull(in, heard); err != nil || string(heard) != "after the hello" {
					t.Errorf("heard %q, %v", heard, err)
				}
				in.Close()
				conn.Close()
			})
		})
	}
}

// No preface may crash a listener, or admit a stranger.
func FuzzHello(f *testing.F) {
	unknowing := func(id uint32) Hello {
		hello := testHello(id)
		hello.addressBook.SetEnsembleID(EnsembleID{})
		return hello
	}
	right := testHello(2).encodeHello(1)
	f.Add(right)
	f.Add(right[:9])
	f.Add(unknowing(3).encodeHello(1))
	f.Add(NewHello(testBook(48, append([]Peer{{ID: 48, Addr: "m48:1"}}, testPeers...))).encodeHello(1))
	f.Add([]byte("GET / HTTP/1.0\r\n\r\n"))
	settled, joining := testHello(1), unknowing(1)
	f.Fuzz(func(t *testing.T, sent []byte) {
		for _, hello := range []Hello{settled, settled.AcceptingUnknown(), joining, joining.AcceptingUnknown()} {
			r := bytes.NewReader(sent)
			of, err := hello.readAndCheckHello(r, func(uint32) error { return nil })
			if read := len(sent) - r.Len(); read > helloSize {
				t.Fatalf("read %d bytes", read)
			}
			if comes := comesIn(sent, hello.addressBook.EnsembleID(), hello.acceptsUnknown); (err == nil) != (comes != 0) ||
				err == nil && of.ID != comes {
				t.Fatalf("ensemble %x, anybody %t: %q is let in as %d (%v), want %d",
					hello.addressBook.EnsembleID(), hello.acceptsUnknown, sent, of.ID, err, comes)
			}
			if ref, ok := errors.AsType[*helloRejection](err); ok && (ref.replyCode == helloOK || ref.replyCode >= helloCodes) {
				t.Fatalf("code %d", ref.replyCode)
			}
		}
	})
}

// comesIn returns the member that comes in with a hello to member 1 of the ensemble own, or 0 if none does. On raft's
// port both must name the same ensemble. On the open port any caller may send a query, unless it names another ensemble.
func comesIn(sent []byte, own EnsembleID, anybody bool) (from uint32) {
	if len(sent) < helloSize || string(sent[:8]) != "ROLLCALL" || verifyChecksum(sent[:helloSize]) != nil {
		return 0
	}
	version, from, to := binary.BigEndian.Uint16(sent[8:]), binary.BigEndian.Uint32(sent[10:]), binary.BigEndian.Uint32(sent[14:])
	disk, meant := binary.BigEndian.Uint64(sent[18:]), disk.ID(binary.BigEndian.Uint64(sent[34:]))
	theirs, none := EnsembleID(sent[42:42+hashSize]), EnsembleID{}
	switch {
	case version != helloVersion || to != 1 || from < 2 || from > 255 || meant != 0 && meant != testDisk(1):
		return 0
	case anybody && (theirs == none || own == none || theirs == own), !anybody && disk != 0 && own != none && theirs == own:
		return from
	}
	return 0
}

// A member without a ticket for another one does not connect to it, so that the other one logs nothing.
func TestNoConnectionWithoutATicket(t *testing.T) {
	kdc := kdctest.New(t)
	kdc.Add(t, "member/m2")
	own := trust.KeytabPrincipal{Keytab: kdc.WriteKeytab(t, "member/m2"), Principal: kerberos.Principal{Name: "member/m2", Realm: kdctest.Realm}}
	g, err := trust.New(trust.Config{
		MemberID: 2, ConfiguredHosts: map[uint32]string{1: "m1", 2: "m2"},
		Settings: trust.Settings{Kerberos: trust.Kerberos{Dialed: own, Dialing: own, DialedName: "member/_HOST", Krb5Conf: kdctest.WriteConf(t, "127.0.0.1:1")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	dial := func(context.Context, string) (net.Conn, error) {
		t.Error("it connects")
		return nil, net.ErrClosed
	}
	_, err = NewHello(testBook(2, testPeers)).WithGuard(g).Dial(t.Context(), dial, "Other:2888", 1)
	if err == nil || !strings.Contains(err.Error(), "no Kerberos ticket for member/other@EXAMPLE.COM") {
		t.Error(err)
	}
}
