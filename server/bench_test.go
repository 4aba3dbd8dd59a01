package server

import (
	"strings"
	"testing"
	"time"

	"rollcall/jute"
)

func BenchmarkGet(b *testing.B) {
	benchmarkCalls(b, jute.OpGetData, getData("/bench", false))
}

func BenchmarkSet(b *testing.B) {
	benchmarkCalls(b, jute.OpSetData, setData("/bench", strings.Repeat("x", 100)))
}

// benchmarkCalls measures one request after another through the whole server, over a
// pipe, with a log that applies at once.
func benchmarkCalls(b *testing.B, op jute.Op, rec record) {
	w := newWorld(b, false, nil)
	c := w.connect()
	c.must(jute.OpCreate, create("/bench", strings.Repeat("x", 100), 0))
	_ = c.SetDeadline(time.Time{})
	request := frameOf(jute.RequestHeader{Xid: 1, Op: op}, rec)
	var reply []byte
	b.ReportAllocs()
	for b.Loop() {
		c.write(request)
		var err error
		if reply, err = jute.ReadFrame(c.in, reply, 1<<20); err != nil {
			b.Fatal(err)
		}
	}
}
