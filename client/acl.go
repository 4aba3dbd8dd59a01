package client

import (
	"fmt"

	"rollcall/client/session"
	"rollcall/zk/digest"
	"rollcall/zk/jute"
)

// Permission is a set of rights on a node.
type Permission int32

// These are the rights on a node. Delete is a right on the node's parent, for the children.
const (
	PermRead   Permission = 1  // its data and the list of its children
	PermWrite  Permission = 2  // setting its data
	PermCreate Permission = 4  // creating children
	PermDelete Permission = 8  // deleting children
	PermAdmin  Permission = 16 // setting its ACL
	PermAll    Permission = 31
)

// String returns the letters of the permissions, of "cdrwa".
func (p Permission) String() string { return jute.Perm(p).String() }

// ACL grants permissions on a node to an identity.
type ACL struct {
	Permissions Permission
	Identity    Identity
}

// Identity is a scheme, such as digest, and a text that names a client within the scheme.
type Identity struct{ Scheme, ID string }

// String returns the identity as ZooKeeper's tools print it: scheme:id.
func (i Identity) String() string { return i.Scheme + ":" + i.ID }

// Anyone is the identity of every client.
var Anyone = Identity{Scheme: "world", ID: "anyone"}

// Creator is the identity of the client that creates the node: servers put its own identities in the place.
var Creator = Identity{Scheme: "auth"}

// DigestIdentity is the identity of those who know the password of user. ACLs carry its hash.
func DigestIdentity(user, password string) Identity {
	return Identity{Scheme: "digest", ID: digest.Algorithm(0).IdentityOf(user + ":" + password)}
}

// Auth is an identity as a client proves it.
type Auth struct {
	Scheme string // such as digest
	Proof  []byte // such as user:password
}

// DigestAuth proves that the client knows the password of user. The password crosses the network: use TLS.
func DigestAuth(user, password string) Auth {
	return Auth{Scheme: "digest", Proof: fmt.Appendf(nil, "%s:%s", user, password)}
}

func (a Auth) forSession() session.Auth { return session.Auth{Scheme: a.Scheme, Auth: a.Proof} }

func aclRecords(acl []ACL) []jute.ACL {
	if acl == nil {
		return jute.OpenACL
	}
	records := make([]jute.ACL, len(acl))
	for i, a := range acl {
		records[i] = jute.ACL{
			Perms: jute.Perm(a.Permissions),
			ID:    jute.ID{Scheme: []byte(a.Identity.Scheme), ID: []byte(a.Identity.ID)},
		}
	}
	return records
}

// aclReply is the reply to getACL. Its texts lie in the reply, so that it takes memory in proportion to the reply's bytes,
// also if all texts are empty.
type aclReply struct {
	acl  []ACL
	stat jute.Stat
}

// Decode implements session.Readable.
func (r *aclReply) Decode(d *jute.Decoder) {
	n, _ := d.ReadCount(permissionsSize + 2*lengthSize)
	r.acl = make([]ACL, n)
	for i := range r.acl {
		r.acl[i].Permissions = Permission(d.ReadInt32())
		r.acl[i].Identity = readIdentity(d)
	}
	r.stat.Decode(d)
}

// permissionsSize is the number of bytes of an ACL's permissions.
const permissionsSize = 4

// identitiesReply is the reply to whoAmI. Its texts lie in the reply.
type identitiesReply struct{ identities []Identity }

// Decode implements session.Readable.
func (r *identitiesReply) Decode(d *jute.Decoder) {
	n, _ := d.ReadCount(2 * lengthSize)
	r.identities = make([]Identity, n)
	for i := range r.identities {
		r.identities[i] = readIdentity(d)
	}
}

// readIdentity reads a scheme and a text after it, which share the reply's memory.
func readIdentity(d *jute.Decoder) Identity {
	scheme := textInReply(d.ReadBytes())
	return Identity{Scheme: scheme, ID: textInReply(d.ReadBytes())}
}
