package znode

import (
	"hash/maphash"
	"net/netip"
	"slices"

	"rollcall/proto"
	"rollcall/zk/jute"
)

// indexedACLEntries is the number of entries from which a list has an index. In a shorter list all hashes are compared, which takes less
// time and no memory.
const indexedACLEntries = 16

// aclEntry is one entry of a list: where it is in the list's text, and the hash by which it is found. With its text and its place in
// an index, an entry takes at most four times as many bytes as in a request.
type aclEntry struct{ textOffset, hash uint32 }

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
func indexEntries(entries []aclEntry) []uint32 {
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

// eachWithHash calls do for each entry with a hash.
func (a *acl) eachWithHash(hash uint32, do func(i int)) {
	if a.hashIndex == nil {
		for i := range a.entries {
			if a.entries[i].hash == hash {
				do(i)
			}
		}
		return
	}
	mask := len(a.hashIndex) - 1
	for at := int(hash) & mask; a.hashIndex[at] != 0; at = (at + 1) & mask {
		if i := int(a.hashIndex[at]) - 1; a.entries[i].hash == hash {
			do(i)
		}
	}
}

// principal is who asks for permissions, with what the comparison with a list needs of each identity. The zero value asks for nobody.
type principal struct {
	identities  []*proto.Identity
	hashes      []uint32   // of each identity but addresses
	address     netip.Addr // of the last identity of scheme ip whose address is valid
	isSuper     bool
	isSASLSuper bool // has the permissions of all users of SASL, under the rule SASL
	hashBuffer  [4]uint32
}

// assume makes k ask for these identities. It costs next to nothing if they are the ones for which k asked before.
func (k *principal) assume(ids []*proto.Identity) *principal {
	if len(ids) == len(k.identities) && (len(ids) == 0 || &ids[0] == &k.identities[0]) { // k keeps the old slice, so its memory is not reused
		return k
	}
	*k = principal{identities: ids}
	k.hashes = k.hashBuffer[:0]
	for _, id := range ids {
		hash := uint32(0)
		switch scheme := id.GetScheme(); scheme {
		case "super":
			k.isSuper = true
		case "ip":
			if addr, err := netip.ParseAddr(id.GetId()); err == nil {
				k.address = addr.WithZone("")
			}
		default:
			k.isSASLSuper = k.isSASLSuper || isSuperUser(id)
			hash = hashName(scheme, id.GetId())
		}
		k.hashes = append(k.hashes, hash)
	}
	return k
}

// hasAny reports whether k has any of the permissions. If sasl is set, the rule SASL holds, with which the user superUser of SASL has
// the permissions of all other users of SASL. It takes as many steps as k has identities, and up to 161 more in a list that has
// addresses, however long the list is.
func (k *principal) hasAny(a *acl, perms jute.Perm, sasl bool) bool {
	if a.worldPerms&perms != 0 || len(a.entries) == 0 || k.isSuper || sasl && k.isSASLSuper && a.saslPerms&perms != 0 {
		return true
	}
	has := jute.Perm(0)
	for i, id := range k.identities {
		if id.GetScheme() == "ip" {
			continue
		}
		a.eachWithHash(k.hashes[i], func(at int) {
			if p, scheme, name := a.entryAt(at); scheme == id.GetScheme() && name == id.GetId() {
				has |= p
			}
		})
		if has&perms != 0 {
			return true
		}
	}
	return a.permsOfAddress(k.address)&perms != 0
}

// permsOfAddress returns the permissions of an address, which has no zone.
func (a *acl) permsOfAddress(addr netip.Addr) (perms jute.Perm) {
	if !addr.IsValid() {
		return 0
	}
	for _, bits := range a.prefixLengths {
		prefix, err := addr.Prefix(bits)
		if err != nil { // the address is shorter
			continue
		}
		a.eachWithHash(hashNet(prefix), func(i int) {
			p, scheme, id := a.entryAt(i)
			if from, ok := parsePrefix(id); ok && scheme == "ip" && from.Masked() == prefix {
				perms |= p
			}
		})
	}
	return perms
}

// addPrefixLength notes that the list has an entry for addresses of which so many bits count.
func (a *acl) addPrefixLength(bits int) {
	if !slices.Contains(a.prefixLengths, bits) {
		a.prefixLengths = append(a.prefixLengths, bits)
	}
}
