package session

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"rollcall/zk/jute"
)

// lists returns the paths in a request that sets watches, by kind and sorted. It marks a null list.
func lists(s jute.SetWatches2) string {
	var b strings.Builder
	for i, list := range [][][]byte{s.Data, s.Exist, s.Child, s.Persistent, s.Recursive} {
		names := make([]string, len(list))
		for j, path := range list {
			names[j] = string(path)
		}
		slices.Sort(names)
		fmt.Fprintf(&b, "%s%v", []string{"data", " exist", " child", " persistent", " recursive"}[i], names)
		if list == nil {
			b.WriteString("null")
		}
	}
	return b.String()
}

// A client's list of watches matches its server's: replies add watches, and events use them up. The
// client sets them again on the next connection, with the last zxid that it has seen.
func TestWatchesSetAgain(t *testing.T) {
	type ask struct {
		op   jute.Op
		path string
		code jute.Code
	}
	const get, exists, list, add, remove = jute.OpGetData, jute.OpExists, jute.OpGetChildren2, jute.OpAddWatch, jute.OpRemoveWatches
	tests := []struct {
		name   string
		asks   []ask
		mode   int32 // the mode of addWatch, and the type of removeWatches
		events []string
		op     jute.Op // 0: no watch is set again
		want   string
	}{
		{"none", []ask{{get, "/a", jute.NoNode}, {list, "/a", jute.NoAuth}}, 0, nil, 0, ""},
		{"each kind", []ask{{get, "/d", 0}, {exists, "/e", 0}, {exists, "/n", jute.NoNode}, {list, "/c", 0}}, 0, nil, jute.OpSetWatches, "data[/d /e] exist[/n] child[/c]"},
		{"persistent", []ask{{add, "/p", 0}}, 0, []string{"4/p", "3/p", "2/p"}, jute.OpSetWatches2, "data[] exist[] child[] persistent[/p] recursive[]"},
		{"both that stay", []ask{{add, "/b", 0}, {add, "/b:1", 0}}, 0, nil, jute.OpSetWatches2, "data[] exist[] child[] persistent[/b] recursive[/b]"},
		{"recursive", []ask{{add, "/r", 0}}, 1, []string{"3/r/x", "2/r"}, jute.OpSetWatches2, "data[] exist[] child[] persistent[] recursive[/r]"},
		{"data used up", []ask{{get, "/a", 0}, {list, "/a", 0}}, 0, []string{"3/a"}, jute.OpSetWatches, "data[] exist[] child[/a]"},
		{"child used up", []ask{{get, "/a", 0}, {list, "/a", 0}}, 0, []string{"4/a"}, jute.OpSetWatches, "data[/a] exist[] child[]"},
		{"all used up", []ask{{get, "/a", 0}, {list, "/a", 0}, {exists, "/a", jute.NoNode}}, 0, []string{"2/a"}, 0, ""},
		{"node has come", []ask{{exists, "/a", jute.NoNode}}, 0, []string{"1/a"}, 0, ""},
		{"asked without a watch", []ask{{get, "/a/unwatched", 0}}, 0, nil, 0, ""},
		{"removed", []ask{{list, "/a", 0}, {get, "/a", 0}, {remove, "/a", 0}}, 2, nil, jute.OpSetWatches, "data[] exist[] child[/a]"},
		{"exist watch removed as data", []ask{{exists, "/a", jute.NoNode}, {remove, "/a", 0}}, 2, nil, 0, ""},
		{"one of each, data removed", []ask{{list, "/a", 0}, {get, "/a", 0}, {exists, "/a", jute.NoNode}, {remove, "/a", 0}}, 2, nil, jute.OpSetWatches, "data[] exist[] child[/a]"},
		{"one of each, child removed", []ask{{list, "/a", 0}, {get, "/a", 0}, {exists, "/b", jute.NoNode}, {remove, "/a", 0}}, 1, nil, jute.OpSetWatches, "data[/a] exist[/b] child[]"},
		{"one of each, persistent removed", []ask{{list, "/a", 0}, {get, "/a", 0}, {add, "/a", 0}, {add, "/a:1", 0}, {remove, "/a", 0}}, 4, nil, jute.OpSetWatches2, "data[/a] exist[] child[/a] persistent[] recursive[/a]"},
		{"one of each, recursive removed", []ask{{list, "/a", 0}, {get, "/a", 0}, {add, "/a", 0}, {add, "/a:1", 0}, {remove, "/a", 0}}, 5, nil, jute.OpSetWatches2, "data[/a] exist[] child[/a] persistent[/a] recursive[]"},
		{"one of each, any removed", []ask{{list, "/a", 0}, {get, "/a", 0}, {exists, "/a", jute.NoNode}, {add, "/a", 0}, {add, "/a:1", 0}, {remove, "/a", 0}}, 3, nil, 0, ""},
		{"not removed", []ask{{get, "/a", 0}, {remove, "/a", jute.NoWatcher}}, 3, nil, jute.OpSetWatches, "data[/a] exist[] child[]"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			within(t, func(t *testing.T, f *fake) {
				var h heard
				var p *peer
				c := f.open(Config{OnEvent: func(e jute.WatcherEvent, zxid int64) { h.add("%d%s %d", e.Type, e.Path, zxid) }}, func() {
					p = <-f.peers
					p.accept()
				})
				for i, a := range tc.asks {
					name, other := strings.CutSuffix(a.path, ":1") // recursive instead of the test's mode
					path := []byte(name)
					var rec Record = jute.GetDataRequest{Path: path, Watch: !strings.HasSuffix(a.path, "unwatched")}
					if a.op == add || a.op == remove {
						rec = jute.RemoveWatchesRequest{Path: path, Type: jute.WatcherType(tc.mode)}
						if other {
							rec = jute.AddWatchRequest{Path: path, Mode: jute.AddWatchPersistentRecursive}
						}
					}
					if err := c.Go(ctx, a.op, rec, func(Reply, error) {}); err != nil {
						t.Fatal(err)
					}
					p.reply(p.want(a.op).Xid, int64(i+10), a.code, nil)
				}
				for _, e := range tc.events {
					p.event(jute.EventType(e[0]-'0'), e[1:], 99)
				}
				synctest.Wait()
				told := h.take()
				for i, e := range tc.events {
					if told[i] != e+" 99" {
						t.Errorf("got the events %q, want %q, each with zxid 99", told, tc.events)
					}
				}
				_ = p.Close()
				p = <-f.peers
				p.accept()
				if tc.op == 0 {
					synctest.Wait()
					if c.Server() != "b" {
						t.Error("the client waits for a reply to a setWatches that it did not send")
					}
					return
				}
				p.want(tc.op)
				p.event(jute.EventType(3), "/other", 200) // of a part of the watches: events of the others may be missing
				synctest.Wait()
				_ = p.Close()
				p = <-f.peers
				p.accept()
				r := p.want(tc.op)
				var got jute.SetWatches2
				d := jute.NewDecoder(r.body)
				if tc.op == jute.OpSetWatches2 {
					got.Decode(&d)
				} else {
					var old jute.SetWatches
					old.Decode(&d)
					got = jute.SetWatches2{RelativeZxid: old.RelativeZxid, Data: old.Data, Exist: old.Exist, Child: old.Child}
				}
				zxid := int64(9 + len(tc.asks))
				if len(tc.events) > 0 {
					zxid = 98 // the transaction of the last event may have more of them
				}
				if s := lists(got); !strings.HasPrefix(s, tc.want) || got.RelativeZxid != zxid || d.Err() != nil {
					t.Errorf("got %s with zxid %d, want %s with %d", s, got.RelativeZxid, tc.want, zxid)
				}
				p.reply(r.Xid, 1, jute.OK, nil)
				synctest.Wait()
				if c.Server() != "a" {
					t.Error("not connected")
				}
			})
		})
	}
}

// Many watches are set again in several requests, each small enough for a server. Each watch is set
// once.
func TestWatchesSetAgainInParts(t *testing.T) {
	var w watches
	long := strings.Repeat("x", 1000)
	for i := range 1000 {
		w.updateAfterReply(call{op: jute.OpGetData, path: fmt.Sprintf("/%s%d", long, i), watchKind: watchData}, jute.OK)
		w.updateAfterReply(call{op: jute.OpAddWatch, path: fmt.Sprintf("/%s%d", long, i), watchKind: watchRecursive}, jute.OK)
	}
	var out []byte
	n := w.appendSetWatches(&out, 5)
	if n < 2*1000*1000/maxBatch || n > 20 {
		t.Errorf("%d requests", n)
	}
	seen := map[string]int{}
	for range n {
		d := jute.NewDecoder(out)
		size := d.ReadInt32()
		if size > maxBatch+100 {
			t.Errorf("a request of %d bytes", size)
		}
		var h jute.RequestHeader
		h.Decode(&d)
		var s jute.SetWatches2
		if h.Op == jute.OpSetWatches2 {
			s.Decode(&d)
		} else {
			t.Fatalf("got %v, want setWatches2", h.Op)
		}
		for _, path := range s.Data {
			seen["d"+string(path)]++
		}
		for _, path := range s.Recursive {
			seen["r"+string(path)]++
		}
		out = out[4+size:]
	}
	if len(seen) != 2000 || len(out) != 0 {
		t.Errorf("%d watches set, %d bytes left", len(seen), len(out))
	}
}

// A request sets as many watches again as it has room for, also after others. A path that is too long for that
// goes alone.
func TestWatchesSetAgainFillRequests(t *testing.T) {
	for _, tt := range []struct{ paths, length, requests int }{
		{8, maxBatch/4 - 4, 2}, {9, maxBatch/4 - 4, 3}, {8, maxBatch/4 - 3, 3}, {3, 2 * maxBatch, 3},
	} {
		var w watches
		for i := range tt.paths {
			w.updateAfterReply(call{op: jute.OpGetData, path: fmt.Sprintf("/%d", i) + strings.Repeat("x", tt.length-2), watchKind: watchData}, jute.OK)
		}
		var out []byte
		if n := w.appendSetWatches(&out, 5); n != tt.requests {
			t.Errorf("%d paths of %d bytes were set again in %d requests, want %d", tt.paths, tt.length, n, tt.requests)
		}
	}
}
