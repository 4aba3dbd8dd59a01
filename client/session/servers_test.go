package session

import (
	"fmt"
	"strings"
	"testing"
)

// A list of servers may end in a path. Where a port is given, addresses need none. Entries may be sockets and names with
// SRV records.
func TestParseServers(t *testing.T) {
	const number = "a port is a number from 1 to 65535"
	const srvForm = "is not srv: and a name of at most 253 bytes, as in srv:_zookeeper._tcp.example.com"
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
		{"a:1/app/", 0, "[a:1] /app"},
		{"a:1/app//", 0, "[a:1] /app//"},
		{"a:1//", 0, "[a:1] //"},
		{"unix:/a:/app/", 0, "[unix:/a] /app"},
		{"a", 2181, "[a:2181] "},
		{"a:1,b, c:3/app/x", 2181, "[a:1 b:2181 c:3] /app/x"},
		{"[::1]", 2181, "[[::1]:2181] "},
		{"::1", 2181, "[[::1]:2181] "},
		{"srv:_zk._tcp.example.com", 0, "[srv:_zk._tcp.example.com] "},
		{"srv:_zk._tcp.example.com/app", 2181, "[srv:_zk._tcp.example.com] /app"},
		{"dns-srv://_zk._tcp.example.com", 0, "[srv:_zk._tcp.example.com] "},
		{" dns-srv://_zk._tcp.example.com/app/x", 2181, "[srv:_zk._tcp.example.com] /app/x"},
		{" srv:x.y , unix:/run/a.sock ,b:1/app", 0, "[srv:x.y unix:/run/a.sock b:1] /app"},
		{"srv:2181,unix:2181", 0, "[srv:2181 unix:2181] "}, // hosts of these names
		{"unix:/run/a b.sock:/app/x,y", 0, "[unix:/run/a b.sock] /app/x,y"},
		{"unix:/run/rollcall.sock:/", 0, "[unix:/run/rollcall.sock] "},
		{"unix:/run/rollcall.sock", 2181, "[unix:/run/rollcall.sock] "},
		{"a:1,unix:/:/app", 0, "[a:1 unix:/] /app"},
		{"unix:/a:b", 0, "[unix:/a:b] "},
		{"unix:/" + strings.Repeat("x", maxSocketPath-1), 0, "[unix:/" + strings.Repeat("x", maxSocketPath-1) + "] "},
		{"unix:/" + strings.Repeat("x", maxSocketPath), 0, `"unix:/` + strings.Repeat("x", maxSocketPath) + `": the path of a socket has at most 107 bytes`},
		{"unix:", 0, `"unix:": ` + number},
		{"srv:", 0, `"srv:" ` + srvForm},
		{"dns-srv://", 0, `"srv:" ` + srvForm},
		{"dns-srv://_zk._tcp.x,b:1", 0, `"dns-srv://_zk._tcp.x,b:1": dns-srv:// is followed by one name with SRV records, as in dns-srv://_zookeeper._tcp.example.com/app; in a list of several, each has srv: in front`},
		{"srv:a:1", 0, `"srv:a:1" ` + srvForm},
		{"srv:a b", 0, `"srv:a b" ` + srvForm},
		{"srv:" + strings.Repeat("x", maxSRVName+1), 0, `"srv:` + strings.Repeat("x", 196) + `" ` + srvForm},
		{"srv:" + strings.Repeat("x", maxSRVName), 0, "[srv:" + strings.Repeat("x", maxSRVName) + "] "},
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

// Programs that need host:port reject other entries.
func TestParseHostPorts(t *testing.T) {
	for text, want := range map[string]string{
		"a:1,b/app":             "[a:1 b:2181] /app <nil>",
		"a:1,srv:x.y":           `[]  "srv:x.y" is not host:port`,
		"unix:/run/a.sock:/app": `[]  "unix:/run/a.sock" is not host:port`,
		"a:x":                   `[]  "a:x": a port is a number from 1 to 65535`,
	} {
		servers, root, err := ParseHostPorts(text, 2181)
		if got := fmt.Sprint(servers, " ", root, " ", err); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// FuzzParseServers checks that what ParseServers accepts are addresses with ports, which read the same when
// they are put together again.
func FuzzParseServers(f *testing.F) {
	for _, text := range []string{"127.0.0.1:2181", "a:1,b:2/app", "[::1]:2181/x,y", "a:1/a,b:2", "::1,b", ",,/", "srv:_zk._tcp.x/app", "unix:/run/a.sock:/app", "a:1,unix:/:/,b"} {
		f.Add(text, uint16(2181))
		f.Add(text, uint16(0))
	}
	f.Fuzz(func(t *testing.T, text string, port uint16) {
		servers, root, err := ParseServers(text, int(port))
		if err != nil {
			return
		}
		list := strings.Join(servers, ",") + root
		if root != "" && isUnix(servers[len(servers)-1]) {
			list = strings.Join(servers, ",") + ":" + root
		}
		again, rootAgain, err := ParseServers(list, 0)
		if err != nil || strings.Join(again, " ") != strings.Join(servers, " ") || rootAgain != root || len(servers) == 0 ||
			len(servers) > maxServers {
			t.Errorf("%q: %q and %q, and then %q and %q, %v", text, servers, root, again, rootAgain, err)
		}
	})
}
