package subtree

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"rollcall/zk/jute"
)

// formatACL returns entries such as world:anyone:cdrwa. Permissions without letters are a number:
// world:anyone:0.
func formatACL(list []jute.ACL) []string {
	texts := make([]string, 0, len(list))
	for _, a := range list {
		texts = append(texts, string(a.ID.Scheme)+":"+string(a.ID.ID)+":"+a.Perms.String())
	}
	return texts
}

// ParseACL parses entries scheme:id:perms, separated by commas. An id may contain colons and commas: an entry
// ends at the first comma after permissions. The schemes world and auth may omit the id.
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
			return nil, fmt.Errorf("ACL entry %.200q: %w; an entry is scheme:id:perms, such as world:anyone:cdrwa or "+
				"digest:user:hash:r", text[begin:at], err)
		}
		list = append(list, entry)
		begin = at + 1
	}
	return list, nil
}

// shorthand maps the schemes whose id may be omitted to that id.
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
	p, err := parsePerms(perms)
	if err != nil {
		return jute.ACL{}, err
	}
	return jute.ACL{Perms: p, ID: jute.ID{Scheme: []byte(scheme), ID: []byte(id)}}, nil
}

func parsePerms(text string) (jute.Perm, error) {
	if n, err := strconv.ParseInt(text, 10, 32); err == nil {
		return jute.Perm(n), nil
	}
	p, err := jute.ParsePerms(text)
	if err == nil && p == 0 {
		err = errors.New("no permissions")
	}
	return p, err
}

// hasHiddenDigest reports whether servers have hidden a digest from a client without the permission a.
func hasHiddenDigest(list []jute.ACL) bool {
	return slices.ContainsFunc(list, func(a jute.ACL) bool {
		return string(a.ID.Scheme) == "digest" && bytes.HasSuffix(a.ID.ID, []byte(":x"))
	})
}
