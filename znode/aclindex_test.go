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
			if got := new(principal).setIdentities([]*proto.Identity{{Scheme: "ip", Id: id}}).hasAnyPerm(a, jute.PermRead, &Rules{}); got != want {
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
		"digest": {"a:1", "b:2", "c:3"}, "sasl": {"bob", "carol", "super"}, "x509": {"CN=a", "CN=b"},
		"ip": {"1.2.3.4", "1.2.3.0/24", "1.2.3.200/25", "0.0.0.0/0", "9.0.0.0/8", "::1", "2001:db8::/32", "2001:db8::1/33", "::ffff:102:304", "::/0", "::ffff:0:0/96"},
	}
	addresses := []string{"1.2.3.4", "1.2.3.200", "9.9.9.9", "::1", "2001:db8::1", "2001:db8:8000::1%eth0", "::ffff:1.2.3.4", "nonsense"}
	naive := func(list []jute.ACL, id *proto.Identity, perms jute.Perm, rules *Rules) bool {
		for _, e := range list {
			scheme, entry := string(e.ID.Scheme), string(e.ID.ID)
			matches := scheme == id.GetScheme() && entry == id.GetId() && scheme != "ip"
			if addr, err := netip.ParseAddr(id.GetId()); scheme == "ip" && id.GetScheme() == "ip" && err == nil {
				prefix, _ := parsePrefix(entry)
				matches = prefix.Contains(addr.WithZone(""))
			}
			if e.Perms&perms != 0 &&
				(matches || rules.SASL && scheme == "sasl" && (isSASLSuperUser(id) || id.GetScheme() == "sasl" && entry == rules.AnySASLUser)) {
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
		perms := jute.Perm(1 << rng.IntN(5))
		rules := &Rules{SASL: rng.IntN(2) == 0, AnySASLUser: drawn([]string{"", "bob", "super"})}
		a, ok := new(aclTable).internList(list)
		if !ok {
			t.Fatalf("%v", list)
		}
		want := naive(list, id, perms, rules)
		if got := new(principal).setIdentities([]*proto.Identity{{Scheme: "digest", Id: "nobody:x"}, id}).hasAnyPerm(a, perms, rules); got != want {
			t.Errorf("%d entries, %v, %+v, %v: %t, want %t\n%v", len(list), perms, *rules, id, got, want, list)
		}
		if want {
			allowed++
		}
	}
	if allowed < 500 || allowed > 4500 {
		t.Errorf("%d of 5000 were allowed: the lists show little", allowed)
	}
}

// An identity that many entries name has one place in the index, with the permissions of all. Entries for anyone and addresses have none.
// A client could otherwise have each check of a list pass a thousand of its entries.
func TestAnIdentityHasOnePlace(t *testing.T) {
	var list []jute.ACL
	for i := range 300 {
		const unknown = 8 // bits of permissions
		list = append(list, aclOf(jute.Perm(i<<unknown|1<<(i%2)), "digest", "u:p")...)
		list = append(list, aclOf(jute.Perm(i<<unknown), "world", "anyone")...)
		list = append(list, aclOf(jute.PermAll, "ip", fmt.Sprintf("10.0.%d.%d", i>>8, i&255))...)
	}
	a, ok := new(aclTable).internList(list)
	if !ok {
		t.Fatal("the list is malformed")
	}
	taken := 0
	for _, place := range a.hashIndex {
		if place != 0 {
			taken++
		}
	}
	if taken != 1 {
		t.Errorf("%d places are taken, want 1", taken)
	}
	if got := a.permsOfName(hashName("digest", "u:p"), "digest", "u:p"); got != jute.PermRead|jute.PermWrite {
		t.Errorf("the identity has the permissions %v", got)
	}
}

// The ranges of a list have the permissions of each address, and are at most twice as many as the entries, at the ends
// of both families too.
func TestRangesOfAddresses(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	drawn := func() netip.Addr { // few values of the first and last bytes, so that networks meet
		var b [16]byte
		for _, i := range []int{0, 1, 2, 3, 14, 15} {
			b[i] = []byte{0, 1, 127, 128, 254, 255}[rng.IntN(6)]
		}
		if rng.IntN(2) == 0 {
			return netip.AddrFrom4([4]byte(b[:4]))
		}
		for i := 4; i < 14; i++ {
			b[i] = b[3]
		}
		return netip.AddrFrom16(b)
	}
	for range 2000 {
		var list []jute.ACL
		var networks []netip.Prefix
		for range 1 + rng.IntN(40) {
			addr := drawn()
			networks = append(networks, netip.PrefixFrom(addr, rng.IntN(addr.BitLen()+1)))
			list = append(list, aclOf(jute.Perm(rng.IntN(32)), "ip", networks[len(networks)-1].String())...)
		}
		a, ok := new(aclTable).internList(list)
		if !ok {
			t.Fatal("the list is malformed")
		}
		if n := len(a.ipv4) + len(a.ipv6); n > 2*len(list) {
			t.Errorf("%d ranges of %d entries", n, len(list))
		}
		for range 40 {
			addr, want := drawn(), jute.Perm(0)
			for i, network := range networks {
				if network.Contains(addr) {
					want |= list[i].Perms
				}
			}
			if got := a.permsOfAddress(addr); got != want {
				t.Fatalf("%v: %v, want %v; %v", addr, got, want, list)
			}
		}
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
					if k.setIdentities(who).hasAnyPerm(a, jute.PermRead, &Rules{SASL: true}) {
						b.Fatal("allowed")
					}
				}
			})
		}
	}
}
