package server

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/zk/jute"
)

// throttledTo returns a change of a Config: it has this throttle of requests.
func throttledTo(t RequestThrottle) func(*Config) {
	return func(c *Config) { c.Limits.RequestThrottle = t }
}

// At most so many requests of all clients wait for the log. Further ones wait, first come, first served, and pings do not.
func TestRequestThrottle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, false, throttledTo(RequestThrottle{MaxRequests: 2}))
		var clients []*client
		for range 5 {
			clients = append(clients, w.connect())
		}
		reader := w.connect()
		w.hold()
		for _, c := range clients {
			c.request(jute.OpSetData, setData("/", ""))
			synctest.Wait()
		}
		if n, waiting := w.countSubmitted(), w.srv.held.count(); n != 2 || waiting != 3 {
			t.Fatalf("%d writes are on their way and %d requests wait, want 2 and 3", n, waiting)
		}
		go reader.write(reader.frame(jute.OpExists, exists("/", false)))
		synctest.Wait()
		reader.write(reader.frame(jute.OpPing))
		if h, _ := reader.reply(); h.Xid != jute.XidPing {
			t.Errorf("a read overtook writes: xid %d", h.Xid)
		}
		for i, c := range clients[:3] {
			w.step()
			synctest.Wait()
			c.expect(c.xid, jute.OK)
			if n := w.countSubmitted(); n != 2 {
				t.Errorf("after reply %d, %d writes are on their way, want 2", i, n)
			}
		}
		w.release()
		for _, c := range clients[3:] {
			c.expect(c.xid, jute.OK)
		}
		reader.expect(reader.xid, jute.OK)
		synctest.Wait()
		if n := w.srv.requestThrottle.inProcess; n != 0 {
			t.Errorf("%d places are taken after all requests", n)
		}
		if n := w.srv.held.times()["request_throttle"].Count; n != 4 {
			t.Errorf("%d waits are counted, want 4", n)
		}
	})
}

// A write that waits for its own connection's sync or read takes no place of the throttle meanwhile.
func TestWriteBehindItsReadsHasNoPlace(t *testing.T) {
	for _, full := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, false, throttledTo(RequestThrottle{MaxRequests: 2, StallTime: time.Hour}))
			stuck, other, third := w.connect(), w.connect(), w.connect()
			w.hold()
			stuck.request(jute.OpSync, jute.SyncRequest{Path: []byte("/")})
			if full {
				third.request(jute.OpSetData, setData("/", "3"))
			}
			synctest.Wait()
			stuck.request(jute.OpSetData, setData("/", "1")) // waits for the reply to the sync
			synctest.Wait()
			before := w.countSubmitted()
			if full { // the place of the third client becomes free
				w.step()
				synctest.Wait()
				third.expect(third.xid, jute.OK)
				before = w.countSubmitted()
			}
			other.request(jute.OpSetData, setData("/", "2"))
			synctest.Wait()
			if n := w.countSubmitted() - before; n != 1 {
				t.Errorf("full %t: %d writes of another client are with the member, want 1", full, n)
			}
			w.release()
			other.expect(other.xid, jute.OK)
		})
	}
}

// Reads that are served at once give their places to the next ones, and a client that takes no replies takes no place.
func TestRequestThrottleOfReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, false, throttledTo(RequestThrottle{MaxRequests: 1, StallTime: time.Hour}))
		writer, stuck := w.connect(), w.connect()
		writer.must(jute.OpCreate, create("/big", string(make([]byte, 300<<10)), 0))
		go func() {
			for range 10 {
				if _, err := stuck.Write(frameOf(jute.RequestHeader{Xid: 1, Op: jute.OpGetData}, getData("/big", false))); err != nil {
					return
				}
			}
		}()
		var readers []*client
		for range 20 {
			readers = append(readers, w.connect())
		}
		synctest.Wait()
		w.hold()
		writer.request(jute.OpSetData, setData("/", ""))
		synctest.Wait()
		for _, c := range readers {
			c.request(jute.OpExists, exists("/", false))
		}
		synctest.Wait()
		if n := w.srv.held.count(); n != len(readers) {
			t.Errorf("%d reads wait, want %d", n, len(readers))
		}
		begun := time.Now()
		w.release()
		for _, c := range append(readers, writer) {
			c.expect(c.xid, jute.OK)
		}
		if took := time.Since(begun); took != 0 {
			t.Errorf("requests waited %v for a place that was free", took)
		}
		_ = stuck.Close()
	})
}

// A client that has sent more than the server reads ahead goes past the throttle, and gives back no place that it has not taken.
func TestFloodPastRequestThrottle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, false, throttledTo(RequestThrottle{MaxRequests: 1}))
		writer, flood := w.connect(), w.connect()
		w.hold()
		writer.request(jute.OpSetData, setData("/", ""))
		synctest.Wait()
		const many = 1000 // their frames have more than 16 KiB
		one := frameOf(jute.RequestHeader{Xid: 1, Op: jute.OpExists}, exists("/", false))
		go func() { _, _ = flood.Write(bytes.Repeat(one, many)) }()
		time.Sleep(5 * time.Second)
		flood.expect(1, jute.OK)
		w.release()
		for range many - 1 {
			flood.expect(1, jute.OK)
		}
		synctest.Wait()
		if n := w.srv.requestThrottle.inProcess; n != 0 {
			t.Errorf("%d places are taken after all requests", n)
		}
	})
}

// A connection that ends returns its places, also those for requests that have no result yet.
func TestRequestThrottleForgetsConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, false, throttledTo(RequestThrottle{MaxRequests: 2}))
		gone, waits, next := w.connect(), w.connect(), w.connect()
		w.hold()
		gone.sendAll(gone.frame(jute.OpSetData, setData("/", "1")), gone.frame(jute.OpSetData, setData("/", "2")))
		synctest.Wait()
		waits.request(jute.OpSetData, setData("/", "3"))
		synctest.Wait()
		_ = waits.Close()
		synctest.Wait()
		next.request(jute.OpSetData, setData("/", "4"))
		synctest.Wait()
		if n := w.countSubmitted(); n != 2 {
			t.Fatalf("%d writes are on their way, want 2", n)
		}
		_ = gone.Close()
		synctest.Wait()
		if n := w.countSubmitted(); n < 3 {
			t.Errorf("%d writes were submitted, want 3: the places of a closed connection are lost", n)
		}
		w.release()
		next.expect(next.xid, jute.OK)
		synctest.Wait()
		if n := w.srv.requestThrottle.inProcess; n != 0 {
			t.Errorf("%d places are taken after all requests", n)
		}
	})
}

// What becomes of a request that has waited: ZooKeeper's keys about stale and throttled requests.
func TestStaleRequests(t *testing.T) {
	for name, tt := range map[string]struct {
		throttle RequestThrottle
		leaves   bool   // the client closes its connection
		closes   bool   // and its session before
		want     string // of the request after 15 s: served, closed, throttled or dropped
	}{
		"default":                          {RequestThrottle{}, false, false, "served"},
		"default, client gone":             {RequestThrottle{}, true, false, "dropped"},
		"no connection check, client gone": {RequestThrottle{NoConnectionCheck: true}, true, false, "served"},
		"stale are kept, client gone":      {RequestThrottle{KeepStale: true}, true, false, "served"},
		"stale are kept, session closed":   {RequestThrottle{KeepStale: true}, true, true, "served"},
		"session closed":                   {RequestThrottle{}, true, true, "dropped"},
		"latency check":                    {RequestThrottle{LatencyCheck: true}, false, false, "closed"},
		"latency check, stale are kept":    {RequestThrottle{LatencyCheck: true, KeepStale: true}, false, false, "served"},
		"op wait":                          {RequestThrottle{OpWait: 10 * time.Second}, false, false, "throttled"},
		"longer op wait":                   {RequestThrottle{OpWait: 20 * time.Second}, false, false, "served"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tt.throttle.MaxRequests = 1
				w := newWorld(t, false, throttledTo(tt.throttle))
				writer, c := w.connect(), w.connect()
				w.hold()
				writer.request(jute.OpSetData, setData("/", "1"))
				synctest.Wait()
				c.request(jute.OpSetData, setData("/", "2"))
				synctest.Wait()
				if tt.closes {
					c.write(c.frame(jute.OpCloseSession))
					synctest.Wait()
				}
				if tt.leaves {
					_ = c.Close()
				}
				for range 5 {
					time.Sleep(3 * time.Second)
					writer.write(writer.frame(jute.OpPing))
					if !tt.leaves && tt.want != "closed" {
						c.write(c.frame(jute.OpPing))
						c.expect(jute.XidPing, jute.OK)
					}
				}
				got := ""
				if tt.want == "closed" {
					c.expectClosed()
					got = "closed"
				}
				w.release()
				synctest.Wait()
				switch {
				case got != "":
				case tt.leaves:
					reply := w.connect().must(jute.OpGetData, getData("/", false))
					const data = 4 // its place: the length of the data comes first
					got = map[byte]string{'1': "dropped", '2': "served"}[reply[data]]
				default:
					h, _ := c.reply()
					got = map[jute.Code]string{jute.OK: "served", jute.ThrottledOp: "throttled"}[h.Err]
				}
				if got != tt.want {
					t.Errorf("the request was %q, want %q", got, tt.want)
				}
				if _, lives := w.state.Session(c.id); tt.closes && lives && tt.want == "dropped" {
					t.Error("the end of the session was dropped, too")
				}
				synctest.Wait()
				if n := w.srv.requestThrottle.inProcess; n != 0 {
					t.Errorf("%d places are taken after all requests", n)
				}
			})
		})
	}
}
