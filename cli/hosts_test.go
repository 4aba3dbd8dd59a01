package cli

import (
	"strings"
	"testing"

	"rollcall/cli/subtree"
)

// A list of servers may end in a path, which all paths of nodes are below.
func TestParseHosts(t *testing.T) {
	for text, want := range map[string]string{
		"a:1":                "a:1 ",
		"a:1, b:2 ":          "a:1 b:2 ",
		"a:1,b:2/app":        "a:1 b:2 /app",
		"[::1]:2181/app/x,y": "[::1]:2181 /app/x,y",
		"a:1/":               "a:1 ",
		"a:1/app/":           "does not end with a slash",
		"a:1//app":           "between two slashes",
		"a:1/app,b:2":        `the path "/app,b:2" has another address in it`,
		"/app":               `"" is not host:port`,
		"a:+1":               `"a:+1" is not host:port`,
		"a:1,":               `"" is not host:port`,
	} {
		hosts, root, err := ParseHosts(text)
		if err != nil && !strings.Contains(err.Error(), want) || err == nil && strings.Join(hosts, " ")+" "+root != want {
			t.Errorf("%s: %q, %q, %v, want %s", text, hosts, root, err, want)
		}
	}
}

// FuzzParseHosts checks that what ParseHosts accepts are addresses, which read the same when they are put
// together again.
func FuzzParseHosts(f *testing.F) {
	for _, text := range []string{"127.0.0.1:2181", "a:1,b:2/app", "[::1]:2181/x,y", "a:1/a,b:2", ",,/"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		hosts, root, err := ParseHosts(text)
		if err != nil {
			return
		}
		again, rootAgain, err := ParseHosts(strings.Join(hosts, ",") + root)
		if err != nil || strings.Join(again, " ") != strings.Join(hosts, " ") || rootAgain != root || len(hosts) == 0 || len(hosts) > maxHosts {
			t.Errorf("%q: %q and %q, and then %q and %q, %v", text, hosts, root, again, rootAgain, err)
		}
		if root != "" && (root == "/" || subtree.CheckPath(root) != nil) {
			t.Errorf("%q: root %q", text, root)
		}
	})
}
