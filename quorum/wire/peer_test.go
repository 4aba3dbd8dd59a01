package wire

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
)

func TestCheckPeers(t *testing.T) {
	tests := []struct {
		name  string
		peers []Peer
		want  string // part of the error; "" for none
	}{
		{"three", []Peer{{1, "a:3888"}, {2, "b:3888"}, {3, "[2001:db8::1]:3888"}}, ""},
		{"one host, three ports", []Peer{{1, "a:3888"}, {2, "a:3889"}, {3, "a:3890"}}, ""},
		{"same address", []Peer{{1, "a:3888"}, {2, "a:3888"}}, "share the address"},
		{"same address, other case", []Peer{{1, "host:3888"}, {2, "HOST:3888"}}, "share the address"},
		{"same address, absolute name", []Peer{{1, "host:3888"}, {2, "host.:3888"}}, "share the address"},
		{"same address, other spelling", []Peer{{1, "[::1]:3888"}, {2, "[0:0::1]:3888"}}, "share the address"},
		{"same address, mapped", []Peer{{1, "10.0.0.1:3888"}, {2, "[::ffff:10.0.0.1]:3888"}}, "share the address"},
		{"wildcard", []Peer{{1, "0.0.0.0:3888"}}, "wildcard"},
		{"wildcard of IPv6", []Peer{{1, "[::]:3888"}}, "wildcard"},
		{"no host", []Peer{{1, ":3888"}}, "no host"},
		{"no port", []Peer{{1, "a"}}, "missing port"},
		{"port 0", []Peer{{1, "a:0"}}, "port"},
		{"port too large", []Peer{{1, "a:65536"}}, "port"},
		{"id twice", []Peer{{1, "a:1"}, {1, "b:1"}}, "listed twice"},
		{"id 0", []Peer{{1, "a:1"}, {0, "b:1"}}, "not between 1 and 255"},
		{"id 256", []Peer{{1, "a:1"}, {256, "b:1"}}, "not between 1 and 255"},
		{"not listed", []Peer{{2, "a:1"}}, "not in the server list"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := CheckPeers(1, tt.peers)
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("CheckPeers: %v, want %q", err, tt.want)
			}
		})
	}
}

// All members write the same bytes, whatever the order of their lists.
func TestCanonical(t *testing.T) {
	a := []Peer{{2, "b:2"}, {10, "c:3"}, {1, "a:1"}}
	b := []Peer{{1, "a:1"}, {2, "b:2"}, {10, "c:3"}}
	if !bytes.Equal(ConfigHash(a), ConfigHash(b)) || len(ConfigHash(a)) != hashSize {
		t.Error("the hash depends on the order")
	}
	if !bytes.Equal(raft.EncodeConfiguration(Configuration(a)), raft.EncodeConfiguration(Configuration(b))) {
		t.Error("the bootstrap entry depends on the order")
	}
	if want := []string{"server.1=a:1", "server.2=b:2", "server.10=c:3"}; !slices.Equal(Canonical(a), want) {
		t.Errorf("canonical = %q", Canonical(a))
	}
	for _, other := range [][]Peer{{{1, "a:1"}, {2, "b:2"}}, {{1, "a:1"}, {2, "b:2"}, {10, "c:4"}}, {{1, "a:1"}, {2, "b:2"}, {11, "c:3"}}} {
		if bytes.Equal(ConfigHash(a), ConfigHash(other)) {
			t.Errorf("%v has the same hash", other)
		}
	}
}
