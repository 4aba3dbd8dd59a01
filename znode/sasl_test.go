package znode

import (
	"testing"

	"rollcall/zk/jute"
)

// ACLs may name the users of SASL if the rules allow it. The names that are valid are those that
// ZooKeeper 3.8.0 accepts.
func TestSASLInACLs(t *testing.T) {
	for _, tt := range []struct {
		id   string
		fine bool
	}{
		{"bob", true},
		{"", true},
		{"bob/host", true},
		{"a/b/c", true},
		{"bob@REALM", true},
		{"zk/host@REALM", true},
		{"@", true},
		{"/@", true},
		{"a:b\n@c", true},
		{"a/b/c@REALM", false},
		{"bob@A/B", false},
		{"bob@A@B", false},
	} {
		for _, on := range []bool{true, false} {
			a := aclTable{}
			a.applyRules(Rules{SASL: on})
			want := jute.InvalidACL
			if on && tt.fine {
				want = jute.OK
			}
			if _, code := a.resolveList(aclOf(31, "sasl", tt.id), nil); code != want {
				t.Errorf("%q, on %t: %v, want %v", tt.id, on, code, want)
			}
		}
	}
	a := aclTable{}
	a.applyRules(Rules{SASL: true})
	if _, code := a.resolveList([]jute.ACL{{Perms: 31, ID: jute.ID{Scheme: []byte("sasl")}}}, nil); code != jute.MarshallingError {
		t.Errorf("a null id: %v", code)
	}
}

// A user of SASL has the permissions of entries with the same name. The user "super" has the permissions of all users of
// SASL while the rule holds, and none of other schemes.
func TestSASLPermissions(t *testing.T) {
	w := newWorld(t)
	on := w.rules
	on.SASL = true
	w.rule(on)
	bob, other, super := w.connect().auth("sasl", "bob"), w.connect().auth("sasl", "carol"), w.connect().auth("sasl", "super")
	bob.must(bob.createACL("/a", 0, aclOf(31, "sasl", "bob")))
	bob.must(bob.createACL("/b", 0, aclOf(31, "digest", "super:x")))
	want := func(k *client, path string, want jute.Code) {
		t.Helper()
		if r := k.setData(path, "x", -1); r.Code != want {
			t.Errorf("%s: %v, want %v", path, r.Code, want)
		}
	}
	want(bob, "/a", jute.OK)
	want(other, "/a", jute.NoAuth)
	want(super, "/a", jute.OK)
	want(super, "/b", jute.NoAuth)
	want(w.connect().auth("digest", "super"), "/a", jute.NoAuth)
	w.rule(Rules{})
	want(bob, "/a", jute.OK)
	want(super, "/a", jute.NoAuth)
}

// A restored state has the rules for SASL and the quota of all data.
func TestSASLAfterRestore(t *testing.T) {
	w := newWorld(t)
	rules := Rules{SASL: true, DataQuota: 1 << 40}
	w.rule(rules)
	w.states = append(w.states, restored(t, encode(t, w.s().Snapshot())))
	if got := w.states[1].Term().Rules; got != rules {
		t.Errorf("rules %+v, want %+v", got, rules)
	}
	k := w.connect()
	k.must(k.createACL("/a", 0, aclOf(31, "sasl", "bob")))
	if d := Diff(w.s(), w.states[1]); d != "" {
		t.Error(d)
	}
}
