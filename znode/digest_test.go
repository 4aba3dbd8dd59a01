package znode

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"rollcall/internal/serverlist"
	"rollcall/proto"
	"rollcall/zk/jute"
)

// All members must compute the same digest. If it changes, DigestVersion and the numbers here must
// change too.
func TestDigestIsFixed(t *testing.T) {
	const version = 2
	tests := []struct {
		name string
		w    *world
		want uint64
	}{
		{"an ensemble that has begun", newWorld(t), 0xb4f412ad68676d4a},
		{"everything", sample(t), 0xf68d0904be57f360},
	}
	for _, tt := range tests {
		if got := tt.w.s().Digest(); got != tt.want || DigestVersion != version {
			t.Errorf("%s: version %d has digest %#x, want version %d with %#x", tt.name, DigestVersion, got, version, tt.want)
		}
	}
}

// uncovered lists the fields that are not part of the digest, with the reasons.
var uncovered = map[string]string{
	"node.gen":                        "each member's own",
	"node.nodeExtra":                  "by its fields",
	"nodeExtra.descendants":           "derived",
	"nodeExtra.children":              "derived: the children have paths",
	"nodeExtra.kind":                  "by the lifetime; TestDigestTellsStatesApart changes it",
	"nodeExtra.ownerOrTTL":            "by the lifetime; TestDigestTellsStatesApart changes it",
	"replicatedState.tree":            "by its nodes",
	"tree.root":                       "the nodes, by their hashes, in nodeHashSum",
	"tree.byPath":                     "derived: the same nodes",
	"tree.ephemerals":                 "derived: nodes have owners",
	"tree.dataSize":                   "derived",
	"tree.aclBytes":                   "derived",
	"tree.mostCreated":                "for a metric: derived from the nodes",
	"tree.hashedBytes":                "of the running entry",
	"acl.nodeCount":                   "derived",
	"acl.historyMark":                 "each member's own",
	"acl.historyPlace":                "each member's own",
	"tree.reapCandidates":             "derived: nodes have lives",
	"tree.quotaRoots":                 "derived: nodes have paths",
	"replicatedState.sessions":        "by their hashes, in sessionHashSum",
	"replicatedState.sessionEnds":     "by its fields",
	"sessionEnds.byNumber":            "by their hashes, in hashSum",
	"replicatedState.unsweptSessions": "its ids; TestDigestTellsStatesApart changes them",
	"acl.worldPerms":                  "derived from text",
	"acl.sharedExtra":                 "its list and zeros",
	"acl.entries":                     "derived from text",
	"acl.saslPerms":                   "derived from text",
	"acl.ipv4":                        "derived from text",
	"acl.ipv6":                        "derived from text",
	"acl.hashIndex":                   "derived from text",
	"acl.text":                        "by its hash, which is compared when a snapshot is written",
}

// Every replicated field is part of the digest or has a reason not to be. A new field fails here
// until it has one or the other.
func TestDigestCoversEveryField(t *testing.T) {
	list := forgedList("")
	n := node{path: "/a", data: packData([]byte("d")), nodeExtra: &list.sharedExtra}
	eachField(t, "node", &n, func() uint64 { return n.hash() })
	eachField(t, "nodeExtra", n.ensureOwnExtra(), func() uint64 { return n.hash() })
	eachField(t, "node", &n, func() uint64 { return n.hash() })
	eachField(t, "acl", list, func() uint64 { return n.hash() })
	s := Session{ID: 7, Address: "a"}
	eachField(t, "Session", &s, func() uint64 { return s.hash() })
	end := SessionEnd{Session: 7, RequestedBy: "b"}
	eachField(t, "SessionEnd", &end, func() uint64 { return end.hash() })
	c := replicatedState{tree: newTree(1, &aclTable{})}
	eachField(t, "replicatedState", &c, func() uint64 { return c.digest() })
	eachField(t, "tree", &c.tree, func() uint64 { return c.digest() })
	eachField(t, "sessionEnds", &c.sessionEnds, func() uint64 { return c.digest() })
}

// eachField changes each field of the value that p points to, and changes it back. hash must differ
// in between.
func eachField(t *testing.T, name string, p any, hash func() uint64) {
	t.Helper()
	v := reflect.ValueOf(p).Elem()
	for i := range v.NumField() {
		field := name + "." + v.Type().Field(i).Name
		if uncovered[field] == "" {
			eachChange(t, field, open(v.Field(i)), hash)
		}
	}
}

// open makes an unexported field settable.
func open(v reflect.Value) reflect.Value {
	return reflect.NewAt(v.Type(), unsafe.Pointer(v.UnsafeAddr())).Elem()
}

func eachChange(t *testing.T, name string, v reflect.Value, hash func() uint64) {
	t.Helper()
	whole := false
	switch v.Interface().(type) {
	case packedData, Identities: // their fields make no sense alone
		whole = true
	}
	switch kind := v.Kind(); {
	case kind == reflect.Struct && !whole:
		for i := range v.NumField() {
			eachChange(t, name+"."+v.Type().Field(i).Name, open(v.Field(i)), hash)
		}
		return
	case kind == reflect.Array:
		for i := range v.Len() {
			eachChange(t, fmt.Sprintf("%s[%d]", name, i), v.Index(i), hash)
		}
		return
	}
	old := reflect.New(v.Type()).Elem()
	old.Set(v)
	for _, change := range changed(t, name, v) {
		before := hash()
		v.Set(change)
		if hash() == before {
			t.Errorf("%s: %v and %v have the same hash", name, old, change)
		}
		v.Set(old)
		if hash() != before {
			t.Errorf("%s: the hash differs after the change was undone", name)
		}
	}
}

// changed returns values that differ from v.
func changed(t *testing.T, name string, v reflect.Value) (values []reflect.Value) {
	t.Helper()
	other := reflect.New(v.Type()).Elem()
	switch x := v.Interface().(type) {
	case packedData:
		for _, b := range [][]byte{nil, {}, []byte("e"), []byte("dd")} {
			values = append(values, reflect.ValueOf(packData(b)))
		}
		x.version++
		values = append(values, reflect.ValueOf(x))
		return values
	case Identities:
		other := IdentitiesOf(append(x.List(), &proto.Identity{Scheme: "digest", Id: "u:p"}))
		return []reflect.Value{reflect.ValueOf(other)}
	case serverlist.List:
		return []reflect.Value{reflect.ValueOf(append(slices.Clone(x), serverlist.Server{ID: 1, Host: "a"}))}
	case *acl:
		return []reflect.Value{reflect.ValueOf(&acl{hash: x.hash + 1})}
	}
	switch v.Kind() {
	case reflect.String:
		other.SetString(v.String() + "x")
	case reflect.Bool:
		other.SetBool(!v.Bool())
	case reflect.Int, reflect.Int32:
		other.SetInt(v.Int() + 1)
	case reflect.Uint8, reflect.Uint32:
		other.SetUint(v.Uint() + 1)
	case reflect.Int64:
		other.SetInt(v.Int() + 1)
		return []reflect.Value{other, reflect.ValueOf(v.Int() + 1<<32).Convert(v.Type())}
	case reflect.Uint64:
		other.SetUint(v.Uint() + 1)
		return []reflect.Value{other, reflect.ValueOf(v.Uint() + 1<<32).Convert(v.Type())}
	default:
		t.Fatalf("%s: this test cannot change a %s", name, v.Type())
	}
	return []reflect.Value{other}
}

// TestRandomLogs checks that equal states have equal digests, with states that were restored again
// and again. This test checks the other half: two states that differ in one item, or in one field
// of an item, have different digests.
func TestDigestTellsStatesApart(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	w := sample(t)
	seen := map[uint64]string{w.s().Digest(): "the sample"}
	note := func(what string, s *State) {
		t.Helper()
		d := s.Digest()
		if other, ok := seen[d]; ok {
			t.Errorf("%s has the digest of %s", what, other)
		}
		seen[d] = what
	}
	whole := encode(t, w.s().Snapshot())
	for _, path := range []string{"/", "/a", "/a/b", "/a!", "/e", "/null", "/large", ConfigPath, quotaPath} {
		fields := reflect.VisibleFields(reflect.TypeFor[node]())
		for _, field := range fields {
			name := "node." + field.Name
			if len(field.Index) > 1 {
				name = "nodeExtra." + field.Name
			}
			if uncovered[name] != "" || name == "node.path" {
				continue
			}
			s := restored(t, whole)
			x := editedNode(s, s.gen.Load(), path)
			x.ensureOwnExtra()
			v := open(reflect.ValueOf(x).Elem().FieldByIndex(field.Index))
			values := changed(t, name, v)
			before := reflect.ValueOf(v.Interface())
			v.Set(values[rng.IntN(len(values))])
			s.replicated.tree.addHash(x)
			if data, ok := before.Interface().(packedData); ok && bytes.Equal(data.bytes(), x.data.bytes()) &&
				data.isNull() == x.data.isNull() && data.version == x.data.version {
				continue
			}
			note(name+" of "+path, s)
		}
		for _, life := range []lifetime{{owner: 5}, {owner: 6}, {isContainer: true}, {ttlMs: 5}, {ttlMs: 6}} {
			s := restored(t, whole)
			x := editedNode(s, s.gen.Load(), path)
			x.setLifetime(life)
			s.replicated.tree.addHash(x)
			note(fmt.Sprintf("%+v of %s", life, path), s)
		}
	}
	for session := range w.s().Sessions(0) {
		for i := range reflect.TypeFor[Session]().NumField() {
			s := restored(t, whole)
			r := session
			v := reflect.ValueOf(&r).Elem().Field(i)
			for v.Kind() == reflect.Struct && v.Type() != reflect.TypeFor[Identities]() || v.Kind() == reflect.Array {
				if v.Kind() == reflect.Struct {
					v = v.Field(rng.IntN(v.NumField()))
				} else {
					v = v.Index(rng.IntN(v.Len()))
				}
			}
			v.Set(changed(t, "session", v)[0])
			if r.ID != session.ID {
				s.replicated.deleteSession(s.gen.Load(), sessionKey(session.ID))
			}
			s.replicated.putSession(s.gen.Load(), &r)
			note(fmt.Sprintf("field %d of %v", i, session.ID), s)
		}
		s := restored(t, whole)
		s.replicated.deleteSession(s.gen.Load(), sessionKey(session.ID))
		note(fmt.Sprintf("no %v", session.ID), s)
	}
	s := restored(t, whole)
	key, _ := s.replicated.unsweptSessions.first()
	s.replicated.unsweptSessions.delete(s.gen.Load(), key)
	note("nobody left nodes", s)
	s.replicated.unsweptSessions.put(s.gen.Load(), key+1, struct{}{})
	note("another left nodes", s)
	if d := Diff(w.s(), s); !strings.HasPrefix(d, "unswept ") {
		t.Errorf("the difference is %s", d)
	}
	for i := range reflect.TypeFor[SessionEnd]().NumField() {
		s := restored(t, whole)
		newest, _ := s.replicated.sessionEnds.byNumber.get(endNumber(s.replicated.sessionEnds.total))
		other := *newest
		v := reflect.ValueOf(&other).Elem().Field(i)
		v.Set(changed(t, "end", v)[0])
		s.replicated.sessionEnds.hashSum += other.hash() - newest.hash()
		note(fmt.Sprintf("field %d of an end", i), s)
	}
	s = restored(t, whole)
	s.replicated.sessionEnds = sessionEnds{}
	note("no ends", s)
	s = restored(t, whole)
	s.runningTxn.removeNode(s.replicated.tree.nodeAt("/null"))
	note("no /null", s)
	for i := range 100 { // the same names and contents in other pairs
		s := restored(t, whole)
		s.replicated.tree.linkNode(s.gen.Load(), &node{path: fmt.Sprintf("/x%d", i), data: packData(fmt.Append(nil, 100-i)), nodeExtra: &s.acls.worldList(1).sharedExtra})
		note(fmt.Sprint("node ", i), s)
	}
}

// A multi that fails leaves the digest as it was before, except for the zxid that it took.
func TestDigestOfAFailedMulti(t *testing.T) {
	w := newWorld(t)
	k := w.connect()
	k.must(k.create("/a", 0))
	k.must(k.create("/a/b", 1))
	before := recount(w.replicated())
	k.do(jute.OpMulti, jute.AppendMulti(nil, []jute.MultiOp{
		put("/a", -1), put("/a", -1),
		{Op: jute.OpDelete, Delete: jute.DeleteRequest{Path: []byte("/a/b"), Version: -1}},
		{Op: jute.OpCreate, Create: jute.CreateRequest{Path: []byte("/a/c"), ACL: jute.OpenACL}},
		put("/a/c", -1), check("/none", -1),
	}))
	if after := recount(w.replicated()); after != before {
		t.Errorf("%+v, then %+v", before, after)
	}
	if err := before.checkAgainst(w.replicated()); err != nil {
		t.Error(err)
	}
}

// Damage in memory shows in the digest once the damaged node is changed, and whenever a snapshot is
// written.
func TestDamageShows(t *testing.T) {
	healthy, spoiled := New(Config{}), New(Config{})
	w := newWorld(t, healthy, spoiled)
	k := w.connect()
	k.must(k.create("/a", 0))
	if !CorruptForTest(spoiled, "/a") || CorruptForTest(spoiled, "/none") {
		t.Fatal("nothing to damage")
	}
	if spoiled.Digest() != healthy.Digest() {
		t.Error("the digest shows the damage already")
	}
	if _, err := spoiled.Snapshot().WriteTo(io.Discard); !errors.Is(err, ErrDamaged) {
		t.Errorf("a snapshot: %v", err)
	}
	k.must(k.setData("/a", "new", -1))
	if spoiled.Digest() == healthy.Digest() {
		t.Error("the digest does not show the damage after the node was changed")
	}
	if d := Diff(healthy, spoiled); d == "" {
		t.Error("no difference")
	}
	if _, err := spoiled.Snapshot().WriteTo(io.Discard); !errors.Is(err, ErrDamaged) {
		t.Errorf("a snapshot after the change: %v", err)
	}
	if _, err := healthy.Snapshot().WriteTo(io.Discard); err != nil {
		t.Errorf("a snapshot of the healthy state: %v", err)
	}
}

// A snapshot finds a damaged list, because nodes refer to lists by their hashes.
func TestDamagedListShows(t *testing.T) {
	w := sample(t)
	w.nodeAt("/a/b").acl.text += "x"
	if _, err := w.s().Snapshot().WriteTo(io.Discard); !errors.Is(err, ErrDamaged) {
		t.Error(err)
	}
}

// All members hash the state at the same indexes, even a member that was sent a snapshot, and the hashes are
// equal.
func TestMarks(t *testing.T) {
	other := New(Config{})
	w := newWorld(t, other)
	first := w.s().StateHashes()
	if len(first) == 0 || first[0].Index != 1 {
		t.Fatalf("%v: no hash at the TermStart", first)
	}
	k := w.connect()
	for i := range 300 {
		w.now += 99
		k.must(k.create(fmt.Sprintf("/%d", i), 0))
		if i == 200 {
			if err := other.RestoreSnapshot(bytes.NewReader(encode(t, w.s().Snapshot()))); err != nil {
				t.Fatal(err)
			}
			if got := other.StateHashes(); len(got) != 0 {
				t.Errorf("hashes are left from before the snapshot: %v", got)
			}
		}
	}
	hashes := w.s().StateHashes()
	if len(hashes) != keptStateHashes {
		t.Errorf("%d hashes, want %d", len(hashes), keptStateHashes)
	}
	own := other.StateHashes()
	if len(own) < 5 || !slices.Equal(own, hashes[len(hashes)-len(own):]) {
		t.Errorf("hashes\n%v\n%v", hashes, own)
	}
	for i, m := range hashes[1:] {
		if d := m.Index - hashes[i].Index; d < 9 || d > 11 { // entries in one second of the log
			t.Errorf("hashes at %d and %d", hashes[i].Index, m.Index)
		}
	}
	// The state is also hashed after a jump back of the log's time.
	n := len(w.s().StateHashes())
	w.now -= 5 * stateHashEveryMs
	k.must(k.create("/back", 0))
	if got := w.s().StateHashes(); got[len(got)-1].Index != w.index || n != len(got) {
		t.Errorf("no hash where time went back: %v at %d", got, w.index)
	}
	// From here the log's time stands still, because only raft's own entries come.
	for range 3 * stateHashEvery {
		w.append(w.term, nil)
	}
	tail := w.s().StateHashes()
	for _, m := range tail[len(tail)-3:] {
		if m.Index%stateHashEvery != 0 {
			t.Errorf("hash at %d while time stands still", m.Index)
		}
	}
	if d := w.s().Digest(); tail[len(tail)-1].Index == w.index && tail[len(tail)-1].Digest != d {
		t.Errorf("hash %v, digest %x", tail[len(tail)-1], d)
	}
}
