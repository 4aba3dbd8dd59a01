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
		{"three", []Peer{{ID: 1, Addr: "a:3888"}, {ID: 2, Addr: "b:3888"}, {ID: 3, Addr: "[2001:db8::1]:3888"}}, ""},
		{"one host, three ports", []Peer{{ID: 1, Addr: "a:3888"}, {ID: 2, Addr: "a:3889"}, {ID: 3, Addr: "a:3890"}}, ""},
		{"same address", []Peer{{ID: 1, Addr: "a:3888"}, {ID: 2, Addr: "a:3888"}}, "share the address"},
		{"same address, other case", []Peer{{ID: 1, Addr: "host:3888"}, {ID: 2, Addr: "HOST:3888"}}, "share the address"},
		{"same address, absolute name", []Peer{{ID: 1, Addr: "host:3888"}, {ID: 2, Addr: "host.:3888"}}, "share the address"},
		{"same address, other spelling", []Peer{{ID: 1, Addr: "[::1]:3888"}, {ID: 2, Addr: "[0:0::1]:3888"}}, "share the address"},
		{"same address, mapped", []Peer{{ID: 1, Addr: "10.0.0.1:3888"}, {ID: 2, Addr: "[::ffff:10.0.0.1]:3888"}}, "share the address"},
		{"wildcard", []Peer{{ID: 1, Addr: "0.0.0.0:3888"}}, "wildcard"},
		{"wildcard of IPv6", []Peer{{ID: 1, Addr: "[::]:3888"}}, "wildcard"},
		{"no host", []Peer{{ID: 1, Addr: ":3888"}}, "no host"},
		{"no port", []Peer{{ID: 1, Addr: "a"}}, "missing port"},
		{"port 0", []Peer{{ID: 1, Addr: "a:0"}}, "port"},
		{"port too large", []Peer{{ID: 1, Addr: "a:65536"}}, "port"},
		{"id twice", []Peer{{ID: 1, Addr: "a:1"}, {ID: 1, Addr: "b:1"}}, "duplicate member 1"},
		{"id 0", []Peer{{ID: 1, Addr: "a:1"}, {ID: 0, Addr: "b:1"}}, "not between 1 and 255"},
		{"id 256", []Peer{{ID: 1, Addr: "a:1"}, {ID: 256, Addr: "b:1"}}, "not between 1 and 255"},
		{"not listed", []Peer{{ID: 2, Addr: "a:1"}}, "not in the server list"},
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
	a := []Peer{{ID: 2, Addr: "b:2"}, {ID: 10, Addr: "c:3"}, {ID: 1, Addr: "a:1"}}
	b := []Peer{{ID: 1, Addr: "a:1"}, {ID: 2, Addr: "b:2"}, {ID: 10, Addr: "c:3"}}
	if !bytes.Equal(ConfigHash(a), ConfigHash(b)) || len(ConfigHash(a)) != hashSize {
		t.Error("the hash depends on the order")
	}
	if !bytes.Equal(raft.EncodeConfiguration(RaftConfiguration(a)), raft.EncodeConfiguration(RaftConfiguration(b))) {
		t.Error("the bootstrap entry depends on the order")
	}
	if want := []string{"server.1=a:1", "server.2=b:2", "server.10=c:3"}; !slices.Equal(CanonicalLines(a), want) {
		t.Errorf("canonical = %q", CanonicalLines(a))
	}
	for _, other := range [][]Peer{{{ID: 1, Addr: "a:1"}, {ID: 2, Addr: "b:2"}}, {{ID: 1, Addr: "a:1"}, {ID: 2, Addr: "b:2"}, {ID: 10, Addr: "c:4"}}, {{ID: 1, Addr: "a:1"}, {ID: 2, Addr: "b:2"}, {ID: 11, Addr: "c:3"}}} {
		if bytes.Equal(ConfigHash(a), ConfigHash(other)) {
			t.Errorf("%v has the same hash", other)
		}
	}
}

// A server's name and its address in raft's configuration name its disk. Two disks of one member may share host and port. A
// configuration gives back the servers that it was made of, and leaves names that are no server's out.
func TestServerNames(t *testing.T) {
	a, b := Peer{ID: 3, DiskID: 0xa, Addr: "[::1]:3888", GRPCAddr: "[::1]:2888"}, Peer{ID: 3, DiskID: 1 << 63, Addr: "[::1]:3888", Observer: true}
	if a.ServerID() != "3.000000000000000a" || b.ServerAddress() != "3.8000000000000000@[::1]:3888" ||
		a.ServerAddress() != "3.000000000000000a@[::1]:3888/[::1]:2888" {
		t.Errorf("%q, %q, %q", a.ServerID(), a.ServerAddress(), b.ServerAddress())
	}
	c := RaftConfiguration([]Peer{b, a})
	if got := PeersIn(c); !slices.Equal(got, []Peer{a, b}) {
		t.Errorf("%v, want %v", got, []Peer{a, b})
	}
	if MemberID(b.ServerID()) != 3 || a.WithoutDisk() != (Peer{ID: 3, Addr: "[::1]:3888", GRPCAddr: "[::1]:2888"}) {
		t.Errorf("member %d, line %v", MemberID(b.ServerID()), a.WithoutDisk())
	}
	for _, name := range []raft.ServerID{
		"", "3", "3.", "3.a", "3.0000000000000000", "3.000000000000000A", "3.000000000000000a.b", "03.000000000000000a",
		"+3.000000000000000a", "x.000000000000000a", "0.000000000000000a", "256.000000000000000a",
	} {
		if id, of, ok := parseServerID(name); ok || MemberID(name) != 0 {
			t.Errorf("%q is taken for the name of member %d with the disk %v", name, id, of)
		}
		c.Servers = append(c.Servers, raft.Server{ID: name, Address: raft.ServerAddress(name + "@a:1")})
	}
	if got := PeersIn(c); !slices.Equal(got, []Peer{a, b}) {
		t.Errorf("with names that are no server's: %v", got)
	}
}
