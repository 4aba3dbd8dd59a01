package nodepath

import "testing"

func TestParent(t *testing.T) {
	for path, want := range map[string]string{"/a/b/c": "/a/b", "/a/b": "/a", "/a": "/", "/": "/"} {
		if got := Parent(path); got != want {
			t.Errorf("the parent of %s is %q, want %q", path, got, want)
		}
	}
}

func TestSplitLast(t *testing.T) {
	for path, want := range map[string][2]string{"a/b/c": {"a/b", "c"}, "a": {"", "a"}, "": {"", ""}, "/a": {"", "a"}, "/a/b": {"/a", "b"}} {
		if parent, name := SplitLast(path); parent != want[0] || name != want[1] {
			t.Errorf("%q: %q and %q, want %q", path, parent, name, want)
		}
	}
}
