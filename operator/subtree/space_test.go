package subtree

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Paths of a space are below its root, and events of other nodes keep their paths.
func TestSpacePaths(t *testing.T) {
	for _, tt := range []struct{ root, path, full string }{
		{"", "/", "/"}, {"", "/a", "/a"}, {"/r", "/", "/r"}, {"/r", "/a/b", "/r/a/b"},
	} {
		s := Space{Root: tt.root}
		if full, short := s.FullPath(tt.path), s.TrimRoot(tt.full); full != tt.full || short != tt.path {
			t.Errorf("root %q: Full(%q) is %q, Short(%q) is %q", tt.root, tt.path, full, tt.full, short)
		}
	}
	for _, other := range []string{"/rest", "/", "/other"} {
		if short := (Space{Root: "/r"}).TrimRoot(other); short != other {
			t.Errorf("Short(%q) below /r is %q", other, short)
		}
	}
	if !(Space{}).IsServersNode("/zookeeper") || (Space{Root: "/r"}).IsServersNode("/zookeeper") {
		t.Error("Own does not tell the servers' node from one of that name below a root")
	}
}

// The error of a path that no node may have names the fault.
func TestCheckPath(t *testing.T) {
	for path, want := range map[string]string{
		"/": "", "/a": "", "/a/b.c": "", "/a..b": "", "/ü": "", "/a b": "",
		"": "begins with a slash", "a": "begins with a slash", "/a/": "does not end", "//": "does not end", "//a": "between two slashes",
		"/a/./b": `"." and ".."`, "/..": `"." and ".."`, "/a\x1bb": "control characters", "/\u0085": "control characters", "/😀": "control characters",
	} {
		err := CheckPath(path)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", path, err, want)
		}
	}
}

// A request without a reply ends after a while, and so does one that is sent again and again.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		silent := func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}
		if err := (Space{}).SendOnce(t.Context(), silent); !errors.Is(err, ErrNoReply) || time.Since(began) != requestTimeout {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		if err := (Space{}).SendIdempotent(t.Context(), silent); !errors.Is(err, ErrNoReply) || time.Since(began) != 2*requestTimeout {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := (Space{}).SendIdempotent(ctx, silent); !errors.Is(err, context.Canceled) {
			t.Errorf("the caller gave up: %v", err)
		}
	})
}

// Paths that are not below the root of a space are not taken for others that are.
func TestRelative(t *testing.T) {
	for _, tt := range []struct{ root, full, want string }{
		{"", "/a/b", "/a/b"},
		{"/a", "/a", "/"},
		{"/a", "/a/b", "/b"},
		{"/a/b", "/a/b/c/d", "/c/d"},
		{"/a", "/", "/.."},
		{"/a/b", "/a", "/.."},
		{"/a/b", "/", "/../.."},
		{"/a/b", "/a/c", "/../c"},
		{"/a/b", "/x/y", "/../../x/y"},
		{"/a", "/ab", "/../ab"},
	} {
		if got := (Space{Root: tt.root}).RelativePath(tt.full); got != tt.want {
			t.Errorf("below %s, %s is %s, want %s", tt.root, tt.full, got, tt.want)
		}
	}
}
