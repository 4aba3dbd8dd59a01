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

func aclsOf(records []jute.ACL) []ACL {
	acl := make([]ACL, len(records))
	for i, r := range records {
		acl[i] = ACL{
			Permissions: Permission(r.Perms),
			Identity:    Identity{Scheme: string(r.ID.Scheme), ID: string(r.ID.ID)},
		}
	}
	return acl
}
