package before

import (
	"fmt"
	"strings"
	"testing"
)

// A list of servers may end in a path. Where a port is given, addresses need none.
func TestParseServers(t *testing.T) {
	const number = "a port is a number from 1 to 65535"
	for _, tt := range []struct {
		text string
		port int
		want string
	}{
		{"a:1", 0, "[a:1] "},
		{"a:1, b:2 ", 0, "[a:1 b:2] "},
		{"a:1,b:2/app", 0, "[a:1 b:2] /app"},
		{"[::1]:2181/app/x,y", 0, "[[::1]:2181] /app/x,y"},
		{"a:1/", 0, "[a:1] "},
		{"a", 2181, "[a:2181] "},
		{"a:1,b, c:3/app/x", 2181, "[a:1 b:2181 c:3] /app/x"},
		{"[::1]", 2181, "[[::1]:2181] "},
		{"::1", 2181, "[[::1]:2181] "},
		{"a", 0, `"a" has no port; must be host:port`},
		{"::1", 0, `"::1" has no port; must be host:port`},
		{"", 2181, "an address is missing; must be host:port,host:port"},
		{"a:1,", 0, "an address is missing; must be host:port,host:port"},
		{"/app", 0, "an address is missing; must be host:port,host:port"},
		{"a:x", 0, `"a:x": ` + number},
		{"a:", 2181, `"a:": ` + number},
		{"a:0", 0, `"a:0": ` + number},
		{"a:+1", 0, `"a:+1": ` + number},
		{"a:65536", 0, `"a:65536": ` + number},
		{":1", 0, `":1" has no host; must be host:port`},
		{"a:b:c", 2181, `"a:b:c" is not host:port; an IPv6 address stands in brackets, as in [::1]:2181`},
		{"[a", 2181, `"[a" is not host:port; an IPv6 address stands in brackets, as in [::1]:2181`},
		{"[\v0", 3, `"[\v0" is not host:port; an IPv6 address stands in brackets, as in [::1]:2181`},
		{"a\vb:1", 0, `"a\vb:1" is not host:port; an IPv6 address stands in brackets, as in [::1]:2181`},
		{"a b:1", 0, `"a b:1" is not host:port; an IPv6 address stands in brackets, as in [::1]:2181`},
		{strings.Repeat("a:1,", maxServers) + "a:1", 0, "33 addresses; at most 32 are allowed"},
	} {
		servers, root, err := ParseServers(tt.text, tt.port)
		got := fmt.Sprint(servers) + " " + root
		if err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("ParseServers(%q, %d): %s, want %s", tt.text, tt.port, got, tt.want)
		}
	}
}

// FuzzParseServers checks that what ParseServers accepts are addresses with ports, which read the same when
// they are put together again.
func FuzzParseServers(f *testing.F) {
	for _, text := range []string{"127.0.0.1:2181", "a:1,b:2/app", "[::1]:2181/x,y", "a:1/a,b:2", "::1,b", ",,/"} {
		f.Add(text, uint16(2181))
		f.Add(text, uint16(0))
	}
	f.Fuzz(func(t *testing.T, text string, port uint16) {
		servers, root, err := ParseServers(text, int(port))
		if err != nil {
			return
		}
		again, rootAgain, err := ParseServers(strings.Join(servers, ",")+root, 0)
		if err != nil || strings.Join(again, " ") != strings.Join(servers, " ") || rootAgain != root || len(servers) == 0 || len(servers) > maxServers {
			t.Errorf("%q: %q and %q, and then %q and %q, %v", text, servers, root, again, rootAgain, err)
		}
	})
}
