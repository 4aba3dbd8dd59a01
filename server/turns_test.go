package server

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/internal/admission"
	"rollcall/zk/jute"
)

// repeatedList is a multiRead of the children of /list, so many times.
func repeatedList(times int) record {
	ops := make([]jute.MultiOp, times)
	for i := range ops {
		ops[i] = jute.MultiOp{Op: jute.OpGetChildren, GetChildren: jute.GetChildrenRequest{Path: []byte("/list")}}
	}
	return raw(jute.AppendMulti(nil, ops))
}

func longSetWatches() record {
	var none []string
	for i := range pathsPerPart {
		none = append(none, fmt.Sprint("/none", i))
	}
	return jute.SetWatches2{Data: [][]byte{}, Exist: pathList(none), Child: [][]byte{}, Persistent: [][]byte{}, Recursive: [][]byte{}}
}

// A multiRead whose reply is certainly too long is rejected while others have the turn, and copies nothing. One whose reply fits is
// served, however short its names are, and one that only turns out to be too long is rejected in its turn.
func TestTooLongMultiReadNeedsNoTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most, children = 64 << 10, maxStepsUnderLock + 1
		w := newWorld(t, false, func(cfg *Config) { cfg.Limits.MaxUnread = most })
		c := w.connect()
		c.must(jute.OpCreate, create("/list", "", 0))
		bytesPerList := len(c.grow("/list", "n", children))
		surelyTooLong := most/children/minNameBytes + 1
		others := w.takeTurn(w.srv.longReadTurn)
		for _, times := range []int{surelyTooLong, 50_000} {
			if h, _ := c.call(jute.OpMultiRead, repeatedList(times)); h.Err != jute.MarshallingError || h.Zxid != w.zxid() {
				t.Errorf("%d times: %v, zxid %x; want %v, %x", times, h.Err, h.Zxid, jute.MarshallingError, w.zxid())
			}
		}
		others.End()
		c.must(jute.OpMultiRead, repeatedList((most-1<<10)/bytesPerList))
		if h, _ := c.call(jute.OpMultiRead, repeatedList(surelyTooLong-1)); h.Err != jute.MarshallingError {
			t.Errorf("%v, want %v", h.Err, jute.MarshallingError)
		}
	})
}

// A multiRead that is rejected is decoded up to the operation that makes it too long, unless it shows a write of its
// client. In that case, and if it fits, each path is searched once.
func TestTooLongMultiReadIsDecodedInPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const children = maxStepsUnderLock + 1
		w := newWorld(t, false, func(cfg *Config) { cfg.Limits.MaxUnread = 64 << 10 })
		c := w.connect()
		c.must(jute.OpCreate, create("/list", "", 0))
		c.grow("/list", "n", children)
		lookedUp := func() int { return int(w.numLookedUp.Swap(0)) }
		lookedUp()
		if h, _ := c.call(jute.OpMultiRead, repeatedList(50_000)); h.Err != jute.MarshallingError || lookedUp() != 0 {
			t.Errorf("%v, and its paths were looked up", h.Err)
		}
		c.must(jute.OpMultiRead, repeatedList(2))
		if n := lookedUp(); n != 2 {
			t.Errorf("%d paths were looked up, want 2", n)
		}
		var deletes []jute.MultiOp
		for i := range children {
			deletes = append(deletes, jute.MultiOp{Op: jute.OpDelete, Delete: jute.DeleteRequest{Path: fmt.Appendf(nil, "/list/n%05d", i), Version: -1}})
		}
		w.hold()
		xid := c.xid
		c.request(jute.OpMulti, raw(jute.AppendMulti(nil, deletes)))
		c.request(jute.OpMultiRead, repeatedList(1000))
		synctest.Wait()
		w.release()
		c.expect(xid+1, jute.OK)
		c.expect(xid+2, jute.OK)
	})
}

// Of multiReads with many operations, one is estimated at a time. Those with few operations do not wait for that.
func TestLongMultiReadsAreEstimatedInTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, false, nil)
		c, long := w.connect(), w.connect()
		c.must(jute.OpCreate, create("/list", "", 0))
		others := w.takeTurn(w.srv.estimateTurn)
		long.request(jute.OpMultiRead, repeatedList(10*opsPerLock))
		c.must(jute.OpMultiRead, repeatedList(2))
		long.expectSilence(time.Second)
		others.End()
		long.expect(long.xid, jute.OK)
	})
}

// A multiRead is not too long because of nodes that its client may not read: their results are errors.
func TestUnreadableNodesAreShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, false, func(cfg *Config) { cfg.Limits.MaxUnread = 64 << 10 })
		c := w.connect()
		c.must(jute.OpCreate, create("/list", "", 0))
		c.grow("/list", "n", maxStepsUnderLock+1)
		c.must(jute.OpSetACL, jute.SetACLRequest{Path: []byte("/list"), Version: -1, ACL: []jute.ACL{{
			Perms: jute.PermAll, ID: jute.ID{Scheme: []byte("digest"), ID: []byte("somebody:x")},
		}}})
		c.must(jute.OpMultiRead, repeatedList(100))
	})
}

// Long reads and long setWatches do not wait for each other.
func TestLongReadsAndSetWatchesHaveTurnsOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, false, nil)
		c := w.connect()
		c.must(jute.OpCreate, create("/list", "", 0))
		c.grow("/list", "n", maxStepsUnderLock+1)
		reads := w.takeTurn(w.srv.longReadTurn)
		c.must(jute.OpSetWatches2, longSetWatches())
		reads.End()
		defer w.takeTurn(w.srv.setWatchesTurn).End()
		c.must(jute.OpGetChildren, jute.GetChildrenRequest{Path: []byte("/list")})
	})
}

// A cheap read gets its reply before earlier expensive reads, and a setWatches of one part before the ones of many
// parts.
func TestLittleWorkGoesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, false, nil)
		first := w.connect()
		first.must(jute.OpCreate, create("/list", "", 0))
		first.grow("/list", "n", maxStepsUnderLock+1)
		var many []string
		for i := range 4 * pathsPerPart {
			many = append(many, fmt.Sprint("/many", i))
		}
		order := make(chan string, 100)
		ask := func(name string, op jute.Op, rec record) {
			c := w.connect()
			c.request(op, rec)
			go func() {
				if _, err := c.read(); err != nil {
					t.Error(err)
				}
				order <- name
			}()
			synctest.Wait()
		}
		// servedBefore returns the requests that are served before work of so many steps.
		servedBefore := func(of *admission.FairTurn, steps int, first *admission.Turn) (names []string) {
			next := make(chan *admission.Turn)
			go func() {
				turn, err := of.Take(t.Context(), "somebody else", steps)
				if err != nil {
					t.Error(err)
				}
				next <- turn
			}()
			synctest.Wait()
			first.End()
			turn := <-next
			synctest.Wait()
			for len(order) > 0 {
				names = append(names, <-order)
			}
			turn.End()
			return names
		}
		reads, watches := w.takeTurn(w.srv.longReadTurn), w.takeTurn(w.srv.setWatchesTurn)
		for range 5 {
			ask("much", jute.OpMultiRead, repeatedList(50))
			ask("many", jute.OpSetWatches2, jute.SetWatches2{
				Data: [][]byte{}, Exist: pathList(many), Child: [][]byte{}, Persistent: [][]byte{}, Recursive: [][]byte{},
			})
		}
		ask("little", jute.OpGetChildren, jute.GetChildrenRequest{Path: []byte("/list")})
		if got := servedBefore(w.srv.longReadTurn, 8*maxStepsUnderLock, reads); !slices.Equal(got, []string{"little"}) {
			t.Errorf("%q are served first", got)
		}
		for range 5 {
			<-order
		}
		ask("few", jute.OpSetWatches2, longSetWatches())
		if got := servedBefore(w.srv.setWatchesTurn, 7*pathsPerPart, watches); !slices.Equal(got, []string{"few"}) {
			t.Errorf("%q are served first", got)
		}
		for range 5 {
			<-order
		}
	})
}

// A long read gives way to a shorter one between two slices.
func TestPacerGivesWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		of, served := admission.NewFairTurn(maxShortSteps), false
		long, err := of.Take(t.Context(), "a", 10*stepsPerSlice)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			if short, err := of.Take(t.Context(), "b", stepsPerSlice); err == nil {
				served = true
				short.End()
			}
		}()
		synctest.Wait()
		p := newPacer(t.Context(), long, 10*stepsPerSlice)
		if !p.step(stepsPerSlice-1) || served {
			t.Error("it gives way in the middle of a slice")
		}
		if !p.step(1) || !served {
			t.Error("it does not give way after a slice")
		}
		long.End()
	})
}

// A multiRead whose connection ends while it gives way reads no further operation, and leaves the turn to those who have
// it and wait for it.
func TestInterruptedMultiReadEndsWithItsConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const times, children = 50, 5000
		w := newWorld(t, false, nil)
		c := w.connect()
		c.must(jute.OpCreate, create("/list", "", 0))
		c.grow("/list", "n", children)
		of := w.srv.longReadTurn
		ctx, cancel := context.WithCancel(t.Context())
		long, err := of.Take(ctx, "attacker", times*children)
		if err != nil {
			t.Fatal(err)
		}
		numRunning, release := 0, make(chan struct{})
		honest := func(name string) {
			go func() {
				turn, err := of.Take(t.Context(), name, stepsPerSlice)
				if err != nil {
					t.Error(err)
					return
				}
				numRunning++
				<-release
				turn.End()
			}()
			synctest.Wait()
		}
		honest("one")
		s := &session{tree: w.state, limits: &w.srv.cfg.Limits}
		w.state.RLock()
		frozen := w.state.FreezeTree()
		w.state.RUnlock()
		p := newPacer(ctx, long, times*children)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			defer long.End()
			_, _ = s.multiReadFrom(nil, &frozen, repeatedList(times).Append(nil), nil, p)
		}()
		synctest.Wait()
		honest("two")
		cancel()
		<-ended
		synctest.Wait()
		if numRunning != 1 {
			t.Errorf("%d turns run at once", numRunning)
		}
		if most := stepsPerSlice + stepsPerOp + children; times*children-p.left > most {
			t.Errorf("%d steps, want at most %d: the rest of the slice and nothing after it", times*children-p.left, most)
		}
		close(release)
		synctest.Wait()
	})
}

// While a long request of a client waits, its pings are answered, and other requests are not. The replies to the pings have no zxid,
// because the client has not been notified of all that it watches.
func TestPingsOvertakeLongRequests(t *testing.T) {
	for name, op := range map[string]jute.Op{"read": jute.OpGetChildren, "setWatches": jute.OpSetWatches2} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, false, nil)
				c := w.connect()
				c.must(jute.OpCreate, create("/list", "", 0))
				c.grow("/list", "n", maxStepsUnderLock+1)
				var rec record = jute.GetChildrenRequest{Path: []byte("/list")}
				if op == jute.OpSetWatches2 {
					rec = longSetWatches()
				}
				reads, watches := w.takeTurn(w.srv.longReadTurn), w.takeTurn(w.srv.setWatchesTurn)
				xid := c.xid
				c.request(op, rec)
				c.request(jute.OpExists, exists("/list", false))
				for range 3 {
					c.send(jute.RequestHeader{Xid: jute.XidPing, Op: jute.OpPing})
					if h, _ := c.reply(); h.Xid != jute.XidPing || h.Err != jute.OK || h.Zxid != 0 {
						t.Fatalf("%+v, want the reply to the ping, without a zxid", h)
					}
				}
				reads.End()
				watches.End()
				c.expect(xid+1, jute.OK)
				c.expect(xid+2, jute.OK)
				c.send(jute.RequestHeader{Xid: jute.XidPing, Op: jute.OpPing})
				if h, _ := c.reply(); h.Xid != jute.XidPing || h.Zxid != w.zxid() {
					t.Errorf("%+v, want the reply to the ping with zxid %x", h, w.zxid())
				}
			})
		})
	}
}

// A ping does not overtake a write, which waits for others than this member.
func TestPingsFollowWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, false, nil)
		c := w.connect()
		w.hold()
		c.request(jute.OpCreate, create("/n", "", 0))
		c.send(jute.RequestHeader{Xid: jute.XidPing, Op: jute.OpPing})
		synctest.Wait()
		w.release()
		c.expect(1, jute.OK)
		c.expect(jute.XidPing, jute.OK)
	})
}

// The memory for a list follows from its length, and not from its first name, which a client may have made as long as a path can be.
func TestLongFirstName(t *testing.T) {
	w := newWorld(t, false, nil)
	c := w.connect()
	c.must(jute.OpCreate, create("/list", "", 0))
	c.must(jute.OpCreate, create("/list/!"+strings.Repeat("x", 60_000), "", 0))
	c.grow("/list", "n", maxStepsUnderLock)
	w.state.RLock()
	names, _, _ := w.state.Children([]byte("/list"), nil, nil)
	list := appendChildNames(nil, names, nil)
	w.state.RUnlock()
	if cap(list) > 3*len(list) {
		t.Errorf("%d bytes of memory for a list of %d", cap(list), len(list))
	}
}

// A list of long names is copied a few times while its memory grows, and takes little more memory than its bytes.
func TestLongNames(t *testing.T) {
	w := newWorld(t, false, nil)
	c := w.connect()
	c.must(jute.OpCreate, create("/list", "", 0))
	c.grow("/list", strings.Repeat("x", 200), 5000)
	w.state.RLock()
	defer w.state.RUnlock()
	names, _, _ := w.state.Children([]byte("/list"), nil, nil)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	list := appendChildNames(nil, names, nil)
	runtime.ReadMemStats(&after)
	if allocated := after.TotalAlloc - before.TotalAlloc; allocated > uint64(len(list))*3 {
		t.Errorf("%d bytes were allocated for a list of %d", allocated, len(list))
	}
	if cap(list) > len(list)*5/4 {
		t.Errorf("%d bytes of memory for a list of %d", cap(list), len(list))
	}
}
