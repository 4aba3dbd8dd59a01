package wire

import (
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// down is a member that breaks every connection at its first request until it is up.
type down struct {
	up       atomic.Bool
	beats    atomic.Int32
	requests atomic.Int32
}

func (d *down) serve(f *far) {
	for req := range f.sent {
		if isHeartbeat(req) {
			d.beats.Add(1)
		} else {
			d.requests.Add(1)
		}
		if !d.up.Load() {
			f.conn.Close()
			return
		}
		f.answer(true, "")
	}
}

// A request to a member that is down is held until that member replies to a heartbeat, or until there is no reason to
// wait.
func TestHold(t *testing.T) {
	tests := []struct {
		name string
		end  func(d *down, leads *atomic.Bool, tr *Transport)
	}{
		{"member is up", func(d *down, _ *atomic.Bool, _ *Transport) { d.up.Store(true) }},
		{"term is over", func(_ *down, leads *atomic.Bool, _ *Transport) { leads.Store(false) }},
		{"process ends", func(_ *down, _ *atomic.Bool, tr *Transport) { tr.Close() }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const poll = 20 * time.Millisecond
				wire, leads := new(down), new(atomic.Bool)
				leads.Store(true)
				tr := newTestTransport(t, newPipes(func(c net.Conn) { go wire.serve(newFar(t, c)) }))
				tr.cfg.ElectionTimeout = probesPerElection * poll
				tr.cfg.Elections = fixedElections{isStable: func(term uint64) bool { return term == 5 && leads.Load() }}
				send := func(req raft.AppendEntriesRequest) chan error {
					done := make(chan error, 1)
					go func() { done <- tr.AppendEntries("2", "m2:1", &req, new(raft.AppendEntriesResponse)) }()
					return done
				}
				if err := <-send(raft.AppendEntriesRequest{Term: 5}); err == nil || wire.beats.Load() != 1 {
					t.Errorf("a heartbeat of raft's: %v", err)
				}
				if err := <-send(raft.AppendEntriesRequest{Term: 4, PrevLogEntry: 1}); err == nil || wire.beats.Load() != 1 {
					t.Errorf("a request of an earlier term: %v", err)
				}
				done := send(raft.AppendEntriesRequest{Term: 5, PrevLogEntry: 1})
				time.Sleep(10*poll - poll/2)
				if n := wire.beats.Load(); n != 11 || wire.requests.Load() != 2 || len(done) != 0 {
					t.Errorf("%d attempts in ten polls, %d requests, %d answers", n-1, wire.requests.Load(), len(done))
				}
				tt.end(wire, leads, tr)
				begin := time.Now()
				if <-done == nil {
					t.Error("the request did not fail: raft is to make it anew")
				}
				if took := time.Since(begin); took > poll {
					t.Errorf("held for %v more", took)
				}
			})
		})
	}
}

// A request to a member that is down is held only as long as raft's configuration has the member at that address: after a move the
// next request must go to the new one, and a server that was removed gets none.
func TestHoldEndsWithAddress(t *testing.T) {
	const poll = 20 * time.Millisecond
	listed := server(2, "m2:1").ServerAddress()
	for _, tt := range []struct {
		name  string
		id    raft.ServerID
		to    raft.ServerAddress
		holds bool
	}{
		{"the member stays", named(2), listed, true},
		{"the member has moved", named(2), "m2-old:1", false},
		{"another member has come to its address", named(3), listed, false},
		{"the server was removed", named(4), "m4:1", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				after, _ := leaderless(t) // has 1, 2 and 3
				member, running := new(down), new(atomic.Pointer[raft.Raft])
				tr := newTestTransport(t, newPipes(func(c net.Conn) { go member.serve(newFar(t, c)) }))
				tr.cfg.ElectionTimeout, tr.cfg.Raft = probesPerElection*poll, running.Load
				tr.cfg.Elections = fixedElections{isStable: func(uint64) bool { return true }}
				done := make(chan error, 1)
				go func() {
					done <- tr.AppendEntries(tt.id, tt.to, &raft.AppendEntriesRequest{Term: 5, PrevLogEntry: 1}, new(raft.AppendEntriesResponse))
				}()
				time.Sleep(3*poll - poll/2)
				if len(done) != 0 || member.beats.Load() == 0 {
					t.Fatalf("before raft has a configuration: %d answers, %d heartbeats", len(done), member.beats.Load())
				}
				running.Store(after)
				time.Sleep(3 * poll)
				if holds := len(done) == 0; holds != tt.holds {
					t.Errorf("the request is held: %t, want %t", holds, tt.holds)
				}
				member.up.Store(true)
				if <-done == nil {
					t.Error("the request did not fail: raft is to make it anew")
				}
			})
		})
	}
}
