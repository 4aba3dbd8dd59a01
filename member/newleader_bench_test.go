package member

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	protobuf "google.golang.org/protobuf/proto"

	"rollcall/proto"
	"rollcall/sessiontracker"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// BenchmarkNewLeader measures what apply does for a new leader's TermStart: making the table of all
// replicated sessions. ROLLCALL_SESSIONS sets their number; the default is a million, or few with
// -short.
func BenchmarkNewLeader(b *testing.B) {
	n := 1_000_000
	if testing.Short() {
		n = 10_000
	}
	if text := os.Getenv("ROLLCALL_SESSIONS"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			b.Fatal(err)
		}
	}
	state := manySessions(b, n)
	b.Run(fmt.Sprintf("sessions=%d", n), func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			table := sessiontracker.NewGlobalTable(time.Now(), 2*time.Second, sessionSeeds(state))
			if got := table.Len(); got != n {
				b.Fatalf("%d sessions in the table, want %d", got, n)
			}
		}
	})
}

// manySessions returns a state with n sessions of member 1.
func manySessions(b *testing.B, n int) *znode.State {
	b.Helper()
	state, index, seq := znode.New(znode.Config{}), uint64(0), uint64(0)
	apply := func(txns ...*proto.Txn) {
		index++
		if err := state.ApplyEntry(index, 1, &proto.Entry{Format: 1, Term: 1, Nonce: 7, Txns: txns}); err != nil {
			b.Fatal(err)
		}
	}
	body := func(m protobuf.Message) []byte {
		text, err := protobuf.Marshal(m)
		if err != nil {
			b.Fatal(err)
		}
		return text
	}
	apply(&proto.Txn{Op: int32(jute.OpTermStart), Body: body(&proto.TermStart{Nonce: 7})})
	apply(&proto.Txn{Member: 1, Incarnation: 1, Seq: 1, Op: int32(jute.OpAnnounce), Body: body(&proto.Announce{})})
	open := body(&proto.OpenSession{TimeoutMs: 10_000, Password: make([]byte, 16), Address: "10.0.0.1:1"})
	for from := 0; from < n; from += 1000 {
		var txns []*proto.Txn
		for i := from; i < min(from+1000, n); i++ {
			seq++
			txns = append(txns, &proto.Txn{Member: 1, Incarnation: 1, Seq: seq, Session: 1<<56 + int64(i), Op: int32(jute.OpCreateSession), Body: open})
		}
		apply(txns...)
	}
	return state
}
