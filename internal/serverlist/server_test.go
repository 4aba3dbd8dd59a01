package serverlist

import (
	"fmt"
	"strings"
	"testing"
)

// The numbers are those of the conformance cases.
func TestParseServer(t *testing.T) {
	tests := []struct{ name, text, want, client, err string }{
		{name: "case 374", text: "h:2888:3888;2181", want: "server.1=h:2888:3888:participant;0.0.0.0:2181", client: "0.0.0.0:2181"},
		{name: "case 375", text: "h:2888:3888:OBSERVER;127.0.0.1:2181", want: "server.1=h:2888:3888:observer;127.0.0.1:2181", client: "127.0.0.1:2181"},
		{name: "case 376 one port", text: "h:2888", err: errSyntax.Error()},
		{name: "case 376 role", text: "h:2888:3888:boss", err: `role "boss": must be participant or observer`},
		{name: "case 376 equal ports", text: "h:2888:2888", err: "quorumPort and electionPort must differ"},
		{name: "case 376 ports", text: "h:a:b", err: `port "a": must be 1 to 65535`},
		{name: "case 376 two client parts", text: "h:2888:3888;1;2", err: `port "1;2": must be 1 to 65535`},
		{name: "case 377", text: "[::1]:2888:3888;[::1]:2181", want: "server.1=[::1]:2888:3888:participant;[::1]:2181", client: "[::1]:2181"},
		{name: "case 378", text: "h:2888:3888|i:2888:3888;2181", err: errMultiAddress.Error()},
		{name: "no client part", text: "h:2888:3888:Participant", want: "server.1=h:2888:3888:participant"},
		{name: "IPv6, long", text: "[0:0:0:0:0:0:0:1]:2888:3888", want: "server.1=[::1]:2888:3888:participant"},
		{name: "IPv6 without brackets", text: "::1:2888:3888", err: errSyntax.Error()},
		{name: "name in brackets", text: "[h]:2888:3888", err: `host "[h]": must be a name, an IPv4 address or an IPv6 address in brackets`},
		{name: "IPv4 in brackets", text: "[10.0.0.1]:2888:3888", err: `host "[10.0.0.1]": must be a name, an IPv4 address or an IPv6 address in brackets`},
		{name: "bracket not closed", text: "[::1:2888:3888", err: errSyntax.Error()},
		{name: "zone", text: "[fe80::1%eth0]:2888:3888", err: `host "[fe80::1%eth0]": must be a name, an IPv4 address or an IPv6 address in brackets`},
		{name: "empty", text: "", err: errSyntax.Error()},
		{name: "no host", text: ":2888:3888", err: `host "": must be a name, an IPv4 address or an IPv6 address in brackets`},
		{name: "long host", text: strings.Repeat("h", 254) + ":1:2", err: fmt.Sprintf("host %q: must be a name, an IPv4 address or an IPv6 address in brackets", strings.Repeat("h", 80))},
		{name: "port 0", text: "h:0:3888", err: `port "0": must be 1 to 65535`},
		{name: "port 65536", text: "h:2888:65536", err: `port "65536": must be 1 to 65535`},
		{name: "port with a sign", text: "h:2888:+3888", err: `port "+3888": must be 1 to 65535`},
		{name: "too many fields", text: "h:2888:3888:observer:1", err: errSyntax.Error()},
		{name: "empty client part", text: "h:2888:3888;", err: `port "": must be 1 to 65535`},
		{name: "client host alone", text: "h:2888:3888;h:", err: `port "": must be 1 to 65535`},
		{name: "client part of three", text: "h:2888:3888;h:1:2", err: `port "1:2": must be 1 to 65535`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseServer(1, tt.text)
			if (err != nil) != (tt.err != "") || err != nil && err.Error() != tt.err {
				t.Fatalf("ParseServer(%q): %v, want %q", tt.text, err, tt.err)
			}
			if err == nil && (got.String() != tt.want || got.ClientAddr() != tt.client) {
				t.Errorf("ParseServer(%q) = %v, clients %q, want %v, %q", tt.text, got, got.ClientAddr(), tt.want, tt.client)
			}
		})
	}
}

// The canonical form of every accepted server line parses to the same server.
func FuzzServerLine(f *testing.F) {
	f.Add("h:2888:3888:observer;[::1]:2181")
	f.Add("[fe80::1]:1:2;2181")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseServer(1, text)
		if err != nil {
			return
		}
		again, err := ParseServer(1, strings.TrimPrefix(s.String(), "server.1="))
		if err != nil || again != s {
			t.Fatalf("%q parses to %v, and that to %v, %v", text, s, again, err)
		}
	})
}
