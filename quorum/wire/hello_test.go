package wire

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"rollcall/quorum/trust"
)

var testPeers = []Peer{{ID: 1, Addr: "m1:3888"}, {ID: 2, Addr: "m2:3888"}, {ID: 3, Addr: "m3:3888"}}

var testEnsemble = EnsembleID{1, 2, 3}

// testHello returns the hello of a member that knows its ensemble.
func testHello(id uint32) Hello {
	book := NewBook(id, testPeers)
	book.SetEnsemble(testEnsemble)
	return NewHello(book)
}

// newTestListener returns a Listener of member 1, over memory.
func newTestListener(t *testing.T, logs io.Writer) (*Listener, arrivals) {
	come := make(arrivals)
	l := NewListener(come, testHello(1), slog.New(slog.NewTextHandler(logs, nil)))
	t.Cleanup(func() { l.Close() })
	return l, come
}

// Which hellos are accepted, and what the other dialers are told.
func TestHello(t *testing.T) {
	right, none := testEnsemble[:], make([]byte, hashSize)
	preface := func(magic string, version uint16, from, to uint32, hash []byte) []byte {
		b := binary.BigEndian.AppendUint16([]byte(magic), version)
		b = binary.BigEndian.AppendUint32(b, from)
		b = binary.BigEndian.AppendUint32(b, to)
		return append(b, hash...)
	}
	other := bytes.Repeat([]byte{7}, hashSize)
	tests := []struct {
		name string
		sent []byte
		code int // of the answer; -1: none
		say  string
	}{
		{"right", preface("ROLLCALL", 1, 2, 1, right), 0, ""},
		{"wrong magic", preface("ZOOKEEPE", 1, 2, 1, right), -1, "not a Rollcall member"},
		{"HTTP", []byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n"), -1, "not a Rollcall member"},
		{"without an ensemble", preface("ROLLCALL", 2, 2, 1, none), 0, ""},
		{"wrong version", preface("ROLLCALL", 3, 2, 1, right), int(helloBadVersion), "protocol version 3"},
		{"new, with an ensemble", preface("ROLLCALL", 2, 2, 1, right), int(helloBadEnsemble), "protocol version 2"},
		{"old, without one", preface("ROLLCALL", 1, 2, 1, none), int(helloBadEnsemble), "protocol version 1"},
		{"wrong to", preface("ROLLCALL", 1, 2, 3, right), int(helloBadTo), "meant for member 3"},
		{"other ensemble", preface("ROLLCALL", 1, 2, 1, other), int(helloBadEnsemble), "is of the ensemble 07070707, and member 1 of 01020300"},
		{"from itself", preface("ROLLCALL", 1, 1, 1, right), int(helloBadFrom), "says it is member 1"},
		{"from a member that came in meanwhile", preface("ROLLCALL", 1, 9, 1, right), 0, ""},
		{"from a stranger", preface("ROLLCALL", 2, 9, 1, none), int(helloBadFrom), "not in the server list"},
		{"cut short", preface("ROLLCALL", 1, 2, 1, right)[:20], -1, "cut short"},
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
				answer := make([]byte, 1)
				_, err := io.ReadFull(conn, answer)
				if took := time.Since(begin); took != 0 && took != helloTimeout {
					t.Errorf("answered after %v", took)
				}
				if code := int(answer[0]); tt.code < 0 && err == nil || tt.code >= 0 && (err != nil || code != tt.code) {
					t.Errorf("answer %d, %v; want %d", code, err, tt.code)
				}
				if tt.code > 0 {
					text, _ := io.ReadAll(conn)
					if len(text) != 1+int(text[0]) || !strings.Contains(string(text[1:]), tt.say) {
						t.Errorf("told %q, want %q", text, tt.say)
					}
				}
				if tt.code == 0 {
					c, err := l.Accept()
					if from := binary.BigEndian.Uint32(tt.sent[10:]); err != nil || c.(*Conn).Peer != from {
						t.Errorf("Accept: %v, %v", c, err)
					}
				}
				synctest.Wait()
				if !strings.Contains(logs.String(), tt.say) {
					t.Errorf("logged %q, want %q", logs.String(), tt.say)
				}
			})
		})
	}
}

// The dialer learns why it was refused, in bounded length and in bounded time.
func TestDialed(t *testing.T) {
	hello := NewHello(NewBook(2, testPeers))
	tests := []struct {
		name   string
		answer []byte
		want   string
		is     error
	}{
		{"taken", []byte{0}, "", nil},
		{"refused", append([]byte{4, 5}, "no \nwa"...), `"no \nw"`, errRefused},
		{"refused without a word", []byte{4}, "code 4", errRefused},
		{"text cut short", append([]byte{4, 200}, "half"...), "half", errRefused},
		{"closed", nil, "no answer", io.EOF},
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
			conn, err := hello.Dialed(a, 1)
			if sent := <-got; !bytes.Equal(sent, hello.preface(1, hello.book.Ensemble())) {
				t.Errorf("sent %q", sent)
			}
			if tt.want == "" {
				if err != nil || conn.(*Conn).Peer != 1 {
					t.Fatalf("Dialed: %v", err)
				}
				return
			}
			if !errors.Is(err, tt.is) || !strings.Contains(err.Error(), tt.want) {
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
			if _, err := hello.Dialed(a, 1); err == nil || time.Since(begin) != helloTimeout {
				t.Errorf("Dialed: %v after %v", err, time.Since(begin))
			}
		})
	})
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
			_, _ = NewHello(NewBook(2, testPeers)).Dialed(come.from("m2:1"), 1)
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
		l := NewListener(come, NewHello(NewBook(1, peers)), nil)
		defer l.Close()
		if _, err := NewHello(NewBook(3, peers)).Dialed(come.from("10.0.0.3:1"), 1); err != nil {
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
	l := NewListener(inner, NewHello(NewBook(1, peers)), nil)
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
	if conn, err = NewHello(NewBook(2, peers)).Dialed(conn, 1); err != nil {
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
		if _, err := NewHello(NewBook(2, testPeers)).Dialed(greeted, 1); err != nil {
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

// The same refusal is logged only once in a while, not for each retry.
func TestRefusalsAreLoggedSparingly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logs bytes.Buffer
		_, come := newTestListener(t, &logs)
		stranger := NewHello(NewBook(9, append([]Peer{{ID: 9, Addr: "m9:3888"}}, testPeers...)))
		for range 25 { // seconds
			if _, err := stranger.Dialed(come.from("m9:1"), 1); !errors.Is(err, errRefused) {
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

// Stream over real TCP: the advertised address, the hello, and a refusal.
func TestStreamTCP(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	peers := []Peer{{ID: 1, Addr: inner.Addr().String()}, {ID: 2, Addr: "m2:3888"}}
	hello := NewHello(NewBook(1, peers))
	s := NewStream(NewListener(inner, hello, nil), hello, DialTCP)
	defer s.Close()
	if s.Addr().String() != peers[0].Addr {
		t.Errorf("Addr = %v", s.Addr())
	}
	book := NewBook(2, peers)
	dialer := NewStream(nil, NewHello(book), DialTCP)
	conn, err := dialer.Dial(raft.ServerAddress(peers[0].Addr), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	in, err := s.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if in.(*Conn).Peer != 2 {
		t.Errorf("from member %d", in.(*Conn).Peer)
	}
	go func() { _, _ = conn.Write([]byte("after the hello")) }()
	buf := make([]byte, 15)
	if _, err := io.ReadFull(in, buf); err != nil || string(buf) != "after the hello" {
		t.Errorf("read %q, %v", buf, err)
	}
	if _, err := s.Dial("nowhere:1", time.Second); err == nil {
		t.Error("dialed an address that is no member's")
	}
	hello.book.SetEnsemble(testEnsemble)
	book.SetEnsemble(EnsembleID{7})
	if _, err := dialer.Dial(raft.ServerAddress(peers[0].Addr), time.Minute); !errors.Is(err, errRefused) {
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
	g, err := trust.New(trust.Config{Settings: trust.Settings{SecretFile: path, Unify: unify}, Self: self})
	if err != nil {
		t.Fatal(err)
	}
	return NewHello(NewBook(self, testPeers)).Guarded(g)
}

// With a secret, the hello is inside TLS and names the member that was proved. Strangers learn nothing,
// and each kind of them is logged with address and reason.
func TestGuardedListener(t *testing.T) {
	const secret, other = "the secret of the members", "the secret of a stranger"
	lying := guarded(t, 2, secret, false)
	lying.self = 3
	tests := []struct {
		name   string
		dialer Hello
		logged string // "": it is let in
	}{
		{"member", guarded(t, 2, secret, false), ""},
		{"other secret", guarded(t, 2, other, false), "the proof is wrong"},
		{"plain", NewHello(NewBook(2, testPeers)), "portUnification is not set"},
		{"another member's name", lying, "member 2 has proved itself, but it says that it is member 3"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var logs bytes.Buffer
				come := make(arrivals)
				l := NewListener(come, guarded(t, 1, secret, false), slog.New(slog.NewTextHandler(&logs, nil)))
				defer l.Close()
				conn, err := tt.dialer.Dialed(come.from("10.0.0.7:1"), 1)
				synctest.Wait()
				if tt.logged != "" {
					if err == nil || errors.Is(err, errRefused) || !strings.Contains(logs.String(), tt.logged) || !strings.Contains(logs.String(), "10.0.0.7:1") {
						t.Errorf("Dialed: %v; logged %q, want %q", err, logs.String(), tt.logged)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				in, err := l.Accept()
				if err != nil || in.(*Conn).Peer != 2 {
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

// With portUnification a member speaks with plain members both ways, and privately with the others.
// A plain member tells from the log what a private one wants.
func TestUnifiedPorts(t *testing.T) {
	const secret = "the secret of the members"
	for _, tt := range []struct {
		name           string
		dialer, dialed Hello
		private, meet  bool
		logged         string
	}{
		{"both unify", guarded(t, 2, secret, true), guarded(t, 1, secret, true), true, true, ""},
		{"to a plain one", guarded(t, 2, secret, true), NewHello(NewBook(1, testPeers)), false, true, "neither ensembleSecretFile nor sslQuorum"},
		{"from a plain one", NewHello(NewBook(2, testPeers)), guarded(t, 1, secret, true), false, true, ""},
		{"to one that is done", guarded(t, 2, secret, true), guarded(t, 1, secret, false), true, true, ""},
		{"from one that is done", guarded(t, 2, secret, false), guarded(t, 1, secret, true), true, true, ""},
		{"done, to a plain one", guarded(t, 2, secret, false), NewHello(NewBook(1, testPeers)), false, false, "neither ensembleSecretFile nor sslQuorum"},
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
				_, private := in.(*Conn).Conn.(*trust.Conn).Conn.(*tls.Conn)
				if private != tt.private || in.(*Conn).Peer != 2 {
					t.Errorf("private %t from member %d, want %t from 2", private, in.(*Conn).Peer, tt.private)
				}
				in.Close()
				conn.Close()
			})
		})
	}
}

// No preface may crash a listener, or admit a stranger.
func FuzzHello(f *testing.F) {
	right := testHello(2).preface(1, testEnsemble)
	f.Add(right)
	f.Add(right[:9])
	f.Add(testHello(3).preface(1, EnsembleID{}))
	f.Add(Hello{self: 48}.preface(1, testEnsemble))
	f.Add(Hello{self: 48}.preface(1, EnsembleID{}))
	f.Add([]byte("GET / HTTP/1.0\r\n\r\n"))
	settled, joining := testHello(1), NewHello(NewBook(1, testPeers))
	f.Fuzz(func(t *testing.T, sent []byte) {
		for _, hello := range []Hello{settled, settled.Open(), joining, joining.Open()} {
			r := bytes.NewReader(sent)
			from, err := hello.read(r, func(uint32) error { return nil })
			if read := len(sent) - r.Len(); read > helloSize {
				t.Fatalf("read %d bytes", read)
			}
			if comes := comesIn(sent, hello.book.Ensemble(), hello.any); (err == nil) != (comes != 0) || from != comes {
				t.Fatalf("ensemble %x, anybody %t: %q is let in as %d (%v), want %d", hello.book.Ensemble(), hello.any, sent, from, err, comes)
			}
			if ref, ok := errors.AsType[*refusal](err); ok && (ref.code == helloOK || ref.code >= helloCodes) {
				t.Fatalf("code %d", ref.code)
			}
		}
	})
}

// comesIn returns the member that comes in with a hello to member 1 of the ensemble own, or 0 if nobody does. A
// member that says this ensemble's id may have any number: it may have come in while member 1 was away. Any other must be in the server list,
// unless anybody may ask: one that knows no ensemble, and one of any ensemble if member 1 itself knows none.
func comesIn(sent []byte, own EnsembleID, anybody bool) (from uint32) {
	if len(sent) < helloSize || string(sent[:8]) != "ROLLCALL" {
		return 0
	}
	version, from, to := binary.BigEndian.Uint16(sent[8:]), binary.BigEndian.Uint32(sent[10:]), binary.BigEndian.Uint32(sent[14:])
	theirs, none := EnsembleID(sent[18:helloSize]), EnsembleID{}
	switch {
	case to != 1 || from < 2 || from > 255:
		return 0
	case version == 1 && own != none && theirs == own:
		return from
	case version == 2 && theirs == none, version == 1 && theirs != none && own == none:
		if anybody || from == 2 || from == 3 {
			return from
		}
	}
	return 0
}
