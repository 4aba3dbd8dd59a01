package znode

import (
	"hash/maphash"
	"net/netip"
	"slices"

	"rollcall/proto"
	"rollcall/zk/jute"
)

// longACL is the number of entries from which a list has an index. In a shorter list all hashes are compared, which takes less
// time and no memory.
const longACL = 16

// entry is one entry of a list: where it is in the list's text, and the hash by which it is found. With its text and its place in
// an index, an entry takes at most four times as many bytes as in a request.
type entry struct{ at, hash uint32 }

// aclSeed is new in each process, so no client knows which names share a hash.
var aclSeed = maphash.MakeSeed()

// hashName returns the hash of an identity of a scheme other than ip.
func hashName(scheme, id string) uint32 {
	h := uint32(maphash.String(aclSeed, id))
	for i := range len(scheme) {
		h = h*31 + uint32(scheme[i])
	}
	return h
}

// hashNet returns the hash of an ip entry. The bits of the address that do not count are zero.
func hashNet(p netip.Prefix) uint32 {
	address := p.Addr().As16()
	return uint32(maphash.Bytes(aclSeed, address[:])) + uint32(p.Bits())
}

// indexEntries returns a table that finds an entry by its hash: the place of a hash is its lowest bits, and if
// that is taken, the next free one. A place holds an entry's number, counted from 1. At least half of the places are free.
func indexEntries(entries []entry) []uint32 {
	size := 4
	for size < 2*len(entries) {
		size *= 2
	}
	places := make([]uint32, size)
	for i, e := range entries {
		at := int(e.hash) & (size - 1)
		for places[at] != 0 {
			at = (at + 1) & (size - 1)
		}
		places[at] = uint32(i) + 1
	}
	return places
}

// find calls do for each entry with a hash.
func (a *acl) find(hash uint32, do func(i int)) {
	if a.index == nil {
		for i := range a.entries {
			if a.entries[i].hash == hash {
				do(i)
			}
		}
		return
	}
	mask := len(a.index) - 1
	for at := int(hash) & mask; a.index[at] != 0; at = (at + 1) & mask {
		if i := int(a.index[at]) - 1; a.entries[i].hash == hash {
			do(i)
		}
	}
}

// asker is who asks for permissions, with what the comparison with a list needs of each identity. The zero value asks for nobody.
type asker struct {
	ids    []*proto.Identity
	hashes []uint32   // of each identity but addresses
	addr   netip.Addr // of the last identity of scheme ip whose address is valid
	super  bool
	user   bool // has the permissions of all users of SASL, under the rule SASL
	room   [4]uint32
}

// be makes k ask for these identities. It costs next to nothing if they are the ones for which k asked before.
func (k *asker) be(ids []*proto.Identity) *asker {
	if len(ids) == len(k.ids) && (len(ids) == 0 || &ids[0] == &k.ids[0]) { // k keeps the old slice, so its memory is not reused
		return k
	}
	*k = asker{ids: ids}
	k.hashes = k.room[:0]
	for _, id := range ids {
		hash := uint32(0)
		switch scheme := id.GetScheme(); scheme {
		case "super":
			k.super = true
		case "ip":
			if addr, err := netip.ParseAddr(id.GetId()); err == nil {
				k.addr = addr.WithZone("")
			}
		default:
			k.user = k.user || isSuperUser(id)
			hash = hashName(scheme, id.GetId())
		}
		k.hashes = append(k.hashes, hash)
	}
	return k
}

// may reports whether k has any of the permissions. If sasl is set, the rule SASL holds, with which the user superUser of SASL has
// the permissions of all other users of SASL. It takes as many steps as k has identities, and up to 161 more in a list that has
// addresses, however long the list is.
func (k *asker) may(a *acl, perms jute.Perm, sasl bool) bool {
	if a.open&perms != 0 || len(a.entries) == 0 || k.super || sasl && k.user && a.users&perms != 0 {
		return true
	}
	has := jute.Perm(0)
	for i, id := range k.ids {
		if id.GetScheme() == "ip" {
			continue
		}
		a.find(k.hashes[i], func(at int) {
			if p, scheme, name := a.entry(at); scheme == id.GetScheme() && name == id.GetId() {
				has |= p
			}
		})
		if has&perms != 0 {
			return true
		}
	}
	return a.at(k.addr)&perms != 0
}

// at returns the permissions of an address, which has no zone.
func (a *acl) at(addr netip.Addr) (perms jute.Perm) {
	if !addr.IsValid() {
		return 0
	}
	for _, bits := range a.lengths {
		prefix, err := addr.Prefix(bits)
		if err != nil { // the address is shorter
			continue
		}
		a.find(hashNet(prefix), func(i int) {
			p, scheme, id := a.entry(i)
			if from, ok := parsePrefix(id); ok && scheme == "ip" && from.Masked() == prefix {
				perms |= p
			}
		})
	}
	return perms
}

// addLength notes that the list has an entry for addresses of which so many bits count.
func (a *acl) addLength(bits int) {
	if !slices.Contains(a.lengths, bits) {
		a.lengths = append(a.lengths, bits)
	}
}
