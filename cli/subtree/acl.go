package subtree

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"rollcall/jute"
)

// letters are the permissions in the order in which ZooKeeper's tools write them.
const letters = "cdrwa"

var permOf = map[byte]jute.Perm{
	'c': jute.PermCreate, 'd': jute.PermDelete, 'r': jute.PermRead, 'w': jute.PermWrite, 'a': jute.PermAdmin,
}

// FormatACL returns a list as texts of the form scheme:id:perms, such as world:anyone:cdrwa. Permissions
// that have no letters are a number: world:anyone:0.
func FormatACL(list []jute.ACL) []string {
	texts := make([]string, 0, len(list))
	for _, a := range list {
		texts = append(texts, string(a.ID.Scheme)+":"+string(a.ID.ID)+":"+FormatPerms(a.Perms))
	}
	return texts
}

// FormatPerms returns permissions as letters of cdrwa, or as a number if they are none or unknown ones.
func FormatPerms(p jute.Perm) string {
	if p <= 0 || p > jute.PermAll {
		return strconv.Itoa(int(p))
	}
	var b strings.Builder
	for i := range len(letters) {
		if p&permOf[letters[i]] != 0 {
			b.WriteByte(letters[i])
		}
	}
	return b.String()
}

// ParseACL reads entries of the form scheme:id:perms, separated by commas. An id may have colons, and
// commas too: an entry ends at the first comma after permissions. For the schemes world and auth,
// scheme:perms is enough.
func ParseACL(text string) ([]jute.ACL, error) {
	var list []jute.ACL
	for begin, at := 0, 0; at <= len(text); at++ {
		if at < len(text) && text[at] != ',' {
			continue
		}
		entry, err := parseEntry(text[begin:at])
		if err != nil && at < len(text) {
			continue // the comma belongs to an id, or the whole rest is wrong
		}
		if err != nil {
			return nil, fmt.Errorf("ACL entry %.200q: %w; an entry is scheme:id:perms, such as world:anyone:cdrwa or digest:user:hash:r", text[begin:at], err)
		}
		list = append(list, entry)
		begin = at + 1
	}
	return list, nil
}

// shorthand lists the schemes whose entries need no id, with the id that they then have.
var shorthand = map[string]string{"world": "anyone", "auth": ""}

func parseEntry(text string) (jute.ACL, error) {
	scheme, rest, ok := strings.Cut(text, ":")
	if !ok || scheme == "" {
		return jute.ACL{}, errors.New("no colon after a scheme")
	}
	id, perms := shorthand[scheme], rest
	if i := strings.LastIndexByte(rest, ':'); i >= 0 {
		id, perms = rest[:i], rest[i+1:]
	} else if _, short := shorthand[scheme]; !short {
		return jute.ACL{}, errors.New("the id or the permissions are missing")
	}
	p, err := ParsePerms(perms)
	if err != nil {
		return jute.ACL{}, err
	}
	return jute.ACL{Perms: p, ID: jute.ID{Scheme: []byte(scheme), ID: []byte(id)}}, nil
}

// ParsePerms reads what FormatPerms writes. Letters may be in any order.
func ParsePerms(text string) (jute.Perm, error) {
	if n, err := strconv.ParseInt(text, 10, 32); err == nil {
		return jute.Perm(n), nil
	}
	var p jute.Perm
	for i := range len(text) {
		bit := permOf[text[i]]
		if bit == 0 || p&bit != 0 {
			return 0, fmt.Errorf("permissions %.40q; allowed are letters of %s, each once", text, letters)
		}
		p |= bit
	}
	if p == 0 {
		return 0, fmt.Errorf("no permissions; allowed are letters of %s", letters)
	}
	return p, nil
}

// SameACL reports whether two lists have the same entries in the same order.
func SameACL(a, b []jute.ACL) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Perms != b[i].Perms || string(a[i].ID.Scheme) != string(b[i].ID.Scheme) || string(a[i].ID.ID) != string(b[i].ID.ID) {
			return false
		}
	}
	return true
}

// hidden reports whether a list has a digest that the servers hide from clients without the permission a.
func hidden(list []jute.ACL) bool {
	for _, a := range list {
		if string(a.ID.Scheme) == "digest" && strings.HasSuffix(string(a.ID.ID), ":x") {
			return true
		}
	}
	return false
}
