package follower

import (
	"fmt"
	"testing"
	"time"

	protobuf "google.golang.org/protobuf/proto"

	"rollcall/internal/monotonic"
	"rollcall/proto"
	"rollcall/sessiontracker"
	"rollcall/zk/jute"
)

// benchFollower returns a Follower that heard from n sessions.
func benchFollower(b *testing.B, n int) *Follower {
	b.Helper()
	f, err := New(Config{
		Self: self, Boot: ourBoot, Tick: tick, SyncLimit: testSyncLimit, State: &fakeState{}, Clients: &rig{}, Raft: inTerm(1), Peers: &rig{},
		WallClock: time.Now, OnDamage: func(string) {}, OnDivergence: func(string) {},
	})
	if err != nil {
		b.Fatal(err)
	}
	for i := range n {
		f.renewer.touches.Touch(jute.SessionID(self<<56+i), timeout, time.Now())
	}
	return f
}

// BenchmarkPong measures the reply to a ping with n touches: making and encoding it, and decoding it at the leader.
func BenchmarkPong(b *testing.B) {
	for _, n := range []int{10_000, 100_000} {
		f := benchFollower(b, n)
		b.Run(fmt.Sprintf("encode/touches=%d", n), func(b *testing.B) {
			var size int
			b.ReportAllocs()
			for b.Loop() {
				size = 0
				for pong := range f.renewer.flushAsPongs(pingReply{number: 1}) {
					p, err := protobuf.Marshal(pong)
					if err != nil {
						b.Fatal(err)
					}
					size += len(p)
				}
			}
			b.ReportMetric(float64(size)/float64(n), "B/touch")
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/touch")
		})
		b.Run(fmt.Sprintf("decode/touches=%d", n), func(b *testing.B) {
			var parts [][]byte
			for pong := range f.renewer.flushAsPongs(pingReply{number: 1}) {
				p, err := protobuf.Marshal(pong)
				if err != nil {
					b.Fatal(err)
				}
				parts = append(parts, p)
			}
			b.ReportAllocs()
			for b.Loop() {
				for _, p := range parts {
					var pong proto.Pong
					if err := protobuf.Unmarshal(p, &pong); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/touch")
		})
	}
}

// BenchmarkRenew measures an acknowledgement of n touches of sessions that no Vouch waits for.
func BenchmarkRenew(b *testing.B) {
	for _, n := range []int{10_000, 100_000} {
		b.Run(fmt.Sprintf("touches=%d", n), func(b *testing.B) {
			now := time.Now()
			s, touched := newLeases(monotonic.System{}), map[jute.SessionID]sessiontracker.LastTouch{}
			for i := range n {
				id := jute.SessionID(self<<56 + i)
				s.grantLease(id, uint64(i), timeout, now)
				touched[id] = sessiontracker.LastTouch{TimeoutMs: uint32(timeout.Milliseconds())}
			}
			for k := time.Duration(1); b.Loop(); k++ {
				s.renewTouched(sessiontracker.TouchBatch{FirstTouch: now.Add(k), Touches: touched}, nil)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/touch")
		})
	}
}
