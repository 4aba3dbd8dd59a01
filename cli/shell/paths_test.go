package shell

import (
	"fmt"
	"testing"
)

// These are the messages of ZooKeeper's Java client for paths. Positions count UTF-16 units.
func TestCheckPath(t *testing.T) {
	for _, tt := range []struct{ path, want string }{
		{"/", "<nil>"},
		{"/a", "<nil>"},
		{"/a/b.c/..d/...", "<nil>"},
		{"/\u00e9", "<nil>"},
		{"", "Path length must be > 0"},
		{"a", "Path must start with / character"},
		{"/a/", "Path must not end with / character"},
		{"//x", `Invalid path string "//x" caused by empty node name specified @1`},
		{"/a//b", `Invalid path string "/a//b" caused by empty node name specified @3`},
		{"/..", `Invalid path string "/.." caused by relative paths not allowed @2`},
		{"/a/../b", `Invalid path string "/a/../b" caused by relative paths not allowed @4`},
		{"/a/.", `Invalid path string "/a/." caused by relative paths not allowed @3`},
		{"/a\x00", "Invalid path string \"/a\x00\" caused by null character not allowed @2"},
		{"/c\x01", "Invalid path string \"/c\x01\" caused by invalid character @2"},
		{"/uni/\u00e9\U0001f600b", "Invalid path string \"/uni/\u00e9\U0001f600b\" caused by invalid character @6"},
		{"/\u00e9\U0001f600/\x01", "Invalid path string \"/\u00e9\U0001f600/\x01\" caused by invalid character @2"},
		{"/\u00e9\u00e9/.", "Invalid path string \"/\u00e9\u00e9/.\" caused by relative paths not allowed @4"},
		{"/\ufffd", "Invalid path string \"/\ufffd\" caused by invalid character @1"},
	} {
		if got := fmt.Sprint(checkPath(tt.path)); got != tt.want {
			t.Errorf("%q: %s, want %s", tt.path, got, tt.want)
		}
	}
}
