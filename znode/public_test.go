package znode

import (
	"testing"

	"rollcall/jute"
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
		if got := w.s().Public(path); got != want {
			t.Errorf("Public(%q) = %t, want %t", path, got, want)
		}
	}
}
