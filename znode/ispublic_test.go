package znode

import (
	"testing"

	"rollcall/zk/jute"
)

// A name is public if everybody may read every node above it, and those are there.
func TestPublic(t *testing.T) {
	w := newWorld(t)
	k := w.connect()
	k.create("/open", 0)
	k.create("/open/a", 0)
	k.create("/shut", 0)
	k.create("/shut/a", 0)
	k.must(k.setACL("/shut", aclOf(jute.PermAll, "ip", "10.9.9.9"), -1))
	for path, want := range map[string]bool{
		"/": true, "/open": true, "/open/a": true, "/open/a/b": true, "/open/none": true, "/open/none/b": false,
		"/shut": true, "/shut/a": false, "/shut/none": false, "/shut/a/b": false, "/none/a": false, "": false,
	} {
		if got := w.s().TreeView().HasPublicAncestors(path); got != want {
			t.Errorf("Public(%q) = %t, want %t", path, got, want)
		}
	}
}

// Anybody may make a quota, until the list of /zookeeper/quota says otherwise, as docs/security.md has it. The super user still may.
func TestWhoMakesQuotas(t *testing.T) {
	w := newWorld(t)
	k, super := w.connect(), w.connect().auth("super", "")
	k.must(k.create("/zookeeper/quota/a", 0))
	for _, path := range []string{"/zookeeper/quota", "/zookeeper/quota/a"} {
		super.must(super.setACL(path, aclOf(jute.PermRead, "world", "anyone"), -1))
	}
	for name, code := range map[string]jute.Code{
		"create": k.create("/zookeeper/quota/b", 0).Code, "below": k.create("/zookeeper/quota/a/b", 0).Code, "set": k.setData("/zookeeper/quota/a", "x", -1).Code,
		"delete": k.delete("/zookeeper/quota/a", -1).Code, "take back": k.setACL("/zookeeper/quota", jute.OpenACL, -1).Code,
	} {
		if code != jute.NoAuth {
			t.Errorf("%s: %v, want NoAuth", name, code)
		}
	}
	super.must(super.create("/zookeeper/quota/c", 0))
}
