package server

import (
	"slices"
	"strings"
	"testing"

	"rollcall/zk/jute"
	"rollcall/znode"
)

// readHistory reads the data at jute.HistoryPath.
func (c *client) readHistory() jute.History {
	c.tb.Helper()
	var r jute.GetDataResponse
	d := jute.NewDecoder(c.must(jute.OpGetData, getData(jute.HistoryPath, false)))
	r.Decode(&d)
	h, ok := jute.ParseHistory(string(r.Data))
	if !ok || d.Err() != nil || r.Stat != (jute.Stat{}) {
		c.tb.Fatalf("%q with %+v is no history", r.Data, r.Stat)
	}
	return h
}

// A client reads which changes its server keeps. What it reads after its watches are set again holds for them: either all
// missed events have come, or the zxid that it has named is older.
func TestHistoryPath(t *testing.T) {
	w := newWorld(t, false, func(cfg *Config) { cfg.EnsembleID = func() [32]byte { return [32]byte{0xab, 31: 0xcd} } })
	c := w.connect()
	seen := c.zxidOf(jute.OpCreate, create("/seen", "", 0))
	want := jute.History{Ensemble: "ab" + strings.Repeat("0", 60) + "cd"}
	if got := c.readHistory(); got != want {
		t.Errorf("the history is %+v, want %+v", got, want)
	}
	list := slices.Clone(jute.OpenACL)
	list[0].Perms = jute.PermRead
	changed := c.zxidOf(jute.OpSetACL, jute.SetACLRequest{Path: []byte("/seen"), ACL: list, Version: -1})
	if got := c.readHistory().ACLs; got != changed {
		t.Errorf("the last change of an ACL was %#x, want %#x", got, changed)
	}
	w.fill(2 * testHistory)
	c.restore(seen, nil, []string{"/"})
	if got, reply := c.events(); len(got) != 0 || reply.Err != jute.OK {
		t.Errorf("%d events and %+v of a zxid that is too old", len(got), reply)
	}
	since := c.readHistory().Since
	if since <= seen {
		t.Errorf("the history begins at %#x, and events after %#x were not sent", since, seen)
	}
	for _, tt := range []struct {
		after  int64
		result replayResult
	}{{since - 1, replayTooOld}, {since, replayDone}} {
		k, before := w.connect(), w.replays(tt.result)
		k.restore(tt.after, nil, []string{"/nothing"})
		if _, reply := k.events(); reply.Err != jute.OK || w.replays(tt.result) != before+1 {
			t.Errorf("after %#x: %+v", tt.after, reply)
		}
	}
}

// All other requests treat the path like any other. If a node has it, a client reads the node.
func TestHistoryPathIsNoNode(t *testing.T) {
	w := newWorld(t, false, nil)
	c := w.connect()
	if got := c.readHistory().Ensemble; got != strings.Repeat("0", 64) {
		t.Errorf("without an id, the ensemble is %s", got)
	}
	for op, r := range map[jute.Op]record{
		jute.OpExists: jute.ExistsRequest{Path: []byte(jute.HistoryPath)}, jute.OpGetACL: jute.GetACLRequest{Path: []byte(jute.HistoryPath)},
		jute.OpGetChildren2: jute.GetChildrenRequest{Path: []byte(jute.HistoryPath)}, jute.OpSetData: setData(jute.HistoryPath, "x"),
	} {
		if h, _ := c.call(op, r); h.Err != jute.NoNode {
			t.Errorf("%v: %v, want %v", op, h.Err, jute.NoNode)
		}
	}
	if h, _ := c.call(jute.OpGetData, getData("/zookeeper/other", false)); h.Err != jute.NoNode {
		t.Errorf("another path: %v", h.Err)
	}
	if h, _ := c.call(jute.OpGetData, getData(jute.HistoryPath, true)); h.Err != jute.NoNode {
		t.Errorf("with a watch, which would never fire: %v", h.Err)
	}
	c.must(jute.OpCreate, create(jute.HistoryPath, "mine", 0))
	var r jute.GetDataResponse
	d := jute.NewDecoder(c.must(jute.OpGetData, getData(jute.HistoryPath, false)))
	if r.Decode(&d); string(r.Data) != "mine" || r.Stat.Czxid == 0 {
		t.Errorf("the node has %q, created by %#x", r.Data, r.Stat.Czxid)
	}
}

// A server that keeps nothing says so.
func TestNoHistoryAtPath(t *testing.T) {
	m := newFakeMember()
	off := znode.New(znode.Config{Self: self, Hooks: m})
	s := session{tree: off}
	text := string(s.historyText(&request{c: &conn{srv: &Server{}}}))
	if h, ok := jute.ParseHistory(text); !ok || h.Since != jute.NoHistory {
		t.Errorf("the text is %q", text)
	}
}
