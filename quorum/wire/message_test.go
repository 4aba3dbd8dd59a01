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

	"github.com/hashicorp/go-msgpack/v2/codec"
	"github.com/hashicorp/raft"
)

// encode returns a request as raft sends it.
func encode(t testing.TB, kind byte, request any) []byte {
	t.Helper()
	b := bytes.NewBuffer([]byte{kind})
	if err := newEncoder(b).Encode(request); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// requests returns requests of each kind, as long as members send them. Member 255 sends them.
func requests(t testing.TB) map[string][]byte {
	t.Helper()
	header := headerOf(255, longAddr)
	many := entries(1, 200, 70_000, 1, 1, 1, 1, 1)
	for _, e := range many {
		e.AppendedAt, e.Extensions = time.Now(), []byte("x")
	}
	var servers raft.Configuration
	for i := range maxMemberID {
		servers.Servers = append(servers.Servers, raft.Server{ID: raft.ServerID(rune('0' + i%10)), Address: raft.ServerAddress(header.Addr)})
	}
	return map[string][]byte{
		"heartbeat":   encode(t, requestAppend, &raft.AppendEntriesRequest{RPCHeader: header, Term: 1 << 60}),
		"entries":     encode(t, requestAppend, &raft.AppendEntriesRequest{RPCHeader: header, Term: 5, PrevLogEntry: 300, Entries: many, LeaderCommitIndex: 70_000}),
		"vote":        encode(t, requestVote, &raft.RequestVoteRequest{RPCHeader: header, Term: 5, LeadershipTransfer: true}),
		"pre-vote":    encode(t, requestPreVote, &raft.RequestPreVoteRequest{RPCHeader: header, Term: 5}),
		"snapshot":    encode(t, requestSnapshot, &raft.InstallSnapshotRequest{RPCHeader: header, Size: -1, Configuration: raft.EncodeConfiguration(servers), Peers: raft.EncodeConfiguration(servers)}),
		"timeout now": encode(t, requestTimeoutNow, &raft.TimeoutNowRequest{RPCHeader: header}),
		"frame":       framed(t, &raft.AppendEntriesRequest{Term: 5, PrevLogEntry: 300, Entries: many, LeaderCommitIndex: 70_000}, false),
		"notice":      framed(t, &raft.AppendEntriesRequest{Term: 5, PrevLogEntry: 300, LeaderCommitIndex: 300}, true),
	}
}

var longAddr = strings.Repeat("a", 260) // the longest address, with its port

func headerOf(member uint32, addr string) raft.RPCHeader {
	return raft.RPCHeader{ProtocolVersion: 3, ID: []byte(named(member)), Addr: []byte(addr)}
}

// follow reads a request whose bytes come in pieces of n, and returns its length.
func follow(request []byte, n int) (size int, err error) {
	if len(request) == 0 || int(request[0]) >= len(requestKinds) {
		return 0, errNotRaftRequest
	}
	m := messageReader{bounds: requestKinds[request[0]].bounds, from: bufio.NewReader(&pieces{request[1:], n}), reserve: func(int) error { return nil }}
	if requestKinds[request[0]].requestForm == inMessagePack {
		err = m.readValue(0)
	} else {
		err = m.readFrame(request[0])
	}
	return 1 + len(m.buffer), err
}

// isCut reports whether a request ended too soon.
func isCut(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }

// pieces is a reader that returns at most n bytes at a time.
type pieces struct {
	b []byte
	n int
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.b) == 0 {
		return 0, io.EOF
	}
	k := copy(b[:min(len(b), p.n)], p.b)
	p.b = p.b[k:]
	return k, nil
}

// Every request of raft's passes, and its end is found, however its bytes arrive.
func TestReadRequests(t *testing.T) {
	for name, request := range requests(t) {
		t.Run(name, func(t *testing.T) {
			for _, n := range []int{1, 2, 3, 7, 1 << 20} {
				size, err := follow(append(bytes.Clone(request), "the next one"...), n)
				if err != nil || size != len(request) {
					t.Errorf("in pieces of %d: %d of %d bytes, %v", n, size, len(request), err)
				}
				if size, err = follow(request[:len(request)-1], n); !isCut(err) {
					t.Errorf("in pieces of %d, without its last byte: %d bytes, %v", n, size, err)
				}
			}
		})
	}
}

// The end of a value is found, whatever its first byte is.
func TestReadEveryKindOfValue(t *testing.T) {
	bytes := func(n int) string { return strings.Repeat("\xc1", n) }
	values := []string{
		"\x07", "\xff", "\x81\x01\x02", "\x92\x01\x02", "\xa3" + bytes(3), "\xc0", "\xc2", "\xc3",
		"\xc4\x03" + bytes(3), "\xc5\x00\x03" + bytes(3), "\xc6\x00\x00\x00\x03" + bytes(3),
		"\xc7\x03" + bytes(4), "\xc8\x00\x03" + bytes(4), "\xc9\x00\x00\x00\x03" + bytes(4),
		"\xca" + bytes(4), "\xcb" + bytes(8),
		"\xcc" + bytes(1), "\xcd" + bytes(2), "\xce" + bytes(4), "\xcf" + bytes(8),
		"\xd0" + bytes(1), "\xd1" + bytes(2), "\xd2" + bytes(4), "\xd3" + bytes(8),
		"\xd4" + bytes(2), "\xd5" + bytes(3), "\xd6" + bytes(5), "\xd7" + bytes(9), "\xd8" + bytes(17),
		"\xd9\x03" + bytes(3), "\xda\x00\x03" + bytes(3), "\xdb\x00\x00\x00\x03" + bytes(3),
		"\xdc\x00\x02\x01\x02", "\xdd\x00\x00\x00\x02\x01\x02",
		"\xde\x00\x01\x01\x02", "\xdf\x00\x00\x00\x01\x01\x02",
	}
	for _, v := range values {
		request := "\x00\x81\xa1x" + v
		if n, err := follow([]byte(request+"\x00\x00"), 100); err != nil || n != len(request) {
			t.Errorf("%q: %d bytes, %v, want %d", v, n, err, len(request))
		}
	}
}

// raft keeps the entries of a request in memory, also when the room for its bytes has the next request. While raft has
// a request, its connection is not the first to be closed.
func TestEntriesOutliveTheNextRequest(t *testing.T) {
	request := func(fill string) *raft.AppendEntriesRequest {
		entry := &raft.Log{Index: 1, Data: []byte(strings.Repeat(fill, 100)), Extensions: []byte(fill)}
		header := raft.RPCHeader{ProtocolVersion: 3, ID: []byte(fill), Addr: []byte(fill)}
		return &raft.AppendEntriesRequest{RPCHeader: header, Entries: []*raft.Log{entry}}
	}
	for name, as := range map[string]func(*raft.AppendEntriesRequest) []byte{
		"MessagePack": func(req *raft.AppendEntriesRequest) []byte { return encode(t, requestAppend, req) },
		"frames":      func(req *raft.AppendEntriesRequest) []byte { return framed(t, req, false) },
	} {
		far, near := net.Pipe()
		defer far.Close()
		in := newInConn(near, newPeerConns(slog.New(slog.DiscardHandler)))
		defer in.Close()
		in.frameSender = request("a").RPCHeader
		go func() { _, _ = far.Write(append(as(request("a")), as(request("b"))...)) }()
		first, err := in.readRequest()
		if err != nil {
			t.Fatal(err)
		}
		if !in.requestComplete {
			t.Errorf("%s: a whole request is taken for one that is being received", name)
		}
		if _, err := in.readRequest(); err != nil {
			t.Fatal(err)
		}
		req := first.(*raft.AppendEntriesRequest)
		got := string(req.ID) + string(req.Addr) + string(req.Entries[0].Extensions) + string(req.Entries[0].Data)
		if want := strings.Repeat("a", 103); got != want {
			t.Errorf("%s: after the next request the first one has %q, want %q", name, got, want)
		}
	}
}

// A request that no member sends is rejected before raft's decoder allocates room for it.
func TestReadRefuses(t *testing.T) {
	list := func(n int) string { return "\xdc" + string([]byte{byte(n >> 8), byte(n)}) }
	tests := []struct{ name, request string }{
		{"type", "\x09"},
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
			if n, err := follow([]byte(tt.request), len(tt.request)); !errors.Is(err, errNotRaftRequest) {
				t.Errorf("%d bytes, %v", n, err)
			}
		})
	}
	if size, err := follow([]byte("\x00\x81\xa1x"+list(maxElements)+strings.Repeat("\xc0", maxElements)), 1); err != nil {
		t.Errorf("a list of %d elements: %d bytes, %v", maxElements, size, err)
	}
}

// send writes a request and reports whether all of it was accepted.
func send(conn net.Conn, b []byte) bool {
	_ = conn.SetWriteDeadline(time.Now().Add(10 * time.Second))
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
	s := newPipes(nil)
	newTestTransport(t, s)
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
		conn := s.connect(uint32(1 + i%3))
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
	synctest.Test(t, func(t *testing.T) {
		s := newPipes(nil)
		newTestTransport(t, s)
		beat := requests(t)["heartbeat"]
		other := s.connect(2)
		theirs := encode(t, requestAppend, &raft.AppendEntriesRequest{RPCHeader: headerOf(2, "m2:1")})
		defer other.Close()
		var conns []net.Conn
		for range maxPeerConns {
			c := s.connect(255)
			defer c.Close()
			if !send(c, beat) || !answered(c) {
				t.Fatal("not served")
			}
			time.Sleep(time.Millisecond) // it is idle from then on
			conns = append(conns, c)
		}
		if !send(conns[0], beat) || !answered(conns[0]) {
			t.Fatal("not served")
		}
		time.Sleep(time.Millisecond)
		conns = append(conns, s.connect(255))
		defer conns[maxPeerConns].Close()
		if _, err := conns[1].Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("the connection that was idle for longest: %v, want its end", err)
		}
		for i, c := range conns {
			if i != 1 && (!send(c, beat) || !answered(c)) {
				t.Errorf("connection %d is closed", i)
			}
		}
		if !send(other, theirs) || !answered(other) {
			t.Error("the connection of another member is closed")
		}
	})
}

// answered reads a reply of raft's, of the length that it has in these tests.
func answered(c net.Conn) bool {
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
	_, err := c.Read(make([]byte, 4096))
	_ = c.SetReadDeadline(time.Time{})
	return err == nil
}

// If requests together are too long, the ones that began first lose their connections, but not the ones that raft has
// already: if only these are left, the newest is rejected.
func TestRequestsTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owner := newPeerConns(slog.New(slog.DiscardHandler))
		in := func() (*inConn, net.Conn) {
			ours, theirs := net.Pipe()
			return owner.addConnEvicting(theirs), ours
		}
		first, far1 := in()
		second, far2 := in()
		third, far3 := in()
		fourth, far4 := in()
		begin := func(c *inConn, n int) error {
			time.Sleep(time.Millisecond)
			owner.noteRequest(c, false)
			return owner.reserveBytes(c, n)
		}
		const half = maxRequestMemory / 2
		if err := errors.Join(begin(first, half), begin(second, 1), begin(third, 1), owner.reserveBytes(second, half-2)); err != nil {
			t.Fatal(err)
		}
		owner.noteRequest(first, true)
		if err := begin(fourth, 1); err != nil {
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
		if err := owner.reserveBytes(fourth, half); !errors.Is(err, errRequestMemory) {
			t.Errorf("%v, although raft has what is there", err)
		}
		for _, c := range []*inConn{fourth, third, second, first} {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
		if owner.requestBytes != 0 {
			t.Errorf("%d bytes are left", owner.requestBytes)
		}
		far1.Close()
		far3.Close()
		far4.Close()
	})
}

// FuzzRequests checks that a request is read in the same way however its bytes arrive, and that raft's decoder finds the
// same end, and takes little memory. A frame that was read is written as the same bytes by a leader.
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
		if err != nil {
			return
		}
		if requestKinds[b[0]].requestForm != inMessagePack {
			checkFrame(t, b[:n])
			return
		}
		r := bufio.NewReader(bytes.NewReader(b[1:]))
		if codec.NewDecoder(r, new(codec.MsgpackHandle)).Decode(requestKinds[b[0]].newRequest()) == nil {
			if left, _ := io.ReadAll(r); len(left) != len(b)-n {
				t.Fatalf("raft read %d bytes, the request has %d", len(b)-len(left), n)
			}
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_ = codec.NewDecoderBytes(b[1:n], new(codec.MsgpackHandle)).Decode(requestKinds[b[0]].newRequest()) // it may fail
		if runtime.ReadMemStats(&after); after.TotalAlloc-before.TotalAlloc > 8<<20+64*uint64(len(b)) {
			t.Fatalf("%d bytes made for a request of %d", after.TotalAlloc-before.TotalAlloc, n)
		}
	})
}
