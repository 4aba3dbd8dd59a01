package znode

import (
	"net/netip"
	"strconv"
	"strings"
	"weak"

	"github.com/cespare/xxhash/v2"

	"rollcall/proto"
	"rollcall/zk/jute"
	"rollcall/zk/sasl"
)

// acl is a node's access control list, in order. It never changes, and all nodes with equal lists share one. intern
// makes it, and sets plain.
type acl struct {
	text    string    // jute's encoding of the list; two lists with the same text are equal
	hash    uint64    // of text
	open    jute.Perm // the permissions that anyone has
	users   jute.Perm // the permissions that users of SASL have
	entries []entry   // all entries, including those for anyone
	index   []uint32  // see indexEntries; nil: the list is short
	lengths []int     // how many bits count in the entries for addresses, each number once: at most 129
	nodes   int       // how many nodes of the tree have the list; only the tree changes it
	plain   family    // shared by the nodes that need no family of their own; see family
}

// maxACL is the longest list after expansion, in bytes of jute's encoding. It is as much as one
// request can hold. A list can grow past it if a client with many identities sends many auth
// entries.
const maxACL = 1 << 20

// A list takes about so many bytes of memory beside its text: listOverhead, and entryOverhead for each entry.
const (
	listOverhead  = 256
	entryOverhead = 24
)

// bytes returns how many bytes of memory the list takes, about.
func (a *acl) bytes() int { return ListMemory(len(a.entries), len(a.text)) }

// ListMemory returns how many bytes of memory a list takes, about, that has so many entries and whose encoding has so many bytes.
func ListMemory(entries, size int) int { return listOverhead + size + entryOverhead*entries }

// entry returns the i-th entry. Its strings are parts of the list's text.
func (a *acl) entry(i int) (perms jute.Perm, scheme, id string) {
	rest := a.text[a.entries[i].at:]
	perms = jute.Perm(int32At(rest))
	scheme, rest = cutText(rest[4:])
	id, _ = cutText(rest)
	return perms, scheme, id
}

// cutText returns the string at the head of an encoding, and what follows. A null string is empty.
func cutText(encoded string) (text, rest string) {
	n := max(int(int32At(encoded)), 0)
	return encoded[4 : 4+n], encoded[4+n:]
}

func int32At(s string) int32 {
	return int32(uint32(s[0])<<24 | uint32(s[1])<<16 | uint32(s[2])<<8 | uint32(s[3]))
}

// list returns the entries as a client sees them. If the client is not allowed to administer the
// node (admin is false), the hashes of digest entries are masked.
func (a *acl) list(admin bool) []jute.ACL {
	list := make([]jute.ACL, len(a.entries))
	for i := range list {
		perms, scheme, id := a.entry(i)
		if user, _, ok := strings.Cut(id, ":"); ok && scheme == "digest" && !admin {
			id = user + ":x"
		}
		list[i] = jute.ACL{Perms: perms, ID: jute.ID{Scheme: []byte(scheme), ID: []byte(id)}}
	}
	return list
}

// acls finds the lists that nodes use. It holds weak references, so a list lives as long as a node,
// or a snapshot's copy of a node, uses it. It is changed under the tree's write lock.
type acls struct {
	x509   bool                         // requests may name the subjects of certificates
	sasl   bool                         // requests may name the users of SASL
	known  map[string]weak.Pointer[acl] // by text
	sweep  int                          // the size of known at which dead entries are removed next
	list   []jute.ACL                   // scratch memory for expand and intern
	text   []byte
	sender sender     // the client of the running transaction
	asker  asker      // the same client, as lists are compared with it
	asked  []jute.ACL // the list that the running transaction has resolved last, and the result
	gave   *acl
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
	if c.gave != nil && jute.SameACL(list, c.asked) { // usually so in a multi, all of whose operations have the same identities
		return c.gave, jute.OK
	}
	entries, code := distinct(list)
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
			size += sizeOf(c.list[before+i])
		}
		if size > maxACL {
			return nil, jute.InvalidACL
		}
	}
	a, ok := c.intern(c.list)
	if !ok {
		return nil, jute.InvalidACL
	}
	c.asked, c.gave = append(c.asked[:0], list...), a
	return a, jute.OK
}

// forget ends what resolve remembers: the lists are parts of a transaction's record.
func (c *acls) forget() {
	clear(c.asked)
	c.asked, c.gave = c.asked[:0], nil
}

// distinct returns list without repetitions. If comparing two entries meets a null scheme or id
// (their earlier fields being equal), it returns MarshallingError.
func distinct(list []jute.ACL) ([]jute.ACL, jute.Code) {
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
			if isOwn(w) {
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

// Expanded returns how many entries a list of a client with these identities has once its entries of scheme auth stand for them,
// and how many bytes its encoding takes. Entries that are repeated count each time.
func Expanded(list []jute.ACL, who []*proto.Identity) (entries, size int) {
	own, ownSize := 0, 0
	for _, w := range who {
		if isOwn(w) {
			own, ownSize = own+1, ownSize+entryBytes+len(w.GetScheme())+len(w.GetId())
		}
	}
	for _, e := range list {
		if borrow(e.ID.Scheme) == "auth" {
			entries, size = entries+own, size+ownSize
		} else {
			entries, size = entries+1, size+sizeOf(e)
		}
	}
	return entries, size
}

// isOwn reports whether entries of scheme auth stand for an identity: not for addresses, nor for super.
func isOwn(w *proto.Identity) bool {
	switch w.GetScheme() {
	case "digest", "sasl", "x509":
		return true
	}
	return false
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
	a := &acl{text: string(c.text), hash: xxhash.Sum64(c.text), entries: make([]entry, 0, len(list))}
	at := 4 // after the number of entries
	for i := range list {
		if !a.add(at, list[i]) {
			return nil, false
		}
		at += sizeOf(list[i])
	}
	if len(a.entries) > longACL {
		a.index = indexEntries(a.entries)
	}
	a.plain.acl = a
	c.remember(a)
	return a, true
}

// entryBytes is what an entry takes in the text of a list beside its scheme and id.
const entryBytes = 12

// sizeOf returns how many bytes an entry takes in the text of a list.
func sizeOf(e jute.ACL) int { return entryBytes + len(e.ID.Scheme) + len(e.ID.ID) }

// add adds the entry that is at this place of the text, and returns false if it is not well-formed.
func (a *acl) add(at int, e jute.ACL) bool {
	from, ok := permit(e)
	if !ok {
		return false
	}
	hash := uint32(0)
	switch scheme := borrow(e.ID.Scheme); scheme {
	case "world":
		a.open |= e.Perms
	case "ip":
		hash = hashNet(from.Masked())
		a.addLength(from.Bits())
	case "sasl":
		a.users |= e.Perms
		fallthrough
	default:
		hash = hashName(scheme, borrow(e.ID.ID))
	}
	a.entries = append(a.entries, entry{uint32(at), hash})
	return true
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

// permit reports whether an entry is well-formed. For scheme ip it returns the addresses that the entry covers.
func permit(e jute.ACL) (from netip.Prefix, ok bool) {
	switch id := borrow(e.ID.ID); borrow(e.ID.Scheme) {
	case "world":
		ok = id == "anyone"
	case "digest":
		ok = strings.Count(strings.TrimRight(id, ":"), ":") == 1 // colons at the end do not count, as in ZooKeeper
	case "ip":
		from, ok = parsePrefix(id)
	case "x509":
		ok = validDN(id)
	case "sasl":
		ok = sasl.ValidName(id)
	}
	return from, ok
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
