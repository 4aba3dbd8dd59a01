package znode

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"rollcall/zk/jute"
)

func mk(path string, flags jute.CreateMode) jute.MultiOp {
	return jute.MultiOp{Op: jute.OpCreate, Create: createOp(path, "m", flags, jute.OpenACL)}
}

func rm(path string, version int32) jute.MultiOp {
	return jute.MultiOp{Op: jute.OpDelete, Delete: jute.DeleteRequest{Path: []byte(path), Version: version}}
}

func put(path string, version int32) jute.MultiOp {
	return jute.MultiOp{Op: jute.OpSetData, SetData: jute.SetDataRequest{Path: []byte(path), Data: []byte("new"), Version: version}}
}

func check(path string, version int32) jute.MultiOp {
	return jute.MultiOp{Op: jute.OpCheck, Check: jute.CheckVersionRequest{Path: []byte(path), Version: version}}
}

func outcome(r Result) []string {
	var out []string
	for _, o := range r.Multi {
		out = append(out, fmt.Sprintf("%d/%d", o.Op, o.Code))
	}
	return out
}

// Cases 241 to 260: the results of a multi. A multi that fails leaves nothing.
func TestMulti(t *testing.T) {
	const any = anyVersion
	tests := []struct {
		name string
		made []string
		ops  []jute.MultiOp
		want []string
		left []string // the root's children afterwards, in order, except zookeeper and made
	}{
		{"241", nil, []jute.MultiOp{mk("/m", 0), mk("/m/1", 0), put("/m", any), check("/m", 1), rm("/m/1", any)}, []string{"1/0", "1/0", "5/0", "13/0", "2/0"}, []string{"m"}},
		{"242", []string{"/a"}, []jute.MultiOp{mk("/b", 0), mk("/a", 0), mk("/c", 0)}, []string{"-1/0", "-1/-110", "-1/-2"}, nil},
		{"243", nil, []jute.MultiOp{check("/nope", any)}, []string{"-1/-101"}, nil},
		{"244", []string{"/a"}, []jute.MultiOp{check("/a", 0), put("/a", any)}, []string{"13/0", "5/0"}, nil},
		{"244", []string{"/a"}, []jute.MultiOp{check("/a", 1), put("/a", any)}, []string{"-1/-103", "-1/-2"}, nil},
		{"245", nil, []jute.MultiOp{mk("/u", 0), put("/u", 0), put("/u", 0)}, []string{"-1/0", "-1/0", "-1/-103"}, nil},
		{"246", nil, []jute.MultiOp{mk("/u", 0), put("/u", 0), put("/u", 1)}, []string{"1/0", "5/0", "5/0"}, []string{"u"}},
		{"247", []string{"/u"}, []jute.MultiOp{rm("/u", any), put("/u", any)}, []string{"-1/0", "-1/-101"}, nil},
		{"248", []string{"/u"}, []jute.MultiOp{rm("/u", any), mk("/u", 0)}, []string{"2/0", "1/0"}, nil},
		{"249", nil, []jute.MultiOp{mk("/t", 0), mk("/t/a", 0), mk("/t/a/b", 0), rm("/t/a/b", any), rm("/t/a", any), rm("/t", any)}, []string{"1/0", "1/0", "1/0", "2/0", "2/0", "2/0"}, nil},
		{"250", []string{"/t", "/t/a"}, []jute.MultiOp{rm("/t", any), rm("/t/a", any)}, []string{"-1/-111", "-1/-2"}, nil},
		{"251", nil, nil, nil, nil},
		{"254", nil, []jute.MultiOp{{Op: jute.OpCreate2, Create: createOp("/m", "", 2, jute.OpenACL)}}, []string{"15/0"}, []string{"m0000000000"}},
		{"empty acl", nil, []jute.MultiOp{{Op: jute.OpCreate, Create: createOp("/m", "", 2, []jute.ACL{})}}, []string{"-1/-114"}, nil},
		{"bad path", nil, []jute.MultiOp{mk("/m", 0), put("x", 0)}, []string{"-1/0", "-1/-8"}, nil},
		{"check of a bad path", nil, []jute.MultiOp{check("/m/", 0)}, []string{"-1/-8"}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			k := w.connect()
			want := []string{}
			for _, path := range tt.made {
				k.must(k.create(path, 0))
				if path == "/t" || len(path) == 2 {
					want = append(want, path[1:])
				}
			}
			before := w.s().Zxid()
			r := k.multi(tt.ops...)
			if r.Code != jute.OK || r.Zxid != before+1 || !slices.Equal(outcome(r), tt.want) {
				t.Errorf("%v %q, want %q; zxid %#x after %#x", r.Code, outcome(r), tt.want, r.Zxid, before)
			}
			want = append(append(want, tt.left...), "zookeeper")
			if got := k.children("/"); !slices.Equal(got, want) {
				t.Errorf("children %q, want %q", got, want)
			}
			checkInvariants(t, w.s())
		})
	}
}

// All effects of a multi have the same zxid and time. Case 248: a node that was deleted and created
// again has new counters.
func TestMultiStats(t *testing.T) {
	w := newWorld(t)
	k := w.connect()
	k.must(k.create("/u", 0))
	k.must(k.setData("/u", "", -1))
	r := k.multi(rm("/u", 1), mk("/u", 0), jute.MultiOp{Op: jute.OpCreate2, Create: createOp("/u/x", "", 1, jute.OpenACL)}, put("/u", 0))
	st := k.stat("/u")
	want := jute.Stat{Czxid: r.Zxid, Mzxid: r.Zxid, Pzxid: r.Zxid, Ctime: w.now, Mtime: w.now, Version: 1, Cversion: 1, NumChildren: 1, DataLength: 3}
	if st != want || r.Multi[3].Stat != want {
		t.Errorf("%+v, want %+v", st, want)
	}
	if r.Multi[1].Path != "/u" || r.Multi[2].Path != "/u/x" || r.Multi[2].Stat != k.stat("/u/x") {
		t.Errorf("%+v", r.Multi)
	}
}

// Cases 107, 147, 148 and 256: a multi that fails leaves no trace, except the zxid that it takes.
func TestMultiRollsBack(t *testing.T) {
	fail := check("/missing", 0)
	tests := map[string][]jute.MultiOp{
		"all kinds": {
			check("/q", 0), mk("/q/n-", 3), mk("/q/n-", 2), put("/q", 0), rm("/q/old", 0), mk("/q/old", 0), mk("/q/old/x", 0), fail,
		},
		"create":              {mk("/q/old2", 1), fail},
		"delete":              {rm("/q/old", 0), fail},
		"set":                 {put("/q", 0), fail},
		"set, then last out":  {put("/q", 0), rm("/q/old", 0), fail},
		"first in, then out":  {mk("/q/old2", 0), mk("/q/old2/x", 0), rm("/q/old2/x", 0), put("/q/old2", 0), fail},
		"set what is created": {mk("/q/n-", 2), put("/q/n-0000000001", 0), put("/q/n-0000000001", 1), fail},
	}
	for name, ops := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			k := w.connect()
			k.must(k.create("/q", 0))
			k.must(k.create("/q/old", 1))
			_ = k.watchChildren("/q")
			_ = k.watchData("/q")
			_ = k.watchData("/q/old")
			s := w.s()
			before, old := encode(t, s.Snapshot()), s.replicated
			r := k.multi(ops...)
			if got := outcome(r); got[len(got)-1] != "-1/-101" || got[0] != "-1/0" {
				t.Fatalf("%q", got)
			}
			k.wantEvents()
			checkInvariants(t, s)
			now := s.replicated
			state := &s.replicated
			state.lastIndex, state.timeMs, state.zxid, state.members = old.lastIndex, old.timeMs, old.zxid, old.members
			state.latestMs = old.latestMs
			if !bytes.Equal(before, encode(t, s.Snapshot())) {
				t.Error("the state differs")
			}
			s.replicated = now
			if r := k.multi(mk("/q/n-", 2), mk("/q/n-", 3)); r.Multi[0].Path != "/q/n-0000000001" || r.Multi[1].Path != "/q/n-0000000002" {
				t.Errorf("%+v", r.Multi)
			}
			k.wantEvents("Children(/q)")
		})
	}
}

// Cases 252 and 253, and table 1 of the differences between versions: a malformed multi fails as a
// whole. It takes a zxid, unless one of its ACL lists is null.
func TestMultiMarshalling(t *testing.T) {
	open := jute.OpenACL
	null := createOp("/n", "", 0, nil)
	nullID := createOp("/b", "", 0, []jute.ACL{{Perms: 31, ID: jute.ID{Scheme: []byte("world")}}})
	noPath := jute.CreateRequest{ACL: open}
	tests := []struct {
		name string
		body []byte
		took int64
	}{
		{"setACL", jute.MultiHeader{Type: jute.OpSetACL}.Append(nil), 1},
		{"getData", jute.AppendMulti(nil, []jute.MultiOp{{Op: jute.OpGetData, GetData: jute.GetDataRequest{Path: []byte("/a")}}}), 1},
		{"type 99", jute.MultiHeader{Type: 99}.Append(nil), 1},
		{"cut short", jute.AppendMulti(nil, []jute.MultiOp{mk("/a", 0)})[:20], 1},
		{"flag 9", jute.AppendMulti(nil, []jute.MultiOp{mk("/a", 0), mk("/b", 9)}), 1},
		{"ttl flag in a create", jute.AppendMulti(nil, []jute.MultiOp{mk("/a", 0), mk("/b", 5)}), 1},
		{"ttl flag in a create2", jute.AppendMulti(nil, []jute.MultiOp{mk("/a", 0), {Op: jute.OpCreate2, Create: createOp("/b", "", 6, open)}}), 1},
		{"ttl flag in a createContainer", jute.AppendMulti(nil, []jute.MultiOp{mk("/a", 0), {Op: jute.OpCreateContainer, Create: createOp("/b", "", 5, open)}}), 1},
		{"flag 9 in a createTTL", jute.AppendMulti(nil, []jute.MultiOp{{Op: jute.OpCreateTTL, Create: createOp("/b", "", 9, open), TTL: 5}}), 1},
		{"null acl of a container", jute.AppendMulti(nil, []jute.MultiOp{{Op: jute.OpCreateContainer, Create: null}}), 0},
		{"null path", jute.AppendMulti(nil, []jute.MultiOp{mk("/a", 0), {Op: jute.OpCreate, Create: noPath}}), 1},
		{"null path of a check", jute.AppendMulti(nil, []jute.MultiOp{mk("/a", 0), {Op: jute.OpCheck}}), 1},
		{"null id in an acl", jute.AppendMulti(nil, []jute.MultiOp{mk("/a", 0), {Op: jute.OpCreate, Create: nullID}, mk("/c", 0)}), 1},
		{"null acl", jute.AppendMulti(nil, []jute.MultiOp{mk("/a", 0), {Op: jute.OpCreate2, Create: null}}), 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			k := w.connect()
			before := w.s().Zxid()
			r := k.do(jute.OpMulti, tt.body)
			if r.Code != jute.MarshallingError || len(r.Multi) != 0 || r.Zxid != before+tt.took {
				t.Errorf("%v, %d results, zxid %#x after %#x", r.Code, len(r.Multi), r.Zxid, before)
			}
			if n := w.nodeCount(); n != len(builtinPaths) {
				t.Errorf("%d nodes", n)
			}
		})
	}
}

// The multi of an ended session is rejected in its results. The multi of a session that has moved is
// rejected in the header.
func TestMultiOfLostSession(t *testing.T) {
	w := newWorld(t)
	k, gone := w.connect(), w.connect()
	gone.must(gone.close())
	if r := gone.multi(mk("/a", 0), mk("/b", 0)); r.Code != jute.OK || !slices.Equal(outcome(r), []string{"-1/-112", "-1/-2"}) {
		t.Errorf("%v %q", r.Code, outcome(r))
	}
	if r := gone.multi(); r.Code != jute.SessionExpired {
		t.Errorf("%v", r.Code)
	}
	_, r := k.attach(1, k.since(), password(k.id))
	k.must(r)
	if r := k.multi(); r.Code != jute.SessionMoved {
		t.Errorf("%v", r.Code)
	}
	if r := k.multi(mk("/a", 0)); r.Code != jute.SessionMoved || len(r.Multi) != 0 {
		t.Errorf("%v", r.Code)
	}
}
