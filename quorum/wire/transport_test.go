package wire

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"rollcall/quorum/disk"
)

// No request reports a commit beyond what the request proves.
func TestCommitIsClamped(t *testing.T) {
	tests := []struct {
		prev, entries, commit, want uint64
		durable                     uint64 // 0: all
	}{
		{prev: 0, entries: 0, commit: 0, want: 0}, // a heartbeat
		{prev: 10, entries: 0, commit: 12, want: 10},
		{prev: 10, entries: 3, commit: 12, want: 12},
		{prev: 10, entries: 3, commit: 13, want: 13},
		{prev: 10, entries: 3, commit: 14, want: 13},
		{prev: 0, entries: 2, commit: 9, want: 2},
		{prev: 10, entries: 3, commit: 13, want: 12, durable: 12},
		{prev: 10, entries: 3, commit: 12, want: 12, durable: 12},
		{prev: 10, entries: 0, commit: 10, want: 9, durable: 9},
	}
	synctest.Test(t, func(t *testing.T) {
		seen := make(chan uint64, 1)
		tr := newTestTransport(t, newPipes(func(c net.Conn) {
			member := newFar(t, c)
			go func() {
				for req := range member.sent {
					seen <- req.LeaderCommitIndex
					member.answer(true, "")
				}
			}()
		}))
		var durable atomic.Uint64
		tr.cfg.Durability = fixedDurability{settled: func(index uint64) uint64 { return min(index, cmp.Or(durable.Load(), index)) }}
		send := func(send func(*raft.AppendEntriesRequest) error) (got []uint64) {
			for _, tt := range tests {
				durable.Store(tt.durable)
				req := &raft.AppendEntriesRequest{PrevLogEntry: tt.prev, LeaderCommitIndex: tt.commit}
				for i := range tt.entries {
					req.Entries = append(req.Entries, &raft.Log{Index: tt.prev + 1 + i})
				}
				if err := send(req); err != nil {
					t.Fatal(err)
				}
				got = append(got, <-seen)
			}
			return got
		}
		single := send(func(req *raft.AppendEntriesRequest) error {
			return tr.AppendEntries("2", "m2:1", req, new(raft.AppendEntriesResponse))
		})
		p, err := tr.AppendEntriesPipeline("2", "m2:1")
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		piped := send(func(req *raft.AppendEntriesRequest) error {
			_, err := p.AppendEntries(req, new(raft.AppendEntriesResponse))
			<-p.Consumer()
			return err
		})
		for i, tt := range tests {
			if single[i] != tt.want || piped[i] != tt.want {
				t.Errorf("%+v: sent %d, pipelined %d", tt, single[i], piped[i])
			}
		}
	})
}

// A heartbeat goes to raft's main loop, whatever handler raft sets.
func TestNoHeartbeatHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTestTransport(t, newPipes(nil))
		tr.SetHeartbeatHandler(func(raft.RPC) { t.Error("raft's heartbeat fast path is on") })
		go func() {
			rpc := <-tr.Consumer()
			rpc.Respond(&raft.AppendEntriesResponse{Success: true}, nil)
		}()
		resp, err := tr.receiver.replyToHeartbeat(nil, &raft.AppendEntriesRequest{Term: 5})
		if got, ok := resp.(*raft.AppendEntriesResponse); err != nil || !ok || !got.Success {
			t.Errorf("the heartbeat is answered with %+v, %v", resp, err)
		}
	})
}

// A body that stalls or arrives too slowly ends the connection; waiting for a request does not.
func TestInConnDeadlines(t *testing.T) {
	tests := []struct {
		name  string
		pause time.Duration // before each byte but the first
		ends  time.Duration
	}{
		{"stalls", time.Hour, stallTimeout},
		{"drips", stallTimeout / 2, rateGrace},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPipes(nil)
				newTestTransport(t, p)
				conn := p.connect(2)
				defer conn.Close()
				time.Sleep(24 * time.Hour) // idle
				begin := time.Now()
				for piece := unfinished(1 << 20); ; piece = []byte{1} {
					_ = conn.SetWriteDeadline(time.Now().Add(time.Millisecond))
					if _, err := conn.Write(piece); err != nil {
						break
					}
					_ = conn.SetReadDeadline(time.Now().Add(tt.pause))
					if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
						break
					}
				}
				if took := time.Since(begin); took != tt.ends {
					t.Errorf("ended after %v, want %v", took, tt.ends)
				}
			})
		})
	}
}

// A request that stalls is ended even if its start came with the end of the request before it,
// which was answered meanwhile: the wait for the rest of a request is limited.
func TestSecondRequestStalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipes(nil)
		newTestTransport(t, p)
		conn := p.connect(255)
		defer conn.Close()
		if !send(conn, append(requests(t)["heartbeat"], unfinished(100)...)) || !answered(conn) {
			t.Fatal("the first request is not served")
		}
		begin := time.Now()
		if n, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("read %d bytes, %v, want the end", n, err)
		}
		if took := time.Since(begin); took != stallTimeout {
			t.Errorf("ended after %v, want %v", took, stallTimeout)
		}
	})
}

// After a snapshot no further request is accepted, because a body may look like one.
func TestNothingAfterASnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipes(nil)
		newTestTransport(t, p)
		conn := p.connect(255)
		defer conn.Close()
		heartbeat := requests(t)["heartbeat"]
		if !send(conn, append(requests(t)["snapshot"], heartbeat...)) || !answered(conn) {
			t.Fatal("the snapshot is not answered")
		}
		if n, err := conn.Read(make([]byte, 4096)); !errors.Is(err, io.EOF) {
			t.Errorf("%d bytes more, %v, want the end", n, err)
		}
	})
}

// fixedSnapshots verify each snapshot with one result, and keep what they are given.
type fixedSnapshots struct {
	disk.Data
	verdict  error
	verified string
	rejected error
}

func (s *fixedSnapshots) Verify(contents io.Reader, _ *raft.InstallSnapshotRequest) error {
	b, err := io.ReadAll(contents)
	s.verified = string(b)
	return errors.Join(err, s.verdict)
}

func (s *fixedSnapshots) NoteRejected(_ *raft.InstallSnapshotRequest, why error) { s.rejected = why }
func (*fixedSnapshots) NoteInstalled(uint64)                                     {}

// raft gets a received snapshot, from its start, only if Snapshots.Verify accepts it.
func TestSnapshotIsVerified(t *testing.T) {
	const contents = "the state of the leader"
	wrong := errors.New("its digest is wrong")
	for _, verdict := range []error{nil, wrong} {
		synctest.Test(t, func(t *testing.T) {
			req := &raft.InstallSnapshotRequest{Term: 5, LastLogIndex: 9, Size: int64(len(contents))}
			tr := newTestTransport(t, newPipes(nil))
			received := &fixedSnapshots{verdict: verdict}
			tr.cfg.Snapshots = received
			tr.SetHeartbeatHandler(nil) // raft runs
			reply := make(chan error, 1)
			go func() {
				_, err := tr.receiver.receiveAndInstall(new(raft.Raft), req, strings.NewReader(contents))
				reply <- err
			}()
			synctest.Wait()
			var given []byte
			select {
			case rpc := <-tr.Consumer():
				given, _ = io.ReadAll(rpc.Reader)
				rpc.Respond(&raft.InstallSnapshotResponse{Term: 5}, nil)
			default:
			}
			want := contents
			if verdict != nil {
				want = ""
			}
			if err := <-reply; !errors.Is(err, verdict) || (err == nil) != (verdict == nil) || !errors.Is(received.rejected, verdict) {
				t.Errorf("verified with %v: answered %v, and rejected because of %v", verdict, err, received.rejected)
			}
			if received.verified != contents || string(given) != want {
				t.Errorf("verified with %v: %q is verified, and raft gets %q, want %q", verdict, received.verified, given, want)
			}
		})
	}
}

// A snapshot replaces one of its own or an earlier term, unless that one is complete.
func TestReceipts(t *testing.T) {
	var s snapshotReceipts
	if _, _, ok := s.beingReceived(); ok {
		t.Error("nothing is received yet")
	}
	first := s.tryBeginReceipt(5, 100)
	first.received.Add(40)
	if received, size, ok := s.beingReceived(); received != 40 || size != 100 || !ok {
		t.Errorf("%d of %d bytes, %t, want 40 of 100", received, size, ok)
	}
	if s.tryBeginReceipt(4, 0) != nil {
		t.Error("replaced by one of an earlier term")
	}
	second := s.tryBeginReceipt(5, 0)
	if second == nil || s.completeUnlessReplaced(first) {
		t.Error("not replaced by its own leader's next one")
	}
	s.removeReceipt(first)
	third := s.tryBeginReceipt(6, 0)
	if third == nil || s.completeUnlessReplaced(second) {
		t.Error("not replaced by a later leader's")
	}
	if !s.completeUnlessReplaced(third) || s.tryBeginReceipt(7, 0) != nil {
		t.Error("replaced while raft is given it")
	}
	s.removeReceipt(third)
	if s.tryBeginReceipt(1, 0) == nil {
		t.Error("its place is not free")
	}
}

// A member that gets leadership and does not reply delays the leader by half an election timeout, and the leader hears
// of that.
func TestTimeoutNowIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTestTransport(t, newPipes(func(c net.Conn) { go func() { _, _ = io.Copy(io.Discard, c) }() }))
		var by raft.ServerID
		tr.cfg.Elections = fixedElections{declined: func(id raft.ServerID) { by = id }}
		begin := time.Now()
		err := tr.TimeoutNow("2", "m2:1", &raft.TimeoutNowRequest{}, &raft.TimeoutNowResponse{})
		if took := time.Since(begin); err == nil || took != tr.cfg.ElectionTimeout/2 || by != "2" {
			t.Errorf("after %v: %v, refused by %q", took, err, by)
		}
	})
}

// The members with the longest logs come first, and of those the one that answered last.
func TestContactsLongest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c serverReplies
		for _, answer := range []struct {
			id   raft.ServerID
			last uint64
		}{{named(5), 90}, {named(1), 7}, {named(2), 8}, {named(3), 8}, {named(4), 6}} {
			c.recordReply(answer.id, answer.last)
			time.Sleep(time.Second)
		}
		if got, want := c.longestLogs(4*time.Second, 0), []raft.ServerID{named(3), named(2), named(1), named(4)}; !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
		if got, want := c.longestLogs(4*time.Second, 7), []raft.ServerID{named(3), named(2), named(1)}; !slices.Equal(got, want) {
			t.Errorf("%v, want %v, which reach 7", got, want)
		}
	})
}

// Each disk that is wiped leaves a server that never replies again. The oldest ones are forgotten.
func TestContactsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c serverReplies
		for n := range uint64(3 * maxRepliedServers) {
			c.recordReply(Peer{ID: 3, DiskID: disk.ID(n + 1)}.ServerID(), 1)
			c.recordReply(named(1), 1)
			time.Sleep(time.Second)
		}
		if newest := (Peer{ID: 3, DiskID: 3 * maxRepliedServers}).ServerID(); len(c.lastReplies) != maxRepliedServers ||
			c.lastReplyAt(named(1)).IsZero() || c.lastReplyAt(newest).IsZero() {
			t.Errorf("%d servers, want %d; member 1 answered at %v", len(c.lastReplies), maxRepliedServers, c.lastReplyAt(named(1)))
		}
	})
}

// membersAt treats connections to the addresses in names as connections to members.
type membersAt struct {
	*pipes
	of map[raft.ServerAddress]uint32
}

func (m membersAt) Dial(to raft.ServerAddress, limit time.Duration) (net.Conn, error) {
	conn, err := m.pipes.Dial(to, limit)
	return &Conn{Conn: conn, PeerID: m.of[to], PeerDisk: testDisk(m.of[to])}, err
}

// When a member has moved, the connections to its former address end: idle ones, and those in use. No other is opened
// there. Those to other addresses stay.
func TestFormerAddressesAreLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fars []*far
		stream := membersAt{newPipes(func(c net.Conn) { fars = append(fars, newFar(t, c)) }), map[raft.ServerAddress]uint32{"m2:1": 2, "m2b:1": 2, "m3:1": 3}}
		at := map[raft.ServerID]raft.ServerAddress{named(2): "m2:1", named(3): "m3:1"}
		d := &dialer{streamLayer: stream, callTimeout: time.Minute, addressOf: func(server raft.ServerID) (raft.ServerAddress, bool) {
			addr, known := at[server]
			return addr, known
		}}
		for _, to := range []raft.ServerAddress{"m2:1", "m2:1", "m3:1", "m3:1"} {
			c, err := d.getConn(to)
			if err != nil {
				t.Fatal(err)
			}
			if len(fars)%2 == 0 {
				d.idlePool(to) <- c // the other one is in use
			}
		}
		at[named(2)] = "m2b:1"
		d.closeObsolete()
		synctest.Wait()
		for i, f := range fars {
			select {
			case <-f.ended:
				if i >= 2 {
					t.Errorf("connection %d, to a member that has not moved, has ended", i)
				}
			default:
				if i < 2 {
					t.Errorf("connection %d, to a former address, is open", i)
				}
			}
		}
		if c, err := d.getConn("m2:1"); !errors.Is(err, errAddressChanged) {
			t.Errorf("a connection to the former address: %v, %v", c, err)
		}
		if c, err := d.getConn("m2b:1"); err != nil || c.peerID != 2 {
			t.Errorf("a connection to the new address: %+v, %v", c, err)
		}
		if _, err := d.getConn("m3:1"); err != nil || len(fars) != 6 {
			t.Errorf("%d connections were opened, want 6, because one was idle: %v", len(fars), err)
		}
	})
}

// An idle connection that was closed here, because another process of its disk has said hello, is not used again. A
// request for a vote that fails is not repeated before the next timeout.
func TestClosedIdleConnsAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fars []*far
		d := &dialer{streamLayer: newPipes(func(c net.Conn) { fars = append(fars, newFar(t, c)) }), callTimeout: time.Minute, addressOf: nowhere}
		defer d.close()
		var idle []*outConn
		for range maxIdleConns {
			c, err := d.getConn("m2:1")
			if err != nil {
				t.Fatal(err)
			}
			idle = append(idle, c)
		}
		for i, c := range idle {
			if d.putIdle("m2:1", c); i < maxIdleConns-1 {
				_ = c.Conn.Close() // as processTable does
			}
		}
		if c, err := d.getConn("m2:1"); err != nil || c != idle[maxIdleConns-1] {
			t.Errorf("%v, %v, want the connection that is open", c, err)
		}
		c, err := d.getConn("m2:1")
		if err != nil || len(fars) != maxIdleConns+1 || c.SetDeadline(time.Time{}) != nil {
			t.Errorf("%d connections were opened, %v, want a new one", len(fars), err)
		}
		left := 0
		d.openConns.Range(func(any, any) bool { left++; return true })
		if left != 2 {
			t.Errorf("%d connections are remembered, want 2", left)
		}
	})
}

// A request that is meant for the disk a of member 3 goes out on no connection to its disk b, which has come to its address:
// raft on b would take it for its own. It goes out if it is meant for b.
func TestRequestsAreMeantForDisks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		come := make(arrivals)
		l := NewListener(come, testHello(3), nil) // disk b
		defer l.Close()
		heard := make(chan *raft.AppendEntriesRequest, 10)
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				member := newFar(t, c)
				go func() {
					for req := range member.sent {
						heard <- req
						member.answer(true, "")
					}
				}()
			}
		}()
		book := testBook(1, testPeers)
		stream := NewStream(nil, NewHello(book), func(context.Context, string) (net.Conn, error) { return come.from("m1:1"), nil })
		d := &dialer{streamLayer: stream, callTimeout: time.Second, addressOf: nowhere}
		defer d.close()
		b := server(3, "m3:3888")
		a := b
		a.DiskID++
		req := &raft.AppendEntriesRequest{RPCHeader: headerOf(1, "m1:3888"), Term: 1}
		resp := new(raft.AppendEntriesResponse)
		for range 2 { // the second time, b has an idle connection
			if err := d.call(a.ServerAddress(), requestAppend, req, 0, resp); !errors.Is(err, errHelloRejected) {
				t.Errorf("meant for a: %v", err)
			}
			synctest.Wait()
			if len(heard) > 0 {
				t.Error("b has got what was meant for a")
			}
			if err := d.call(b.ServerAddress(), requestAppend, req, 0, resp); err != nil || len(heard) != 1 {
				t.Errorf("meant for b: %v, %d requests", err, len(heard))
			}
			<-heard
		}
	})
}

// When a server has left raft's configuration, the idle connections to it end, and their places are given back.
// Connections in use stay until their user ends them, because raft notifies a server of its removal.
func TestIdleConnectionsToRemovedServersEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fars []*far
		stream := membersAt{newPipes(func(c net.Conn) { fars = append(fars, newFar(t, c)) }), map[raft.ServerAddress]uint32{"m2:1": 2, "m3:1": 3}}
		at := map[raft.ServerID]raft.ServerAddress{named(2): "m2:1", named(3): "m3:1"}
		d := &dialer{streamLayer: stream, callTimeout: time.Minute, addressOf: func(server raft.ServerID) (raft.ServerAddress, bool) {
			addr, known := at[server]
			return addr, known
		}}
		defer d.close()
		var conns []*outConn
		for _, to := range []raft.ServerAddress{"m2:1", "m2:1", "m2:1", "m3:1"} {
			c, err := d.getConn(to)
			if err != nil {
				t.Fatal(err)
			}
			conns = append(conns, c)
		}
		for _, c := range conns[1:] { // the first one is in use
			d.putIdle(c.serverAddress, c)
		}
		delete(at, named(2))
		d.closeObsolete()
		synctest.Wait()
		for i, f := range fars {
			gone := false
			select {
			case <-f.ended:
				gone = true
			default:
			}
			if want := i == 1 || i == 2; gone != want {
				t.Errorf("connection %d has ended: %t, want %t", i, gone, want)
			}
		}
		if _, left := d.idleConns.Load(raft.ServerAddress("m2:1")); left {
			t.Error("the address of the removed server still has room for idle connections")
		}
		if c, err := d.getConn("m3:1"); err != nil || c != conns[3] {
			t.Errorf("the idle connection to another server is gone: %v", err)
		}
	})
}
