package znode

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"rollcall/zk/jute"
)

func listOf(t *testing.T, k *client, path string) []string {
	t.Helper()
	list, _, code := k.w.s().GetACL([]byte(path), k.ids)
	if code != jute.OK {
		return []string{code.Error()}
	}
	var out []string
	for _, a := range list {
		out = append(out, fmt.Sprintf("%s:%s:%d", a.ID.Scheme, a.ID.ID, a.Perms))
	}
	return out
}

// Cases 168 to 171 and 178 to 185: the ACLs that a create accepts, and how they are stored.
func TestACLForm(t *testing.T) {
	const good = "u:Jq7wMyA/w2Vd5WIDAKdu4OIIFEQ="
	null := []jute.ACL{{Perms: 31, ID: jute.ID{Scheme: []byte("auth")}}}
	tests := []struct {
		name string
		auth []string // a scheme and an id for each identity
		acl  []jute.ACL
		want jute.Code
		list []string
	}{
		{"168 auth of nobody", nil, aclOf(31, "auth", ""), -114, nil},
		{"168 an address is not auth", []string{"ip", "::1", "super", ""}, aclOf(31, "auth", ""), -114, nil},
		{"169", []string{"digest", good}, aclOf(31, "auth", ""), 0, []string{"digest:" + good + ":31"}},
		{"170 null id", []string{"digest", good}, null, 0, []string{"digest:" + good + ":31"}},
		{"171 two", []string{"digest", "a:1", "digest", "b:2"}, aclOf(31, "auth", ""), 0, []string{"digest:a:1:31", "digest:b:2:31"}},
		{"sasl and x509 are auth", []string{"sasl", "bob", "x509", "CN=x"}, aclOf(3, "auth", ""), 0, []string{"sasl:bob:3", "x509:CN=x:3"}},
		{"178", nil, aclOf(31, "digest", "u"), -114, nil},
		{"178", nil, aclOf(31, "digest", "u:"), -114, nil},
		{"178", nil, aclOf(31, "digest", "a:b:c"), -114, nil},
		{"178 colons at the end", []string{"super", ""}, aclOf(31, "digest", "u:h:", "digest", ":h::"), 0, []string{"digest:u:h::31", "digest::h:::31"}},
		{"178 nothing but colons", nil, aclOf(31, "digest", "::"), -114, nil},
		{"178 colons at the beginning", nil, aclOf(31, "digest", "::h"), -114, nil},
		{"178", []string{"super", ""}, aclOf(31, "digest", ":h"), 0, []string{"digest::h:31"}},
		{"179", nil, aclOf(31, "world", "other"), -114, nil},
		{"180", nil, aclOf(31, "super", ""), -114, nil},
		{"180", nil, aclOf(31, "nosuch", "x"), -114, nil},
		{"180 null", nil, []jute.ACL{{Perms: 31}}, -114, nil},
		{"180 null, behind equal permissions", nil, append(aclOf(31, "world", "anyone"), jute.ACL{Perms: 31}), -5, nil},
		{"180 null, behind others", nil, append(aclOf(1, "world", "anyone"), jute.ACL{Perms: 31}), -114, nil},
		{"null id, behind an equal scheme", nil, append(aclOf(31, "auth", "x", "digest", "u"), null...), -5, nil},
		{"world with a null id", nil, []jute.ACL{{Perms: 31, ID: jute.ID{Scheme: []byte("world")}}}, -5, nil},
		{"sasl", nil, aclOf(31, "sasl", "bob"), -114, nil},
		{"x509", nil, aclOf(31, "x509", "CN=x"), -114, nil},
		{"second entry bad", nil, aclOf(31, "world", "anyone", "digest", "u"), -114, nil},
		{"183", nil, aclOf(31, "ip", "1.2.3"), -114, nil},
		{"183", nil, aclOf(31, "ip", "1.2.3.256"), -114, nil},
		{"183", nil, aclOf(31, "ip", "1.2.3.4/33"), -114, nil},
		{"183", nil, aclOf(31, "ip", "x"), -114, nil},
		{"183", nil, aclOf(31, "ip", "1.2.3.4/"), -114, nil},
		{"183", nil, aclOf(31, "ip", "1.2.3.-4"), -114, nil},
		{"183", nil, aclOf(31, "ip", "1.2.3.4/-1"), -114, nil},
		{"ip with signs", []string{"super", ""}, aclOf(31, "ip", "+1.2.3.-0/+8"), 0, []string{"ip:+1.2.3.-0/+8:31"}},
		{"183", nil, aclOf(31, "ip", "::1/129"), -114, nil},
		{"ip with zone", nil, aclOf(31, "ip", "fe80::1%eth0"), -114, nil},
		{"ip with dotted tail", nil, aclOf(31, "ip", "::1.2.3.4"), -114, nil},
		{"181 ip", nil, aclOf(31, "ip", "127.0.0.1", "ip", "2001:db8::/32"), 0, []string{"ip:127.0.0.1:31", "ip:2001:db8::/32:31"}},
		{"184 twice", nil, append(aclOf(31, "world", "anyone", "world", "anyone"), aclOf(1, "world", "anyone")...), 0, []string{"world:anyone:31", "world:anyone:1"}},
		{"185 perms as given", []string{"super", ""}, aclOf(64, "world", "anyone"), 0, []string{"world:anyone:64"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			k := newWorld(t).connect()
			for i := 0; i < len(tt.auth); i += 2 {
				k.auth(tt.auth[i], tt.auth[i+1])
			}
			if r := k.createACL("/a", 0, tt.acl); r.Code != tt.want {
				t.Fatalf("%v (%d), want %d", r.Code, r.Code, tt.want)
			}
			if tt.want == jute.OK && !slices.Equal(listOf(t, k, "/a"), tt.list) {
				t.Errorf("list %q, want %q", listOf(t, k, "/a"), tt.list)
			}
		})
	}
}

// Cases 172 to 177, 181, 182 and 188 to 191: the permissions that operations need.
func TestPermissions(t *testing.T) {
	w := newWorld(t)
	owner := w.connect().auth("digest", "u:p")
	other := w.connect().auth("digest", "u:wrong")
	super := w.connect().auth("super", "")
	owner.must(owner.createACL("/a", 0, aclOf(31, "auth", "")))
	all := func(k *client, want jute.Code) {
		t.Helper()
		got := []jute.Code{k.watchData("/a"), k.watchChildren("/a"), k.watchExists("/a")}
		_, _, code := w.s().GetACL([]byte("/a"), k.ids)
		_, number := w.s().TreeView().AllChildrenNumber([]byte("/a"), k.ids)
		got = append(got, code, number, k.setData("/a", "", -1).Code, k.setACL("/a", aclOf(31, "digest", "u:p"), -1).Code, k.create("/a/x", 0).Code)
		for i, c := range got {
			if c != want {
				t.Errorf("operation %d: %v, want %v", i, c, want)
			}
		}
	}
	all(other, jute.NoAuth)
	all(owner, jute.OK)
	super.must(super.delete("/a/x", -1))
	all(super, jute.OK)
	owner.must(owner.delete("/a/x", -1))
	other.must(other.delete("/a", -1)) // case 173

	owner.must(owner.createACL("/m", 0, append(aclOf(31, "auth", ""), aclOf(1, "world", "anyone")...)))
	if got := listOf(t, other, "/m"); !slices.Equal(got, []string{"digest:u:x:31", "world:anyone:1"}) {
		t.Errorf("177: %q", got)
	}
	if got := listOf(t, owner, "/m"); got[0] != "digest:u:p:31" {
		t.Errorf("177: %q", got)
	}

	owner.must(owner.create("/r", 0))
	owner.must(owner.create("/r/c", 0))
	owner.must(owner.setACL("/r", aclOf(1, "world", "anyone"), -1))
	for name, r := range map[string]Result{
		"188 create": owner.create("/r/d", 0), "188 set": owner.setData("/r", "", -1), "188 delete": owner.delete("/r/c", -1),
		"188 setACL": owner.setACL("/r", jute.OpenACL, -1), "189": owner.create("/r/c", 0), "190": owner.delete("/r/missing", -1),
		"/r/.. without create": owner.create("/r/..", 0), "wrong version": owner.setData("/r", "", 99),
	} {
		if r.Code != jute.NoAuth {
			t.Errorf("%s: %v", name, r.Code)
		}
	}
	owner.must(owner.setACL("/", aclOf(31, "auth", ""), -1)) // case 191
	if r := other.create("/x", 0); r.Code != jute.NoAuth || other.watchData("/") != jute.NoAuth {
		t.Errorf("191: %v", r.Code)
	}
	super.must(super.setACL("/", jute.OpenACL, -1))
	other.must(other.create("/x", 0))

	for acl, want := range map[string]jute.Code{
		"127.0.0.1": 0, "10.0.0.0/8": -102, "127.0.0.0/8": 0, "127.0.0.2": -102, "::1": -102, "0.0.0.0/0": 0, "::/0": -102,
	} {
		path := "/ip-" + strings.ReplaceAll(acl, "/", "_")
		other.must(other.createACL(path, 0, aclOf(31, "ip", acl)))
		if got := other.watchData(path); got != want {
			t.Errorf("181 182 %s: %v, want %v", acl, got, want)
		}
	}
	six := w.connect()
	six.ids[0].Id = "2001:db8::5"
	six.do(jute.OpIdentify, nil)
	six.must(six.createACL("/six", 0, aclOf(31, "ip", "2001:db8::/64")))
	if six.watchData("/six") != jute.OK || other.watchData("/six") != jute.NoAuth {
		t.Error("an ip ACL of an IPv6 network is wrong")
	}
	owner.must(owner.createACL("/some", 0, aclOf(jute.PermRead|jute.PermCreate, "digest", "u:p")))
	if owner.watchData("/some") != jute.OK || owner.setData("/some", "", -1).Code != jute.NoAuth {
		t.Error("an entry grants a permission that it does not list")
	}
	w.replicated().term.SkipACL = true
	if other.watchData("/six") != jute.OK {
		t.Error("SkipACL is set, and permissions are checked")
	}
}

// Many auth entries of a client with many identities do not multiply without limit.
func TestACLExpansionIsBounded(t *testing.T) {
	k := newWorld(t).connect()
	for i := range 100 {
		k.auth("digest", fmt.Sprintf("user%d:%s", i, strings.Repeat("h", 100)))
	}
	var list []jute.ACL
	for i := range 1000 {
		list = append(list, aclOf(31, "auth", fmt.Sprint(i))...)
	}
	if r := k.createACL("/a", 0, list); r.Code != jute.InvalidACL {
		t.Errorf("%v", r.Code)
	}
	k.must(k.createACL("/a", 0, list[:50]))
}

// Entries are compared as in ZooKeeper: what is null fails only where an earlier entry has the same fields before.
func TestDistinctEntries(t *testing.T) {
	entry := func(perms jute.Perm, fields ...string) jute.ACL {
		e := jute.ACL{Perms: perms}
		if len(fields) > 0 {
			e.ID.Scheme = []byte(fields[0])
		}
		if len(fields) > 1 {
			e.ID.ID = []byte(fields[1])
		}
		return e
	}
	for _, tt := range []struct {
		name string
		list []jute.ACL
		kept int // -1: MarshallingError
	}{
		{"twice", []jute.ACL{entry(1, "ip", "a"), entry(1, "ip", "a")}, 1},
		{"an empty id twice", []jute.ACL{entry(1, "ip", ""), entry(1, "ip", "")}, 1},
		{"other ids", []jute.ACL{entry(1, "ip", "a"), entry(1, "ip", "b")}, 2},
		{"other permissions", []jute.ACL{entry(1, "ip", "a"), entry(2, "ip", "a")}, 2},
		{"no scheme twice", []jute.ACL{entry(1), entry(1)}, -1},
		{"no scheme after one", []jute.ACL{entry(1, "ip", "a"), entry(1)}, -1},
		{"no scheme before one", []jute.ACL{entry(1), entry(1, "ip", "a")}, 2},
		{"no scheme, other permissions", []jute.ACL{entry(1), entry(2)}, 2},
		{"no id twice", []jute.ACL{entry(1, "ip"), entry(1, "ip")}, -1},
		{"no id after one", []jute.ACL{entry(1, "ip", "a"), entry(1, "ip")}, -1},
		{"no id before one", []jute.ACL{entry(1, "ip"), entry(1, "ip", "a")}, 2},
		{"no id, other schemes", []jute.ACL{entry(1, "ip", "a"), entry(1, "digest")}, 2},
		{"no id, other permissions", []jute.ACL{entry(1, "ip", "a"), entry(2, "ip")}, 2},
	} {
		kept, code := distinctEntries(tt.list)
		if wrong := tt.kept < 0; (code == jute.MarshallingError) != wrong || !wrong && (code != jute.OK || len(kept) != tt.kept) {
			t.Errorf("%s: %d kept, %v", tt.name, len(kept), code)
		}
	}
}

// The longest list has exactly 1 MiB in the log's encoding.
func TestLongestACL(t *testing.T) {
	const entries, each = 1024, 1 << 20 / 1024
	list := func(more string) (list []jute.ACL) {
		for i := range entries {
			id := fmt.Sprintf("%04d:", i)
			list = append(list, aclOf(31, "digest", id+strings.Repeat("h", each-12-len("digest")-len(id)))...)
		}
		last := &list[entries-1].ID
		last.ID = append(last.ID, more...)
		return list
	}
	k := newWorld(t).connect()
	k.must(k.createACL("/a", 0, list("")))
	if r := k.createACL("/b", 0, list("h")); r.Code != jute.InvalidACL {
		t.Errorf("a list of 1 MiB and a byte: %v", r.Code)
	}
}

// Equal lists share memory. A list that no node has any more is forgotten.
func TestACLsAreShared(t *testing.T) {
	k := newWorld(t).connect()
	k.must(k.createACL("/a", 0, aclOf(31, "digest", "u:p")))
	k.must(k.createACL("/b", 0, aclOf(31, "digest", "u:p")))
	s := k.w.s()
	if k.w.nodeAt("/a").acl != k.w.nodeAt("/b").acl {
		t.Error("equal lists are stored twice")
	}
	for i := range 10 * minSweepSize {
		k.must(k.createACL("/c", 0, aclOf(31, "digest", fmt.Sprintf("u:%d", i))))
		k.must(k.delete("/c", -1))
		if i%minSweepSize == 0 {
			runtime.GC()
		}
	}
	if n := len(s.acls.byText); n > 3*minSweepSize {
		t.Errorf("%d lists known", n)
	}
	k.must(k.createACL("/d", 0, aclOf(31, "digest", "u:p")))
	if k.w.nodeAt("/a").acl != k.w.nodeAt("/d").acl {
		t.Error("a list in use was forgotten")
	}
}
