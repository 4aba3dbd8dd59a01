package jute

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ACL grants permissions on a node to an identity.
type ACL struct {
	Perms Perm
	ID    ID
}

// minACLSize is the size of the smallest ACL: permissions and two empty strings.
const minACLSize = 4 + 2*minStringSize

// OpenACL gives everyone every permission. It is shared: never change it.
var OpenACL = []ACL{{Perms: PermAll, ID: ID{Scheme: []byte("world"), ID: []byte("anyone")}}}

func (a *ACL) Decode(d *Decoder) {
	a.Perms = Perm(d.ReadInt32())
	a.ID.Decode(d)
}

func (a ACL) Append(b []byte) []byte { return a.ID.Append(AppendInt32(b, int32(a.Perms))) }

// EqualACLs reports whether two lists have equal entries in the same order.
func EqualACLs(a, b []ACL) bool {
	return slices.EqualFunc(a, b, func(x, y ACL) bool {
		return x.Perms == y.Perms && bytes.Equal(x.ID.Scheme, y.ID.Scheme) && bytes.Equal(x.ID.ID, y.ID.ID) &&
			(x.ID.Scheme == nil) == (y.ID.Scheme == nil) && (x.ID.ID == nil) == (y.ID.ID == nil)
	})
}

// ID is an identity: a scheme, and a text that names a client within the scheme. Null and empty
// mean the same.
type ID struct {
	Scheme []byte
	ID     []byte
}

func (i *ID) Decode(d *Decoder) {
	i.Scheme = d.ReadBytes()
	i.ID = d.ReadBytes()
}

func (i ID) Append(b []byte) []byte { return AppendBytes(AppendBytes(b, i.Scheme), i.ID) }

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

// permLetters are in the order in which ZooKeeper's tools write them. permsByLetter has the permissions at
// the same places.
const permLetters = "cdrwa"

var permsByLetter = [len(permLetters)]Perm{PermCreate, PermDelete, PermRead, PermWrite, PermAdmin}

// Letters returns the permissions as letters of cdrwa. Unknown bits have none.
func (p Perm) Letters() string {
	var b strings.Builder
	for i, perm := range permsByLetter {
		if p&perm != 0 {
			b.WriteByte(permLetters[i])
		}
	}
	return b.String()
}

// String returns the letters of p, or its number if p is empty or has unknown bits.
func (p Perm) String() string {
	if p <= 0 || p > PermAll {
		return strconv.Itoa(int(p))
	}
	return p.Letters()
}

// ParsePerms reads what Letters writes. The letters may be in any order.
func ParsePerms(letters string) (p Perm, err error) {
	for i := range len(letters) {
		at := strings.IndexByte(permLetters, letters[i])
		if at < 0 || p&permsByLetter[at] != 0 {
			return 0, fmt.Errorf("permissions %.40q; must be letters of %s, each once", letters, permLetters)
		}
		p |= permsByLetter[at]
	}
	return p, nil
}

// readACLs reads a vector of ACLs into the memory of dst.
func (d *Decoder) readACLs(dst []ACL) []ACL {
	n, null := d.ReadCount(minACLSize)
	if null {
		return nil
	}
	dst = sliceOfLen(dst, n)
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
