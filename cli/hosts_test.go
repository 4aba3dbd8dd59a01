package cli

import (
	"strings"
	"testing"
)

// A list of servers may end in a path, which all paths of nodes are below.
func TestParseHosts(t *testing.T) {
	for text, want := range map[string]string{
		"a:1":                "a:1 ",
		"a:1, b:2 ":          "a:1 b:2 ",
		"a:1,b:2/app":        "a:1 b:2 /app",
		"[::1]:2181/app/x,y": "[::1]:2181 /app/x,y",
		"a:1/":               "a:1 ",
		"a:1/app/":           "a:1 /app",
		"a:1/app//":          "does not end with a slash",
		"a:1//app":           "between two slashes",
		"a:1/app,b:2":        `the path "/app,b:2" has another address in it`,
		"/app":               "an address is missing",
		"a:+1":               `"a:+1": a port is a number`,
		"a:1,":               "an address is missing",
	} {
		hosts, root, err := parseHosts(text)
		if err != nil && !strings.Contains(err.Error(), want) || err == nil && strings.Join(hosts, " ")+" "+root != want {
			t.Errorf("%s: %q, %q, %v, want %s", text, hosts, root, err, want)
		}
	}
}
