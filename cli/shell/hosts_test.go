package shell

import (
	"fmt"
	"testing"

	"rollcall/operator/subtree"
)

func TestTarget(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"a:1", "[a:1] "},
		{"a", "[a:2181] "},
		{"a:1,b, c:3/app/x", "[a:1 b:2181 c:3] /app/x"},
		{"a:1/", "[a:1] "},
		{"[::1]:5", "[[::1]:5] "},
		{"[::1]", "[[::1]:2181] "},
		{"::1", "[[::1]:2181] "},
		{"a:1,", `"a:1,": an address is missing; must be host:port,host:port`},
		{"a:1//x", `"a:1//x": Invalid path string "//x" caused by empty node name specified @1; must be host:port,host:port/root`},
		{"a:1/x/", "[a:1] /x"},
		{"a:1/x//", `"a:1/x//": Path must not end with / character; must be host:port,host:port/root`},
	} {
		target, err := parseTarget(tt.text)
		got := fmt.Sprint(err)
		if err == nil {
			got = fmt.Sprint(target.servers) + " " + target.space.Root
		}
		if got != tt.want {
			t.Errorf("%q: %s, want %s", tt.text, got, tt.want)
		}
	}
}

// The shell's / may be another node.
func TestRoot(t *testing.T) {
	for _, tt := range []struct{ root, seen, real string }{
		{"", "/", "/"},
		{"", "/a", "/a"},
		{"/app", "/", "/app"},
		{"/app", "/a/b", "/app/a/b"},
	} {
		space := subtree.Space{Root: tt.root}
		if real, seen := space.FullPath(tt.seen), space.TrimRoot(tt.real); real != tt.real || seen != tt.seen {
			t.Errorf("%+v: %s, %s", tt, real, seen)
		}
	}
	if got := (subtree.Space{Root: "/app"}).TrimRoot("/apple"); got != "/apple" {
		t.Errorf("a node beside the root is seen as %s", got)
	}
}
