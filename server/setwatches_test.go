package server

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"rollcall/zk/jute"
)

// A long setWatches is served in parts, between which writes are applied. It misses no change. It has the same place
// among the client's requests as a short one: after earlier writes, before the reads and the writes that follow.
func TestLongSetWatches(t *testing.T) {
	const paths = 4*pathsPerPart + 1
	for _, held := range []bool{false, true} {
		t.Run(fmt.Sprint("behind a write ", held), func(t *testing.T) {
			w := newWorld(t, false, nil)
			c, other := w.connect(), w.connect()
			other.must(jute.OpCreate, create("/r", "", 0))
			rel := w.zxid()
			other.must(jute.OpSetData, setData("/r", "changed"))
			var gone, none []string
			for i := range paths {
				gone, none = append(gone, fmt.Sprint("/gone", i)), append(none, fmt.Sprint("/none", i))
			}
			if held {
				w.hold()
				c.request(jute.OpCreate, create("/first", "", 0))
			}
			c.request(jute.OpSetWatches2, jute.SetWatches2{
				RelativeZxid: rel, Data: pathList(append([]string{"/r"}, gone...)), Exist: pathList(append(none, "/first")), Child: [][]byte{},
				Persistent: [][]byte{}, Recursive: pathList([]string{"/r"}),
			})
			c.request(jute.OpExists, exists("/r", false))
			c.request(jute.OpCreate, create("/r/x", "", 0))
			first := int32(1)
			if held {
				c.expectSilence(1)
				w.release()
				c.expect(1, jute.OK)
				first++
			}
			c.expectEvent(jute.EventNodeDataChanged, "/r")
			for _, path := range gone {
				c.expectEvent(jute.EventNodeDeleted, path)
			}
			if held {
				c.expectEvent(jute.EventNodeCreated, "/first")
			}
			c.expectEvent(jute.EventNodeDataChanged, "/r") // that the recursive watch has missed
			c.expect(first, jute.OK)
			c.expect(first+1, jute.OK)
			c.expectEvent(jute.EventNodeCreated, "/r/x")
			c.expect(first+2, jute.OK)
			for _, path := range []string{none[0], none[paths-1]} { // of the first part and of the last
				other.must(jute.OpCreate, create(path, "", 0))
				c.expectEvent(jute.EventNodeCreated, path)
			}
		})
	}
}

// A long setWatches that cannot be served sets nothing, like a short one.
func TestLongSetWatchesIsRefusedWhole(t *testing.T) {
	w := newWorld(t, false, nil)
	c := w.connect()
	var none [][]byte
	for i := range 2 * pathsPerPart {
		none = append(none, fmt.Append(nil, "/none", i))
	}
	body := jute.SetWatches2{Data: [][]byte{}, Exist: none, Child: [][]byte{nil}, Persistent: [][]byte{}, Recursive: [][]byte{}}
	if h, _ := c.call(jute.OpSetWatches2, body); h.Err != jute.MarshallingError {
		t.Errorf("%v, want %v", h.Err, jute.MarshallingError)
	}
	body.Child = [][]byte{make([]byte, DefaultMaxPath+1)}
	if h, _ := c.call(jute.OpSetWatches2, body); h.Err != jute.BadArguments {
		t.Errorf("%v, want %v", h.Err, jute.BadArguments)
	}
	w.state.RLock()
	defer w.state.RUnlock()
	if n := w.state.Watches().WatchCount(); n != 0 {
		t.Errorf("%d watches are set", n)
	}
}

// Others change the tree before the first part of a long setWatches and between two parts. The client hears of what a part has missed.
func TestLongSetWatchesGivesWay(t *testing.T) {
	const paths = 3 * pathsPerPart
	w := newWorld(t, false, nil)
	c, other := w.connect(), w.connect()
	other.must(jute.OpCreate, create("/kept", "", 0))
	watched := []string{"/kept"}
	for i := range paths {
		watched = append(watched, fmt.Sprint("/gone", i))
	}
	turn := w.takeTurn(w.srv.setWatchesTurn) // as while another client's part is served
	c.request(jute.OpSetWatches2, jute.SetWatches2{
		RelativeZxid: w.zxid(), Data: pathList(watched), Exist: [][]byte{}, Child: [][]byte{}, Persistent: [][]byte{}, Recursive: [][]byte{},
	})
	waitFor(t, func() bool { return w.srv.Stats().OutstandingRequests == 1 })
	first, last := watched[1], watched[paths]
	other.must(jute.OpCreate, create(first, "", 0))
	waitFor(t, func() bool { // the first part, which watches /kept, is served, and the second one waits for its turn
		turn.End()
		turn = w.takeTurn(w.srv.setWatchesTurn)
		w.state.RLock()
		defer w.state.RUnlock()
		return w.state.Watches().WatchCount() == 1
	})
	other.must(jute.OpCreate, create(last, "", 0))
	turn.End()
	c.expectEvent(jute.EventNodeDataChanged, first)
	for _, path := range watched[2:paths] {
		c.expectEvent(jute.EventNodeDeleted, path)
	}
	c.expectEvent(jute.EventNodeDataChanged, last)
	c.expect(1, jute.OK)
}

// A setWatches that is long, or has more paths than are set under one hold of the lock, is read and checked in its turn, so that many that
// come at the same time take one processor together.
func TestLongSetWatchesIsReadInItsTurn(t *testing.T) {
	for _, tt := range []struct {
		name   string
		paths  []string
		inTurn bool
	}{
		{"long", []string{strings.Repeat("/none", maxWatchBytesAtOnce/5)}, true},
		{"many", slices.Repeat([]string{"/"}, pathsPerLock+1), true},
		{"not as many", slices.Repeat([]string{"/"}, pathsPerLock), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, false, nil)
				c := w.connect()
				turn := w.takeTurn(w.srv.setWatchesTurn)
				none := [][]byte{}
				body := jute.SetWatches2{Data: none, Exist: pathList(tt.paths), Child: nil, Persistent: none, Recursive: none} // refused as soon as it is read
				c.request(jute.OpSetWatches2, body)
				answered := make(chan struct{})
				go func() { c.expect(1, jute.MarshallingError); close(answered) }()
				synctest.Wait()
				waits := true
				select {
				case <-answered:
					waits = false
				default:
				}
				if waits != tt.inTurn {
					t.Errorf("it waited while others had the turn: %v, want %v", waits, tt.inTurn)
				}
				turn.End()
				<-answered
			})
		})
	}
}
