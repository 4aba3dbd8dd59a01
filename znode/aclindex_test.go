package znode

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"rollcall/proto"
	"rollcall/zk/jute"
)

// filled returns a list with entries for other users, until it is long.
func filled(list []jute.ACL) []jute.ACL {
	for i := range 2 * indexedACLEntries {
		list = append(list, aclOf(jute.PermRead, "digest", fmt.Sprintf("other%d:x", i))...)
	}
	return list
}

// An address with a zone is matched without its zone, in short lists and in long ones. Peers on a local link have such addresses.
func TestIPWithZoneMatches(t *testing.T) {
	var lists aclTable
	for _, list := range [][]jute.ACL{aclOf(jute.PermRead, "ip", "fe80::/64"), filled(aclOf(jute.PermRead, "ip", "fe80::/64"))} {
		a, ok := lists.internList(list)
		if !ok || (a.hashIndex != nil) != (len(list) > indexedACLEntries) {
			t.Fatalf("a list of %d entries: %t, index %v", len(list), ok, a.hashIndex)
		}
		for id, want := range map[string]bool{"fe80::1%eth0": true, "fe80::1": true, "fe81::1%eth0": false, "1.2.3.4": false, "x": false} {
			if got := new(principal).setIdentities([]*proto.Identity{{Scheme: "ip", Id: id}}).hasAnyPerm(a, jute.PermRead, false); got != want {
				t.Errorf("%d entries: %s matches fe80::/64: %t, want %t", len(list), id, got, want)
			}
		}
	}
}

// A long list, which has an index, allows what its entries allow one by one.
func TestLongListsAllowTheSame(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	drawn := func(of []string) string { return of[rng.IntN(len(of))] }
	schemes := []string{"digest", "sasl", "x509", "ip", "ip", "ip"}
	names := map[string][]string{
		"digest": {"a:1", "b:2", "c:3"}, "sasl": {"bob", "super"}, "x509": {"CN=a", "CN=b"},
		"ip": {"1.2.3.4", "1.2.3.0/24", "1.2.3.200/25", "0.0.0.0/0", "9.0.0.0/8", "::1", "2001:db8::/32", "2001:db8::1/33", "::ffff:102:304", "::/0", "::ffff:0:0/96"},
	}
	addresses := []string{"1.2.3.4", "1.2.3.200", "9.9.9.9", "::1", "2001:db8::1", "2001:db8:8000::1%eth0", "::ffff:1.2.3.4", "nonsense"}
	naive := func(list []jute.ACL, id *proto.Identity, perms jute.Perm, sasl bool) bool {
		for _, e := range list {
			scheme, entry := string(e.ID.Scheme), string(e.ID.ID)
			matches := scheme == id.GetScheme() && entry == id.GetId() && scheme != "ip"
			if addr, err := netip.ParseAddr(id.GetId()); scheme == "ip" && id.GetScheme() == "ip" && err == nil {
				prefix, _ := parsePrefix(entry)
				matches = prefix.Contains(addr.WithZone(""))
			}
			if e.Perms&perms != 0 && (matches || sasl && scheme == "sasl" && isSASLSuperUser(id)) {
				return true
			}
		}
		return false
	}
	allowed := 0
	for range 5000 {
		var list []jute.ACL
		for range 1 + rng.IntN(6) {
			scheme := drawn(schemes)
			list = append(list, aclOf(jute.Perm(rng.IntN(32)), scheme, drawn(names[scheme]))...)
		}
		if rng.IntN(4) > 0 {
			list = filled(list)
		}
		scheme := drawn(schemes)
		id := &proto.Identity{Scheme: scheme, Id: drawn(names[scheme])}
		if scheme == "ip" {
			id.Id = drawn(addresses)
		}
		perms, sasl := jute.Perm(1<<rng.IntN(5)), rng.IntN(2) == 0
		a, ok := new(aclTable).internList(list)
		if !ok {
			t.Fatalf("%v", list)
		}
		want := naive(list, id, perms, sasl)
		if got := new(principal).setIdentities([]*proto.Identity{{Scheme: "digest", Id: "nobody:x"}, id}).hasAnyPerm(a, perms, sasl); got != want {
			t.Errorf("%d entries, %v, sasl %t, %v: %t, want %t\n%v", len(list), perms, sasl, id, got, want, list)
		}
		if want {
			allowed++
		}
	}
	if allowed < 500 || allowed > 4500 {
		t.Errorf("%d of 5000 were allowed: the lists show little", allowed)
	}
}

// What a check costs a client without permissions, by the entries of the list and the identities.
func BenchmarkAllows(b *testing.B) {
	for _, entries := range []int{1, indexedACLEntries, indexedACLEntries + 1, 1000, 20_000} {
		for _, identities := range []int{1, 64} {
			b.Run(fmt.Sprintf("entries=%d/identities=%d", entries, identities), func(b *testing.B) {
				var list []jute.ACL
				for i := range entries {
					if i%2 == 0 {
						list = append(list, aclOf(jute.PermRead, "digest", fmt.Sprintf("user%d:x", i))...)
					} else {
						list = append(list, aclOf(jute.PermRead, "ip", fmt.Sprintf("10.%d.%d.0/%d", i>>8&255, i&255, 24+i%8))...)
					}
				}
				a, _ := new(aclTable).internList(list)
				who := []*proto.Identity{{Scheme: "ip", Id: "192.0.2.1"}}
				for i := range identities - 1 {
					who = append(who, &proto.Identity{Scheme: "digest", Id: fmt.Sprintf("me%d:x", i)})
				}
				var k principal
				for b.Loop() {
					if k.setIdentities(who).hasAnyPerm(a, jute.PermRead, true) {
						b.Fatal("allowed")
					}
				}
			})
		}
	}
}
