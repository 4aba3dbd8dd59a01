package server

import (
	"bytes"
	"io"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/operator/clients"
	"rollcall/server/stream"
	"rollcall/zk/jute"
)

// Case 343: a client may close its side after the command, and an argument may come in parts. All of a long reply
// arrives.
func TestWordAnswers(t *testing.T) {
	w := newWorld(t, true, nil)
	half := w.open()
	half.write([]byte("ruok\n"))
	if err := half.Conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(half); string(got) != "imok" || err != nil {
		t.Errorf("half closed: %q, %v", got, err)
	}
	atOnce := w.open()
	atOnce.write([]byte("stmk01234567 and more"))
	inParts := newWorld(t, false, nil).open()
	for _, part := range []string{"st", "mk0", "123456", "7"} {
		inParts.write([]byte(part)) // in memory, a write returns when the part has been read
	}
	for _, long := range []*client{atOnce, inParts} {
		got, err := io.ReadAll(long)
		if err != nil || !bytes.Equal(got, bytes.Repeat([]byte("01234567"), 1<<20)) {
			t.Errorf("%d bytes, %v, want 8 MiB", len(got), err)
		}
	}
}

// A client that reads none of a reply is closed as soon as a silent new connection is. A client that reads a little now
// and then is closed after maxCommandTime. Neither needs memory for the whole reply.
func TestWordSlowReader(t *testing.T) {
	for _, tt := range []struct {
		name, argument string
		drips          bool
		ends           time.Duration
	}{
		{name: "reads nothing", argument: "01234567", ends: DefaultHandshake + testTick},
		{name: "drips", argument: "01234567", drips: true, ends: maxCommandTime},
		{name: "sends no argument", ends: maxCommandTime},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, false, nil)
				c := w.open()
				begun := time.Now()
				c.write([]byte("stmk" + tt.argument))
				var client sync.WaitGroup
				client.Go(func() {
					for err := error(nil); tt.drips && err == nil; {
						time.Sleep(3 * time.Second)
						_, err = c.Read(make([]byte, commandChunkSize))
					}
				})
				for w.srv.Stats().Connections > 0 {
					time.Sleep(100 * time.Millisecond)
				}
				if took := time.Since(begun); took < tt.ends || took > tt.ends+stream.LingerTime {
					t.Errorf("ended after %v, want %v", took, tt.ends)
				}
				if n := w.srv.Stats().EndedByReason["slow_reader"]; n != 1 {
					t.Errorf("%d slow readers: %v", n, w.srv.Stats().EndedByReason)
				}
				_ = c.Close()
				client.Wait()
			})
		})
	}
}

// Operators see the counts and the times of each connection's requests and replies.
func TestConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, false, nil)
		begun := time.Now()
		c := w.connect()
		idle := w.open()
		synctest.Wait()
		shown := func() clients.Connection {
			synctest.Wait()
			return slices.Collect(w.srv.Listing().Connections())[0]
		}
		got := shown()
		want := clients.Connection{
			Number: 1, RemoteAddr: got.RemoteAddr, AwaitsRead: true, PacketsReceived: 1, PacketsSent: 1, Session: c.id, Timeout: 10 * time.Second, EstablishedAt: begun,
			Recent: clients.Recent{Requests: 1}, ReplyCount: 1, LastOp: jute.OpCreateSession, LastXid: 0, LastZxid: got.LastZxid, LastReply: got.LastReply, ExpiresAt: begun.Add(10*time.Second + stream.IdleSlack*testTick),
		}
		if got != want || got.LastZxid == 0 {
			t.Errorf("after the handshake:\n%+v, want\n%+v", got, want)
		}
		time.Sleep(2 * time.Second)
		c.must(jute.OpExists, exists("/", true))
		c.send(jute.RequestHeader{Xid: jute.XidPing, Op: jute.OpPing})
		c.expect(jute.XidPing, jute.OK)
		zxid := got.LastZxid
		got = shown()
		want.PacketsReceived, want.PacketsSent, want.ReplyCount, want.LastOp, want.LastXid, want.LastZxid = 3, 3, 3, jute.OpPing, 1, zxid
		want.Recent = clients.Recent{Requests: 3, Bytes: got.Recent.Bytes, Span: 2 * time.Second} // see TestConnectionRates
		want.LastReply, want.ExpiresAt = 2*time.Second, begun.Add(12*time.Second+stream.IdleSlack*testTick)
		if got != want {
			t.Errorf("after two requests:\n%+v, want\n%+v", got, want)
		}
		w.hold()
		c.request(jute.OpSetData, setData("/", "x"))
		time.Sleep(time.Second)
		if got = shown(); got.QueuedRequests != 1 || got.PacketsReceived != 4 || got.LastOp != jute.OpPing {
			t.Errorf("a write under way: %+v", got)
		}
		w.release()
		c.expectEvent(jute.EventNodeDataChanged, "/")
		c.expect(2, jute.OK)
		got = shown()
		if got.QueuedRequests != 0 || got.PacketsSent != 5 || got.LastOp != jute.OpSetData || got.LastXid != 2 || got.LastZxid <= zxid ||
			got.LastLatency != time.Second || got.MinLatency != 0 || got.MaxLatency != time.Second || got.AvgLatency != time.Second/4 {
			t.Errorf("after a write of a second: %+v", got)
		}
		w.srv.Listing().ResetTraffic()
		if got = shown(); got.PacketsSent != 0 || got.ReplyCount != 0 || got.LastXid != -1 || got.MaxLatency != 0 || got.Session != c.id {
			t.Errorf("after a reset: %+v", got)
		}
		second := slices.Collect(w.srv.Listing().Connections())[1]
		if second.Session != 0 || second.PacketsReceived != 0 || !second.AwaitsRead || second.ExpiresAt != begun.Add(DefaultHandshake) {
			t.Errorf("without a handshake: %+v", second)
		}
		_ = idle.Close()
	})
}

// Only watches on nodes are listed, and each session's watches are in order.
func TestWatchesListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, false, nil)
		a, b, none := w.connect(), w.connect(), w.connect()
		for _, path := range []string{"/a", "/z", "/"} {
			a.call(jute.OpExists, exists(path, true))
		}
		b.call(jute.OpExists, exists("/z", true))
		b.must(jute.OpGetChildren, jute.GetChildrenRequest{Path: []byte("/zookeeper"), Watch: true})
		got := map[jute.SessionID][]string{}
		for id, paths := range w.srv.Listing().Watches() {
			got[id] = paths
		}
		if len(got) != 2 || !slices.Equal(got[a.id], []string{"/", "/a", "/z"}) || !slices.Equal(got[b.id], []string{"/z"}) ||
			got[none.id] != nil {
			t.Errorf("%v", got)
		}
	})
}
