package wire

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-msgpack/v2/codec"
	"github.com/hashicorp/raft"
)

// encode returns a request as raft sends it.
func encode(t testing.TB, kind byte, request any) []byte {
	t.Helper()
	b := bytes.NewBuffer([]byte{kind})
	handle := new(codec.MsgpackHandle)
	handle.TimeNotBuiltin = true
	if err := codec.NewEncoder(b, handle).Encode(request); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// requests returns some of each kind, as long as members send them.
func requests(t testing.TB) map[string][]byte {
	t.Helper()
	header := raft.RPCHeader{ProtocolVersion: 3, ID: []byte("255"), Addr: []byte(strings.Repeat("a", maxHostInTests))}
	many := entries(1, 200, 70_000, 1, 1, 1, 1, 1)
	for _, e := range many {
		e.AppendedAt, e.Extensions = time.Now(), []byte("x")
	}
	var servers raft.Configuration
	for i := range maxMember {
		servers.Servers = append(servers.Servers, raft.Server{ID: raft.ServerID(rune('0' + i%10)), Address: raft.ServerAddress(header.Addr)})
	}
	return map[string][]byte{
		"heartbeat":   encode(t, requestAppend, &raft.AppendEntriesRequest{RPCHeader: header, Term: 1 << 60}),
		"entries":     encode(t, requestAppend, &raft.AppendEntriesRequest{RPCHeader: header, Term: 5, PrevLogEntry: 300, Entries: many, LeaderCommitIndex: 70_000}),
		"vote":        encode(t, requestVote, &raft.RequestVoteRequest{RPCHeader: header, Term: 5, LeadershipTransfer: true}),
		"pre-vote":    encode(t, requestPreVote, &raft.RequestPreVoteRequest{RPCHeader: header, Term: 5}),
		"snapshot":    encode(t, requestSnapshot, &raft.InstallSnapshotRequest{RPCHeader: header, Size: -1, Configuration: raft.EncodeConfiguration(servers), Peers: raft.EncodeConfiguration(servers)}),
		"timeout now": encode(t, requestTimeoutNow, &raft.TimeoutNowRequest{RPCHeader: header}),
	}
}

const maxHostInTests = 260 // the longest address, with its port

// follow scans a request in pieces of n bytes and returns its length.
func follow(request []byte, n int) (size int, err error) {
	if len(request) == 0 || int(request[0]) >= len(requestBounds) {
		return 0, errBounds
	}
	var s scanner
	s.begin(requestBounds[request[0]])
	size = 1
	for size < len(request) {
		k, whole, err := s.scan(request[size:min(len(request), size+n)])
		if size += k; err != nil {
			return size, err
		}
		if whole {
			return size, nil
		}
	}
	return size, io.ErrUnexpectedEOF
}

// Every request of raft's passes, and its end is found, however its bytes arrive.
func TestScanRequests(t *testing.T) {
	for name, request := range requests(t) {
		t.Run(name, func(t *testing.T) {
			for _, n := range []int{1, 2, 3, 7, 1 << 20} {
				size, err := follow(append(bytes.Clone(request), "the next one"...), n)
				if err != nil || size != len(request) {
					t.Errorf("in pieces of %d: %d of %d bytes, %v", n, size, len(request), err)
				}
				if size, err = follow(request[:len(request)-1], n); !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Errorf("in pieces of %d, without its last byte: %d bytes, %v", n, size, err)
				}
			}
		})
	}
}

// A request that no member sends is refused before raft's decoder allocates room for it.
func TestScanRefuses(t *testing.T) {
	list := func(n int) string { return "\xdc" + string([]byte{byte(n >> 8), byte(n)}) }
	tests := []struct{ name, request string }{
		{"type", "\x05"},
		{"nil", "\x00\xc0"},
		{"list", "\x00\x90"},
		{"number", "\x03\x07"},
		{"no such byte", "\x00\x81\xc1"},
		{"many fields", "\x00\xdf\x7f\xff\xff\xff"},
		{"a field too many", "\x00\xde\x00\x19"},
		{"many elements", "\x00\x81\xa1x\xdd\xff\xff\xff\xff"},
		{"an element too many", "\x00\x81\xa1x" + list(maxElements+1)},
		{"deep", "\x00\x81\xa1x\x91\x91\x91"},
		{"list in a vote", "\x01\x81\xa1x\x91"},
		{"map in a vote", "\x01\x81\xa1x\x81"},
		{"long vote", "\x01\x81\xa1x\xc6\x00\x04\x00\x00"},
		{"long entry", "\x00\x81\xa1x\xc6\x7f\xff\xff\xff"},
		{"long extension", "\x00\x81\xa1x\xc9\x7f\xff\xff\xff"},
		{"many long strings", "\x00\x82\xdb\x01\x40\x00\x00" + strings.Repeat("x", 20<<20) + "\xdb\x01\x40\x00\x00"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if n, err := follow([]byte(tt.request), len(tt.request)); !errors.Is(err, errBounds) {
				t.Errorf("%d bytes, %v", n, err)
			}
		})
	}
	if size, err := follow([]byte("\x00\x81\xa1x"+list(maxElements)+strings.Repeat("\xc0", maxElements)), 1); err != nil {
		t.Errorf("a list of %d elements: %d bytes, %v", maxElements, size, err)
	}
}

// wireServer is raft's transport behind conns, reached by pipes.
type wireServer struct {
	conns    *conns
	inner    *raft.NetworkTransport
	incoming chan net.Conn
	closed   chan struct{}
}

func newWireServer(t testing.TB) *wireServer {
	s := &wireServer{incoming: make(chan net.Conn), closed: make(chan struct{})}
	s.conns = newConns(s, slog.New(slog.DiscardHandler))
	s.inner = raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream: s.conns, MaxPool: 1, Timeout: time.Second, Logger: hclog.NewNullLogger(),
	})
	t.Cleanup(func() { _, _ = s.inner.Close(), s.conns.Close() })
	return s
}

func (s *wireServer) Accept() (net.Conn, error) {
	select {
	case c := <-s.incoming:
		return c, nil
	case <-s.closed:
		return nil, net.ErrClosed
	}
}

func (s *wireServer) Addr() net.Addr { return memberAddr("m1:1") }

func (s *wireServer) Close() error { close(s.closed); return nil }

func (s *wireServer) Dial(raft.ServerAddress, time.Duration) (net.Conn, error) { return nil, errDown }

// dial connects as a member.
func (s *wireServer) dial(member uint32) net.Conn {
	ours, theirs := net.Pipe()
	s.incoming <- &Conn{Conn: theirs, Peer: member}
	return ours
}

// send writes a request and reports whether all of it was accepted.
func send(conn net.Conn, b []byte) bool {
	_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
	_, err := conn.Write(b)
	return err == nil
}

// unfinished returns a request with an entry of n bytes, without the last byte.
func unfinished(n int) []byte {
	return append([]byte("\x00\x81\xa7Entries\x91\x81\xa4Data\xc6"), binary.BigEndian.AppendUint32(nil, uint32(n+1))...)
}

// Requests take little memory, whatever their bytes are.
func TestMutatedRequestsTakeLittleMemory(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(20)) // little but what is held
	s := newWireServer(t)
	go func() {
		for rpc := range s.inner.Consumer() {
			rpc.Respond(&raft.AppendEntriesResponse{}, nil)
		}
	}()
	rng, long := rand.New(rand.NewPCG(1, 2)), make([]byte, 2<<20)
	real := requests(t)
	names := slices.Sorted(maps.Keys(real))
	var before, now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var most uint64
	for i := range 1500 {
		b := bytes.Clone(real[names[i%len(names)]])
		for range 1 + rng.IntN(4) {
			b[rng.IntN(min(len(b), 400))] = byte(rng.IntN(256))
		}
		if i%8 == 0 {
			b = append(unfinished(len(long)), long...)
		}
		conn := s.dial(uint32(1 + i%3))
		defer conn.Close()
		go func() { _, _ = io.Copy(io.Discard, conn) }()
		send(conn, b)
		runtime.ReadMemStats(&now)
		most = max(most, now.HeapInuse)
	}
	t.Logf("%d MiB in use at most, %d MiB made in all", most>>20, (now.TotalAlloc-before.TotalAlloc)>>20)
	if most-before.HeapInuse > 128<<20 {
		t.Errorf("%d MiB more in use", (most-before.HeapInuse)>>20)
	}
}

// A member's connections make room for its newest one: the one that has been idle for longest is
// closed.
func TestConnectionsOfOneMember(t *testing.T) {
	s := newWireServer(t)
	go func() {
		for rpc := range s.inner.Consumer() {
			rpc.Respond(&raft.AppendEntriesResponse{}, nil)
		}
	}()
	beat := requests(t)["heartbeat"]
	other := s.dial(2)
	defer other.Close()
	var conns []net.Conn
	for range maxPeerConns {
		c := s.dial(1)
		defer c.Close()
		if !send(c, beat) || !answered(c) {
			t.Fatal("not served")
		}
		conns = append(conns, c)
	}
	if !send(conns[0], beat) || !answered(conns[0]) {
		t.Fatal("not served")
	}
	conns = append(conns, s.dial(1))
	defer conns[maxPeerConns].Close()
	if _, err := conns[1].Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the connection that was idle for longest: %v, want its end", err)
	}
	for i, c := range append(conns, other) {
		if i != 1 && (!send(c, beat) || !answered(c)) {
			t.Errorf("connection %d is closed", i)
		}
	}
}

// answered reads an answer of raft's, of the length that it has in these tests.
func answered(c net.Conn) bool {
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
	_, err := c.Read(make([]byte, 4096))
	_ = c.SetReadDeadline(time.Time{})
	return err == nil
}

// If requests together are too long, those that began first lose their connections, but not those
// that raft has already: if only these are left, the newest is refused.
func TestRequestsTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owner := newConns(nil, slog.New(slog.DiscardHandler))
		in := func() (*inConn, net.Conn) {
			ours, theirs := net.Pipe()
			c := &inConn{Conn: theirs, owner: owner}
			if err := owner.track(c); err != nil {
				t.Fatal(err)
			}
			return c, ours
		}
		first, far1 := in()
		second, far2 := in()
		third, far3 := in()
		fourth, far4 := in()
		hold := func(c *inConn, n int64, whole bool) error {
			time.Sleep(time.Millisecond)
			return owner.count(c, n, whole)
		}
		const half = maxRequests / 2
		if err := errors.Join(hold(first, half, true), hold(second, 1, false), hold(third, 1, false), hold(second, half-2, false)); err != nil {
			t.Fatal(err)
		}
		if err := hold(fourth, 1, false); err != nil {
			t.Errorf("refused, although others are unfinished: %v", err)
		}
		_ = far2.SetReadDeadline(time.Now().Add(time.Second))
		if _, err := far2.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("the connection of the unfinished request that began first: %v, want its end", err)
		}
		_ = far3.SetReadDeadline(time.Now().Add(time.Second))
		if _, err := far3.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the connection of an unfinished request that began later: %v, want it open", err)
		}
		if err := hold(fourth, half, false); !errors.Is(err, errRequests) {
			t.Errorf("%v, although raft has what is there", err)
		}
		for _, c := range []*inConn{fourth, third, second, first} {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
		if owner.bytes != 0 {
			t.Errorf("%d bytes are left", owner.bytes)
		}
		far1.Close()
		far3.Close()
		far4.Close()
	})
}

// FuzzRequests checks that the scanner's result does not depend on how the bytes arrive, and that
// raft's decoder reads no byte more than the scanner allows, and takes little memory.
func FuzzRequests(f *testing.F) {
	for _, request := range requests(f) {
		f.Add(request, uint16(3))
	}
	f.Add(unfinished(10), uint16(1))
	f.Fuzz(func(t *testing.T, b []byte, piece uint16) {
		n, err := follow(b, int(piece)+1)
		m, again := follow(b, len(b)+1)
		if (err == nil) != (again == nil) || err == nil && n != m {
			t.Fatalf("in pieces of %d: %d bytes, %v; at once: %d bytes, %v", piece+1, n, err, m, again)
		}
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			return
		}
		if err != nil {
			n = len(b)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		commands := []any{new(raft.AppendEntriesRequest), new(raft.RequestVoteRequest), new(raft.InstallSnapshotRequest), new(raft.TimeoutNowRequest), new(raft.RequestPreVoteRequest)}
		r := bufio.NewReader(bytes.NewReader(b[1:]))
		if codec.NewDecoder(r, &codec.MsgpackHandle{}).Decode(commands[b[0]]) == nil {
			if left, _ := io.ReadAll(r); err == nil && len(left) < len(b)-n {
				t.Fatalf("raft read %d bytes, the request has %d", len(b)-len(left), n)
			}
		}
		if runtime.ReadMemStats(&after); after.TotalAlloc-before.TotalAlloc > 8<<20+64*uint64(len(b)) {
			t.Fatalf("%d bytes made for a request of %d", after.TotalAlloc-before.TotalAlloc, n)
		}
	})
}
