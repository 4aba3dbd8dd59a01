package znode

import (
	"net/netip"
	"strconv"
	"strings"
	"weak"

	"github.com/cespare/xxhash/v2"

	"rollcall/jute"
	"rollcall/proto"
	"rollcall/sasl"
)

// acl is a node's access control list, in order. It never changes, and all nodes with equal lists share one. intern
// makes it, and sets plain.
type acl struct {
	text    string      // jute's encoding of the list; two lists with the same text are equal
	hash    uint64      // of text
	open    jute.Perm   // the permissions that anyone has
	entries []permitted // all entries, including those for anyone
	plain   family      // shared by the nodes that need no family of their own; see family
}

// permitted is one entry of a list.
type permitted struct {
	perms  jute.Perm
	scheme string
	id     string
	from   netip.Prefix // for scheme ip: the addresses that id covers
}

// maxACL is the longest list after expansion, in bytes of jute's encoding. It is as much as one
// request can hold. A list can grow past it if a client with many identities sends many auth
// entries.
const maxACL = 1 << 20

// allows reports whether one of the identities has any of the permissions. If sasl is set, the rule
// SASL holds, with which the user superUser of SASL has the permissions of all other users of SASL.
func (a *acl) allows(perms jute.Perm, who []*proto.Identity, sasl bool) bool {
	if a.open&perms != 0 || len(a.entries) == 0 {
		return true
	}
	for _, id := range who {
		if id.GetScheme() == "super" {
			return true
		}
		for i := range a.entries {
			if e := &a.entries[i]; e.perms&perms != 0 && (e.matches(id) || sasl && e.scheme == "sasl" && isSuperUser(id)) {
				return true
			}
		}
	}
	return false
}

func (p *permitted) matches(id *proto.Identity) bool {
	if p.scheme != id.GetScheme() {
		return false
	}
	if p.scheme != "ip" {
		return p.id == id.GetId()
	}
	addr, err := netip.ParseAddr(id.GetId())
	return err == nil && p.from.Contains(addr.WithZone(""))
}

// list returns the entries as a client sees them. If the client is not allowed to administer the
// node (admin is false), the hashes of digest entries are masked.
func (a *acl) list(admin bool) []jute.ACL {
	list := make([]jute.ACL, len(a.entries))
	for i, e := range a.entries {
		if user, _, ok := strings.Cut(e.id, ":"); ok && e.scheme == "digest" && !admin {
			e.id = user + ":x"
		}
		list[i] = jute.ACL{Perms: e.perms, ID: jute.ID{Scheme: []byte(e.scheme), ID: []byte(e.id)}}
	}
	return list
}

// acls finds the lists that nodes use. It holds weak references, so a list lives as long as a node,
// or a snapshot's copy of a node, uses it. It is changed under the tree's write lock.
type acls struct {
	x509  bool                         // requests may name the subjects of certificates
	sasl  bool                         // requests may name the users of SASL
	known map[string]weak.Pointer[acl] // by text
	sweep int                          // the size of known at which dead entries are removed next
	list  []jute.ACL                   // scratch memory for expand and intern
	text  []byte
}

// obey makes c follow a term's rules.
func (c *acls) obey(r Rules) { c.x509, c.sasl = r.X509, r.SASL }

// minSweep is the size below which a table is not swept.
const minSweep = 64

// world returns the list that gives everyone perms.
func (c *acls) world(perms jute.Perm) *acl {
	a, _ := c.intern([]jute.ACL{{Perms: perms, ID: jute.ID{Scheme: []byte("world"), ID: []byte("anyone")}}})
	return a
}

// resolve turns the list of a request, sent by a client with these identities, into the list that
// the node gets.
func (c *acls) resolve(list []jute.ACL, who []*proto.Identity) (*acl, jute.Code) {
	if len(list) == 0 {
		return nil, jute.InvalidACL
	}
	entries, code := unique(list)
	if code != jute.OK {
		return nil, code
	}
	c.list = c.list[:0]
	size := 0
	for _, entry := range entries {
		before := len(c.list)
		if code := c.expand(entry, who); code != jute.OK {
			return nil, code
		}
		for i := range c.list[before:] {
			id := &c.list[before+i].ID
			size += 12 + len(id.Scheme) + len(id.ID)
		}
		if size > maxACL {
			return nil, jute.InvalidACL
		}
	}
	a, ok := c.intern(c.list)
	if !ok {
		return nil, jute.InvalidACL
	}
	return a, jute.OK
}

// unique returns list without repetitions. If comparing two entries meets a null scheme or id
// (their earlier fields being equal), it returns MarshallingError.
func unique(list []jute.ACL) ([]jute.ACL, jute.Code) {
	if len(list) == 1 {
		return list, jute.OK
	}
	type key struct {
		perms      jute.Perm
		scheme, id string
		parts      int // the number of fields compared
	}
	seen := make(map[key]bool, len(list))
	kept := make([]jute.ACL, 0, len(list))
	for _, e := range list {
		perms := key{perms: e.Perms}
		scheme := key{perms: e.Perms, scheme: borrow(e.ID.Scheme), parts: 1}
		whole := key{e.Perms, scheme.scheme, borrow(e.ID.ID), 2}
		switch {
		case e.ID.Scheme == nil && seen[perms], e.ID.Scheme != nil && e.ID.ID == nil && seen[scheme]:
			return nil, jute.MarshallingError
		case e.ID.Scheme != nil && seen[whole]:
			continue
		}
		seen[perms] = true
		if e.ID.Scheme != nil {
			seen[scheme] = true
			if e.ID.ID != nil {
				seen[whole] = true
			}
		}
		kept = append(kept, e)
	}
	return kept, jute.OK
}

// expand appends to c.list the entries that one entry of a request stands for.
func (c *acls) expand(entry jute.ACL, who []*proto.Identity) jute.Code {
	scheme := string(entry.ID.Scheme)
	if scheme == "x509" && !c.x509 || scheme == "sasl" && !c.sasl {
		return jute.InvalidACL
	}
	switch scheme {
	case "world", "digest", "ip", "x509", "sasl":
		if entry.ID.ID == nil {
			return jute.MarshallingError
		}
		if _, ok := permit(entry); !ok {
			return jute.InvalidACL
		}
		c.list = append(c.list, entry)
		return jute.OK
	case "auth":
		before := len(c.list)
		for _, w := range who {
			switch w.GetScheme() {
			case "digest", "sasl", "x509": // auth entries do not stand for addresses or for super
				c.list = append(c.list, jute.ACL{
					Perms: entry.Perms,
					ID:    jute.ID{Scheme: []byte(w.GetScheme()), ID: []byte(w.GetId())},
				})
			}
		}
		if len(c.list) == before {
			return jute.InvalidACL
		}
		return jute.OK
	default: // super, a scheme without a provider here, or null
		return jute.InvalidACL
	}
}

// intern returns the shared copy of the list, and false if an entry is not well-formed.
func (c *acls) intern(list []jute.ACL) (*acl, bool) {
	c.text = jute.AppendCount(c.text[:0], len(list))
	for i := range list {
		c.text = list[i].Append(c.text)
	}
	if a := c.known[string(c.text)].Value(); a != nil {
		return a, true
	}
	a := &acl{text: string(c.text), hash: xxhash.Sum64(c.text), entries: make([]permitted, 0, len(list))}
	for i := range list {
		p, ok := permit(list[i])
		if !ok {
			return nil, false
		}
		if p.scheme == "world" {
			a.open |= p.perms
		}
		p.scheme, p.id = strings.Clone(p.scheme), strings.Clone(p.id)
		a.entries = append(a.entries, p)
	}
	a.plain.acl = a
	c.remember(a)
	return a, true
}

// remember adds a to the known lists. It removes dead entries whenever the table has doubled.
func (c *acls) remember(a *acl) {
	if c.known == nil {
		c.known, c.sweep = map[string]weak.Pointer[acl]{}, minSweep
	}
	if len(c.known) >= c.sweep {
		for text, p := range c.known {
			if p.Value() == nil {
				delete(c.known, text)
			}
		}
		c.sweep = max(minSweep, 2*len(c.known))
	}
	c.known[a.text] = weak.Make(a)
}

// permit returns an entry in the form that a list holds, and false if the entry is not well-formed.
// The result shares memory with entry.
func permit(entry jute.ACL) (permitted, bool) {
	p := permitted{perms: entry.Perms, scheme: borrow(entry.ID.Scheme), id: borrow(entry.ID.ID)}
	var ok bool
	switch p.scheme {
	case "world":
		ok = p.id == "anyone"
	case "digest":
		id := strings.TrimRight(p.id, ":") // colons at the end do not count, as in ZooKeeper
		ok = strings.Count(id, ":") == 1
	case "ip":
		p.from, ok = parsePrefix(p.id)
	case "x509":
		ok = validDN(p.id)
	case "sasl":
		ok = sasl.ValidName(p.id)
	}
	return p, ok
}

// parsePrefix reads the id of an ip entry: an address, optionally followed by a slash and the
// number of bits that count. The address is dotted IPv4, or IPv6 without a zone or a dotted tail.
func parsePrefix(text string) (netip.Prefix, bool) {
	address, length, sized := strings.Cut(text, "/")
	addr, ok := parseAddress(address)
	if !ok {
		return netip.Prefix{}, false
	}
	n := addr.BitLen()
	if sized {
		if n, ok = parseNumber(length, n); !ok {
			return netip.Prefix{}, false
		}
	}
	return netip.PrefixFrom(addr, n), true
}

func parseAddress(text string) (netip.Addr, bool) {
	if strings.Contains(text, ":") {
		addr, err := netip.ParseAddr(text)
		return addr, err == nil && !strings.ContainsAny(text, ".%")
	}
	parts := strings.Split(text, ".")
	if len(parts) != 4 {
		return netip.Addr{}, false
	}
	var b [4]byte
	for i, part := range parts {
		v, ok := parseNumber(part, 255)
		if !ok {
			return netip.Addr{}, false
		}
		b[i] = byte(v)
	}
	return netip.AddrFrom4(b), true
}

// parseNumber reads a number up to most as ZooKeeper does: "01" and "+1" are 1, "-0" is 0.
func parseNumber(text string, most int) (n int, ok bool) {
	v, err := strconv.ParseInt(text, 10, 32)
	return int(v), err == nil && v >= 0 && v <= int64(most)
}

// parseACL reads a list in the form of acl.text.
func (c *acls) parseACL(text []byte) (*acl, bool) {
	d := jute.NewDecoder(text)
	n, null := d.ReadCount(12)
	if null || n == 0 {
		return nil, false
	}
	list := make([]jute.ACL, n)
	for i := range list {
		list[i].Decode(&d)
	}
	if d.Err() != nil || len(d.Rest()) != 0 {
		return nil, false
	}
	a, ok := c.intern(list)
	return a, ok && a.text == string(text)
}

// CanHold reports whether a node's list can have an entry. Entries of other schemes would let nobody in, because no
// client can show such an identity, and are refused wherever they come from.
func CanHold(entry jute.ACL) bool {
	_, ok := permit(entry)
	return ok
}
