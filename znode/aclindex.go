package znode

import (
	"hash/maphash"
	"net/netip"

	"rollcall/proto"
	"rollcall/zk/jute"
)

// indexedACLEntries is the length above which a list has an index. A shorter one has all its hashes compared with those of each identity,
// which is as fast and takes no memory.
const indexedACLEntries = 4

// aclEntry locates an entry in the list's text and has the hash of its identity. With its text and its place
// in an index, or its two ranges, an entry takes at most four times as many bytes as in a request.
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

// indexedPermBits is the number of bits of a place in an index that hold permissions. The others hold the number of an entry: a list of
// maxACLBytes has fewer than 1<<17.
const indexedPermBits = 5

// buildHashIndex makes an open-addressing table from hashes to the entries that name an identity, of which there are so many. A place has the number of an entry, counted
// from 1, and the permissions that all entries grant to its identity; 0 is free. At least half of the places are free. An identity has one
// place, however many entries name it, so that no place is far from where its hash belongs.
func (a *acl) buildHashIndex(names int) {
	size := 4
	for size < 2*names {
		size *= 2
	}
	a.hashIndex = make([]uint32, size)
	for i, e := range a.entries {
		perms, scheme, id := a.entryAt(i)
		if scheme == "world" || scheme == "ip" {
			continue
		}
		at := a.placeOf(e.hash, scheme, id)
		if a.hashIndex[at] == 0 {
			a.hashIndex[at] = uint32(i+1) << indexedPermBits
		}
		a.hashIndex[at] |= uint32(perms & jute.PermAll)
	}
}

// placeOf returns the place of an identity in the index, or the free one where it would be.
func (a *acl) placeOf(hash uint32, scheme, id string) int {
	mask := len(a.hashIndex) - 1
	for at := int(hash) & mask; ; at = (at + 1) & mask {
		place := a.hashIndex[at]
		if place == 0 {
			return at
		}
		if i := int(place>>indexedPermBits) - 1; a.entries[i].hash == hash {
			if _, hasScheme, hasID := a.entryAt(i); hasScheme == scheme && hasID == id {
				return at
			}
		}
	}
}

// permsOfName returns the permissions that entries grant to an identity of any scheme except ip and world.
func (a *acl) permsOfName(hash uint32, scheme, id string) (perms jute.Perm) {
	if a.hashIndex != nil {
		return jute.Perm(a.hashIndex[a.placeOf(hash, scheme, id)] & (1<<indexedPermBits - 1))
	}
	for i := range a.entries {
		if a.entries[i].hash == hash {
			if p, hasScheme, hasID := a.entryAt(i); hasScheme == scheme && hasID == id {
				perms |= p
			}
		}
	}
	return perms
}

// principal is a client with its identities prepared for comparisons with lists. The zero value has no
// identity.
type principal struct {
	identities  []*proto.Identity
	hashes      []uint32   // of each identity except addresses
	address     netip.Addr // the last valid one
	isSuper     bool
	isSASLUser  bool // has the permissions of Rules.AnySASLUser
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
			k.isSASLUser = k.isSASLUser || scheme == "sasl"
			k.isSASLSuper = k.isSASLSuper || isSASLSuperUser(id)
			hash = hashName(scheme, id.GetId())
		}
		k.hashes = append(k.hashes, hash)
	}
	return k
}

// hasAnyPerm reports whether k has any of the permissions under rules, which may skip no check: see Rules.mayAccess. The
// cost is a few steps for each identity, and some twenty more in a list with ip entries, however long the list is.
func (k *principal) hasAnyPerm(a *acl, perms jute.Perm, rules *Rules) bool {
	if a.worldPerms&perms != 0 || len(a.entries) == 0 || k.isSuper {
		return true
	}
	if rules.SASL && a.saslPerms&perms != 0 && (k.isSASLSuper || k.isSASLUser && rules.anySASLUserHas(a, perms)) {
		return true
	}
	for i, id := range k.identities {
		if scheme := id.GetScheme(); scheme != "ip" && a.permsOfName(k.hashes[i], scheme, id.GetId())&perms != 0 {
			return true
		}
	}
	return a.permsOfAddress(k.address)&perms != 0
}

// anySASLUserHas reports whether the list grants any of the permissions to AnySASLUser, and so to every user of SASL.
func (r *Rules) anySASLUserHas(a *acl, perms jute.Perm) bool {
	return r.AnySASLUser != "" && a.permsOfName(hashName("sasl", r.AnySASLUser), "sasl", r.AnySASLUser)&perms != 0
}

// saslSuperUser is the user of SASL with the permissions of all other users of SASL, as in ZooKeeper. It has
// no permissions of other schemes.
const saslSuperUser = "super"

func isSASLSuperUser(id *proto.Identity) bool {
	return id.GetScheme() == "sasl" && id.GetId() == saslSuperUser
}
