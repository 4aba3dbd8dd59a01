package znode

import (
	"hash/maphash"
	"net/netip"
	"slices"

	"rollcall/proto"
	"rollcall/zk/jute"
)

// indexedACLEntries is the length above which a list has an index. Comparing all hashes of a shorter list is
// faster and takes no memory.
const indexedACLEntries = 16

// aclEntry locates an entry in the list's text and has the hash of its identity. With its text and its place
// in an index, an entry takes at most four times as many bytes as in a request.
type aclEntry struct{ textOffset, hash uint32 }

// aclSeed differs in each process, so no client knows which names share a hash.
var aclSeed = maphash.MakeSeed()

// hashName hashes an identity of any scheme except ip.
func hashName(scheme, id string) uint32 {
	h := uint32(maphash.String(aclSeed, id))
	for i := range len(scheme) {
		h = h*31 + uint32(scheme[i])
	}
	return h
}

// hashNet hashes an ip entry. The host bits of the address must be zero.
func hashNet(p netip.Prefix) uint32 {
	address := p.Addr().As16()
	return uint32(maphash.Bytes(aclSeed, address[:])) + uint32(p.Bits())
}

// buildHashIndex returns an open-addressing table from hashes to entry numbers. A number is counted from 1, and
// 0 is free. At least half of the slots are free.
func buildHashIndex(entries []aclEntry) []uint32 {
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

// principal is a client with its identities prepared for comparisons with lists. The zero value has no
// identity.
type principal struct {
	identities  []*proto.Identity
	hashes      []uint32   // of each identity except addresses
	address     netip.Addr // the last valid one
	isSuper     bool
	isSASLSuper bool // has the permissions of all users of SASL, if the rule SASL is set
	hashBuffer  [4]uint32
}

// setIdentities sets k's identities. It is cheap if they are the same slice as before.
func (k *principal) setIdentities(ids []*proto.Identity) *principal {
	// k keeps the old slice, so its memory is not reused.
	if len(ids) == len(k.identities) && (len(ids) == 0 || &ids[0] == &k.identities[0]) {
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
			k.isSASLSuper = k.isSASLSuper || isSASLSuperUser(id)
			hash = hashName(scheme, id.GetId())
		}
		k.hashes = append(k.hashes, hash)
	}
	return k
}

// hasAnyPerm reports whether k has any of the permissions. If sasl is set, saslSuperUser has the permissions of
// all other users of SASL. The cost is one step for each identity, and up to 161 more in a list with ip
// entries, however long the list is.
func (k *principal) hasAnyPerm(a *acl, perms jute.Perm, sasl bool) bool {
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

// permsOfAddress returns the permissions of an address without a zone.
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

func (a *acl) addPrefixLength(bits int) {
	if !slices.Contains(a.prefixLengths, bits) {
		a.prefixLengths = append(a.prefixLengths, bits)
	}
}

// saslSuperUser is the user of SASL with the permissions of all other users of SASL, as in ZooKeeper. It has
// no permissions of other schemes.
const saslSuperUser = "super"

func isSASLSuperUser(id *proto.Identity) bool {
	return id.GetScheme() == "sasl" && id.GetId() == saslSuperUser
}
