package jute

// ACL grants permissions on a node to an identity.
type ACL struct {
	Perms Perm
	ID    ID
}

// minACL is the size of the smallest ACL: permissions and two empty strings.
const minACL = 4 + 2*minString

// OpenACL gives everyone every permission. It is shared: never change it.
var OpenACL = []ACL{{Perms: PermAll, ID: ID{Scheme: []byte("world"), ID: []byte("anyone")}}}

// Decode reads the record.
func (a *ACL) Decode(d *Decoder) {
	a.Perms = Perm(d.ReadInt32())
	a.ID.Decode(d)
}

// Append writes the record.
func (a ACL) Append(b []byte) []byte {
	return a.ID.Append(AppendInt32(b, int32(a.Perms)))
}

// ID is an identity: a scheme, and a text that names a client within the scheme. Null and empty
// mean the same.
type ID struct {
	Scheme []byte
	ID     []byte
}

// Decode reads the record.
func (i *ID) Decode(d *Decoder) {
	i.Scheme = d.ReadBytes()
	i.ID = d.ReadBytes()
}

// Append writes the record.
func (i ID) Append(b []byte) []byte {
	return AppendBytes(AppendBytes(b, i.Scheme), i.ID)
}

// Perm is a set of permissions. Unknown bits are kept as they are.
type Perm int32

// These are the permissions on a node. PermDelete is checked on the parent.
const (
	PermRead   Perm = 1
	PermWrite  Perm = 2
	PermCreate Perm = 4
	PermDelete Perm = 8
	PermAdmin  Perm = 16
	PermAll    Perm = 31
)

// readACLs reads a vector of ACLs into the memory of dst.
func (d *Decoder) readACLs(dst []ACL) []ACL {
	n, null := d.ReadCount(minACL)
	if null {
		return nil
	}
	dst = sized(dst, n)
	for i := range dst {
		dst[i].Decode(d)
	}
	return dst
}

// appendACLs appends a vector of ACLs, or null if v is nil.
func appendACLs(b []byte, v []ACL) []byte {
	if v == nil {
		return AppendCount(b, -1)
	}
	b = AppendCount(b, len(v))
	for i := range v {
		b = v[i].Append(b)
	}
	return b
}
