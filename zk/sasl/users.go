// Package sasl has both sides of SASL with the mechanism DIGEST-MD5 (RFC 2831), as ZooKeeper's servers and
// clients use it, and reads users from a JAAS file as they do.
//
// Exchange is the server's side of one client's login, and Login the client's. All exchanges share the Users
// that may log in. The package has no connection, no clock and no goroutine. Nothing here puts a password
// into an error.
package sasl

import (
	"crypto/md5"
	"strings"
	"sync/atomic"
)

// Realm is the realm of all users, and the name of the server in the digests. ZooKeeper's clients have both
// built in.
const Realm = "zk-sasl-md5"

// Users are the users that may log in. They are safe for concurrent use.
type Users struct {
	digestByName atomic.Pointer[map[string][md5.Size]byte] // of name, realm and password
}

// NewUsers returns users with these passwords, of which it keeps only digests.
func NewUsers(passwords map[string]string) *Users {
	u := new(Users)
	digests := make(map[string][md5.Size]byte, len(passwords))
	for name, password := range passwords {
		digests[name] = md5.Sum([]byte(toLatin1(name) + ":" + Realm + ":" + toLatin1(password)))
	}
	u.digestByName.Store(&digests)
	return u
}

// ReplaceWith replaces the users, also for exchanges that have begun.
func (u *Users) ReplaceWith(now *Users) { u.digestByName.Store(now.digestByName.Load()) }

// Count returns the number of users.
func (u *Users) Count() int { return len(*u.digestByName.Load()) }

// Equal reports whether both have the same users with the same passwords.
func (u *Users) Equal(other *Users) bool {
	mine, theirs := *u.digestByName.Load(), *other.digestByName.Load()
	for name, digest := range mine {
		if had, ok := theirs[name]; !ok || had != digest {
			return false
		}
	}
	return len(mine) == len(theirs)
}

// digestOf returns a zero digest if there is no such user, so that a client with an unknown user waits as
// long as any other.
func (u *Users) digestOf(name string) (digest [md5.Size]byte, ok bool) {
	digest, ok = (*u.digestByName.Load())[name]
	return digest, ok
}

// ValidName reports whether an ACL can name a user. ZooKeeper requires the syntax of a Kerberos principal: a
// name without an at sign, or a service, a slash and a host, which may be left out, an at sign, and a realm.
// Each of these parts may be empty.
func ValidName(name string) bool {
	name, realm, whole := strings.Cut(name, "@")
	return !whole || strings.Count(name, "/") <= 1 && !strings.ContainsAny(realm, "/@")
}

// ValidUserName reports whether a user who logs in may have a name: 1 to MaxUserName bytes that an ACL can name.
func ValidUserName(name string) bool {
	return name != "" && len(name) <= MaxUserName && ValidName(name)
}

// toLatin1 returns the bytes of text for a digest: in ISO 8859-1 if that has all its characters, and in UTF-8
// otherwise. RFC 2831 requires that, and Java does it.
func toLatin1(text string) string {
	short := make([]byte, 0, len(text))
	for _, r := range text {
		if r > 0xff {
			return text
		}
		short = append(short, byte(r))
	}
	return string(short)
}
