package server

import (
	"fmt"
	"testing"
	"testing/synctest"

	"rollcall/zk/jute"
)

// newStoring returns a world whose member has stored entry 8, which writes /a and /b, and entry 9, which writes /c.
func newStoring(t *testing.T, tcp bool) *world {
	return newWorld(t, tcp, func(c *Config) {
		m := c.Member.(*fakeMember)
		m.stored = map[string]uint64{"/a": 8, "/b": 8, "/c": 9}
		m.awaited, m.applied = make(chan uint64, 1), make(chan struct{}, 1)
	})
}

// A read waits until the entries that write its paths are applied, and then shows them. The requests after it wait for their turn.
func TestReadWaitsForStoredEntry(t *testing.T) {
	multi := func(paths ...string) record {
		var steps []jute.MultiOp
		for _, path := range paths {
			steps = append(steps, jute.MultiOp{Op: jute.OpGetData, GetData: jute.GetDataRequest{Path: []byte(path)}})
		}
		return raw(jute.AppendMulti(nil, steps))
	}
	for _, tcp := range []bool{false, true} {
		for _, tt := range []struct {
			op    jute.Op
			rec   record
			index uint64 // 0: it does not wait
		}{
			{jute.OpExists, exists("/a", false), 8},
			{jute.OpGetData, getData("/a", true), 8},
			{jute.OpGetChildren, jute.GetChildrenRequest{Path: []byte("/a")}, 8},
			{jute.OpGetChildren2, jute.GetChildrenRequest{Path: []byte("/a")}, 8},
			{jute.OpGetACL, jute.GetACLRequest{Path: []byte("/a")}, 8},
			{jute.OpMultiRead, multi("/", "/c", "/a"), 9},
			{jute.OpExists, exists("/", false), 0},
			{jute.OpMultiRead, multi("/"), 0},
		} {
			t.Run(fmt.Sprintf("%v for %d, tcp=%t", tt.op, tt.index, tcp), func(t *testing.T) {
				w := newStoring(t, tcp)
				c, writer := w.connect(), w.connect()
				c.request(tt.op, tt.rec)
				go c.request(jute.OpGetData, getData("/", false)) // a pipe takes it when it is read
				if tt.index == 0 {
					c.expect(1, jute.OK)
					c.expect(2, jute.OK)
					return
				}
				if index := <-w.awaited; index != tt.index {
					t.Errorf("waits for entry %d, want %d", index, tt.index)
				}
				for _, path := range []string{"/a", "/c"} {
					if h, _ := writer.call(jute.OpCreate, create(path, "", 0)); h.Err != jute.OK {
						t.Fatal(h.Err)
					}
				}
				w.applied <- struct{}{}
				c.expect(1, jute.OK)
				c.expect(2, jute.OK)
			})
		}
	}
}

// Of reads that came together only one waits, however many there are. One that comes later waits again.
func TestReadsThatCameTogetherWaitOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newStoring(t, false)
		c := w.connect()
		var together []byte
		for range 4 {
			c.xid++
			together = append(together, frameOf(jute.RequestHeader{Xid: c.xid, Op: jute.OpExists}, exists("/a", false))...)
		}
		c.write(together)
		<-w.awaited
		w.applied <- struct{}{}
		synctest.Wait()
		if len(w.awaited) > 0 {
			t.Fatal("a second read waits")
		}
		for xid := range int32(4) {
			c.expect(xid+1, jute.NoNode)
		}
		c.request(jute.OpExists, exists("/a", false))
		<-w.awaited
		w.applied <- struct{}{}
		c.expect(5, jute.NoNode)
	})
}

// A read behind a write of its own connection does not wait: its reply comes after the write's anyway, and the requests behind it
// would be held up.
func TestReadBehindAWriteDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newStoring(t, false)
		c := w.connect()
		w.hold()
		c.request(jute.OpCreate, create("/a", "", 0))
		c.request(jute.OpExists, exists("/a", false))
		c.request(jute.OpCreate, create("/b", "", 0))
		synctest.Wait()
		if n := w.countSubmitted(); n != 2 || len(w.awaited) > 0 {
			t.Errorf("%d writes are with the member, want 2; %d reads wait for an entry", n, len(w.awaited))
		}
		w.release()
		for xid := range int32(3) {
			c.expect(xid+1, jute.OK)
		}
	})
}
