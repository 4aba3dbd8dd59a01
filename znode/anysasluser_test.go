package znode

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"rollcall/zk/jute"
)

// aliceOnly lets alice alone do everything. With padding, the list is long enough for an index.
func aliceOnly(padding int) []jute.ACL {
	list := aclOf(31, "sasl", "alice")
	for i := range padding {
		list = append(list, aclOf(31, "digest", fmt.Sprintf("u%d:x", i))...)
	}
	return list
}

// While the rule AnySASLUser names alice, every user of SASL has the permissions of alice's entries, and no other client
// has.
func TestAnySASLUser(t *testing.T) {
	w := newWorld(t)
	alice, bob := w.connect().auth("sasl", "alice"), w.connect().auth("sasl", "bob")
	both := w.connect().auth("digest", "v:x").auth("sasl", "bob")
	nobody := w.connect()
	others := []*client{nobody, w.connect().auth("digest", "alice"), w.connect().auth("digest", "alice:x"), w.connect().auth("x509", "alice"), w.connect().auth("world", "anyone")}
	want := func(k *client, path string, want jute.Code) {
		t.Helper()
		if r := k.setData(path, "x", -1); r.Code != want {
			t.Errorf("%v writes %s: %v, want %v", k.ids, path, r.Code, want)
		}
		s := w.s()
		s.RLock()
		defer s.RUnlock()
		if _, _, code := s.TreeView().GetData([]byte(path), k.ids); code != want {
			t.Errorf("%v reads %s: %v, want %v", k.ids, path, code, want)
		}
	}
	w.rule(Rules{SASL: true})
	alice.must(alice.createACL("/short", 0, aliceOnly(0)))
	alice.must(alice.createACL("/long", 0, aliceOnly(2*indexedACLEntries)))
	alice.must(alice.createACL("/carol", 0, aclOf(31, "sasl", "carol")))
	alice.must(alice.createACL("/digest", 0, append(aclOf(31, "digest", "alice:x"), aclOf(31, "sasl", "carol")...)))
	alice.must(alice.createACL("/write", 0, append(aclOf(jute.PermWrite, "sasl", "alice"), aclOf(31, "sasl", "carol")...)))

	for _, rules := range []Rules{{SASL: true}, {SASL: true, AnySASLUser: "bobs"}, {AnySASLUser: "alice"}, {}} {
		w.rule(rules)
		for _, path := range []string{"/short", "/long"} {
			want(alice, path, jute.OK)
			want(bob, path, jute.NoAuth)
			want(both, path, jute.NoAuth)
		}
	}
	w.rule(Rules{SASL: true, AnySASLUser: "alice"})
	for _, path := range []string{"/short", "/long"} {
		want(alice, path, jute.OK)
		want(bob, path, jute.OK)
		want(both, path, jute.OK)
		for _, k := range others {
			want(k, path, jute.NoAuth)
		}
	}
	want(bob, "/carol", jute.NoAuth)
	want(bob, "/digest", jute.NoAuth)
	if r := bob.setData("/write", "x", -1); r.Code != jute.OK {
		t.Errorf("bob writes where alice may: %v", r.Code)
	}
	if r := bob.create("/write/x", 0); r.Code != jute.NoAuth {
		t.Errorf("bob creates where alice may only write: %v", r.Code)
	}
	if r := bob.multi(check("/long", -1), put("/short", -1)); slices.ContainsFunc(r.Multi, func(o OpResult) bool { return o.Op == jute.OpError }) {
		t.Errorf("bob's multi: %+v", r.Multi)
	}
	if r := bob.setACL("/short", jute.OpenACL, -1); r.Code != jute.OK {
		t.Errorf("bob sets the list: %v", r.Code)
	}
}

// Watches, live and of a client that comes back, follow the rule.
func TestAnySASLUserWatches(t *testing.T) {
	for _, tt := range []struct {
		rules Rules
		want  []string
	}{
		{Rules{SASL: true}, nil},
		{Rules{SASL: true, AnySASLUser: "alice"}, []string{"Created(/n)", "Changed(/n)"}},
	} {
		w := newWorldWithHistory(t, 1<<20)
		w.rule(tt.rules)
		alice, bob, digest := w.connect().auth("sasl", "alice"), w.connect().auth("sasl", "bob"), w.connect().auth("digest", "alice")
		for _, k := range []*client{bob, digest} {
			if code := k.addWatch("/n", stays); code != jute.OK {
				t.Fatal(code)
			}
		}
		before := w.s().Zxid()
		alice.must(alice.createACL("/n", 0, aliceOnly(0)))
		alice.must(alice.setData("/n", "1", -1))
		bob.wantEvents(tt.want...)
		digest.wantEvents()
		for _, k := range []*client{bob, digest} {
			c := &comeback{w: w, ids: k.ids}
			c.begin(before, []string{"/n"}, nil)
			c.finish()
			if k == bob {
				c.want(t, tt.want...)
			} else {
				c.want(t)
			}
		}
	}
}

// A snapshot has the rule. States with other names have other digests, and a state without a name has the snapshot that it had
// before there was the rule.
func TestAnySASLUserAfterRestore(t *testing.T) {
	snapshotOf := func(rules Rules) (*world, []byte) {
		w := newWorld(t)
		w.rule(rules)
		return w, encode(t, w.s().Snapshot())
	}
	rules := Rules{SASL: true, AnySASLUser: "alice@REALM"}
	w, snapshot := snapshotOf(rules)
	other, _ := snapshotOf(Rules{SASL: true, AnySASLUser: "alice@REALN"})
	none, plain := snapshotOf(Rules{SASL: true})
	if w.s().Digest() == other.s().Digest() || w.s().Digest() == none.s().Digest() {
		t.Error("the digest lacks the name")
	}
	if d := Diff(w.s(), other.s()); d == "" {
		t.Error("no difference between states with other names")
	}
	if len(snapshot) != len(plain)+4+len(rules.AnySASLUser) {
		t.Errorf("a snapshot of %d bytes, and of %d without a name", len(snapshot), len(plain))
	}
	if _, _, err := VerifySnapshot(bytes.NewReader(snapshot)); err != nil {
		t.Error(err)
	}
	w.states = append(w.states, restored(t, snapshot))
	if got := w.states[1].Term().Rules; got != rules {
		t.Errorf("rules %+v, want %+v", got, rules)
	}
	k := w.connect()
	k.must(k.createACL("/a", 0, aclOf(31, "sasl", "alice@REALM")))
	bob := w.connect().auth("sasl", "bob")
	bob.must(bob.setData("/a", "1", -1))
	if d := Diff(w.s(), w.states[1]); d != "" {
		t.Error(d)
	}
}
