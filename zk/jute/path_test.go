package jute

import "testing"

// A path has a slash in front of each part, and no part that is empty, "." or "..", or that has a character that ZooKeeper rejects.
func TestValidPath(t *testing.T) {
	for path, want := range map[string]bool{
		"/": true, "/a": true, "/a/b": true, "/a.b": true, "/.a": true, "/a.": true, "/...": true, "/..a/b": true, "/a b": true, "/~": true, "/\u00a0": true, "/\ud7ff": true, "/\uf900": true, "/\uffef": true,
		"": false, "a": false, "a/b": false, "//": false, "/a/": false, "//a": false, "/a//b": false, "/.": false, "/..": false, "/a/.": false, "/a/..": false, "/./a": false, "/../a": false, "/a/./b": false, "/a/../b": false,
		"/\x00": false, "/\x1f": false, "/\x7f": false, "/a\x01b": false, "/é\x1f": false, "/\u0080": false, "/\u009f": false, "/\ue000": false, "/\uf8ff": false, "/\ufff0": false, "/\ufffd": false, "/\U00010000": false, "/\xff": false,
	} {
		if got := ValidPath(path); got != want {
			t.Errorf("%q: %t, want %t", path, got, want)
		}
	}
}
