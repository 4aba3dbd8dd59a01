package wire

import (
	"cmp"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
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
		var durable uint64
		tr.cfg.Durable = func(index uint64) uint64 { return min(index, cmp.Or(durable, index)) }
		send := func(send func(*raft.AppendEntriesRequest) error) (got []uint64) {
			for _, tt := range tests {
				durable = tt.durable
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
		resp, err := tr.answerHeartbeat(nil, &raft.AppendEntriesRequest{Term: 5})
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

// A snapshot replaces one of its own or an earlier term, unless that one is complete.
func TestReceipts(t *testing.T) {
	var s receipts
	first := s.begin(5)
	if s.begin(4) != nil {
		t.Error("replaced by one of an earlier term")
	}
	second := s.begin(5)
	if second == nil || s.complete(first) {
		t.Error("not replaced by its own leader's next one")
	}
	s.remove(first)
	third := s.begin(6)
	if third == nil || s.complete(second) {
		t.Error("not replaced by a later leader's")
	}
	if !s.complete(third) || s.begin(7) != nil {
		t.Error("replaced while raft is given it")
	}
	s.remove(third)
	if s.begin(1) == nil {
		t.Error("its place is not free")
	}
}

// A member that gets leadership and does not answer holds the leader up for half an election timeout,
// and the leader hears of that.
func TestTimeoutNowIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTestTransport(t, newPipes(func(c net.Conn) { go func() { _, _ = io.Copy(io.Discard, c) }() }))
		var by raft.ServerID
		tr.cfg.Declined = func(id raft.ServerID, _ error) { by = id }
		begin := time.Now()
		err := tr.TimeoutNow("2", "m2:1", &raft.TimeoutNowRequest{}, &raft.TimeoutNowResponse{})
		if took := time.Since(begin); err == nil || took != tr.cfg.Election/2 || by != "2" {
			t.Errorf("after %v: %v, refused by %q", took, err, by)
		}
	})
}

// The members with the longest logs come first, and of those the one that answered last.
func TestContactsLongest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c contacts
		for _, answer := range []struct {
			id   raft.ServerID
			last uint64
		}{{Peer{ID: 5}.ServerID(), 90}, {Peer{ID: 1}.ServerID(), 7}, {Peer{ID: 2}.ServerID(), 8}, {Peer{ID: 3}.ServerID(), 8}, {Peer{ID: 4}.ServerID(), 6}} {
			c.note(answer.id, answer.last)
			time.Sleep(time.Second)
		}
		if got, want := c.longest(4*time.Second, 0), []uint32{3, 2, 1, 4}; !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
		if got, want := c.longest(4*time.Second, 7), []uint32{3, 2, 1}; !slices.Equal(got, want) {
			t.Errorf("%v, want %v, which reach 7", got, want)
		}
	})
}

// membersAt makes connections to addresses that of names those of members.
type membersAt struct {
	*pipes
	of map[raft.ServerAddress]uint32
}

func (m membersAt) Dial(to raft.ServerAddress, limit time.Duration) (net.Conn, error) {
	conn, err := m.pipes.Dial(to, limit)
	return &Conn{Conn: conn, Peer: m.of[to]}, err
}

// When a member has moved, the connections to its former address end: idle ones, and those in use. No other is opened
// there. Those to other addresses stay.
func TestFormerAddressesAreLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fars []*far
		stream := membersAt{newPipes(func(c net.Conn) { fars = append(fars, newFar(t, c)) }), map[raft.ServerAddress]uint32{"m2:1": 2, "m2b:1": 2, "m3:1": 3}}
		at := map[uint32]raft.ServerAddress{2: "m2:1", 3: "m3:1"}
		d := &dialer{stream: stream, timeout: time.Minute, at: func(member uint32) (raft.ServerAddress, bool) {
			addr, known := at[member]
			return addr, known
		}}
		for _, to := range []raft.ServerAddress{"m2:1", "m2:1", "m3:1", "m3:1"} {
			c, err := d.get(to)
			if err != nil {
				t.Fatal(err)
			}
			if len(fars)%2 == 0 {
				d.pool(to) <- c // the other one is in use
			}
		}
		at[2] = "m2b:1"
		d.closeFormer()
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
		if c, err := d.get("m2:1"); !errors.Is(err, errMoved) {
			t.Errorf("a connection to the former address: %v, %v", c, err)
		}
		if c, err := d.get("m2b:1"); err != nil || c.peer != 2 {
			t.Errorf("a connection to the new address: %+v, %v", c, err)
		}
		if _, err := d.get("m3:1"); err != nil || len(fars) != 6 {
			t.Errorf("%d connections were opened, want 6, because one was idle: %v", len(fars), err)
		}
	})
}
