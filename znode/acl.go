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

// acl is an immutable access control list. All nodes with equal lists share one. internList makes it.
type acl struct {
	text        string // jute's encoding of the list; two lists with the same text are equal
	hash        uint64
	worldPerms  jute.Perm
	saslPerms   jute.Perm      // granted to every user of SASL
	entries     []aclEntry     // all entries, including those for anyone
	hashIndex   []uint32       // see buildHashIndex; nil if the list is short
	ipv4, ipv6  []addressRange // of the ip entries
	nodeCount   int            // nodes of the tree with this list; only the tree changes it
	sharedExtra nodeExtra      // shared by nodes that need no extra of their own; see nodeExtra

	// The place in the open chunk of the history of changes, if the mark is that chunk's: see historyChunk.placeOf.
	historyMark, historyPlace uint64
}

// maxACLBytes limits the encoding of a list after expansion. A request holds no more, but a list can grow
// past it if a client with many identities sends many auth entries.
const maxACLBytes = 1 << 20

// Memory of a list beside its text, and of each of its entries, within a tenth (TestACLMemory). The figure for entries is that of
// addresses: an aclEntry and two ranges of 17 bytes, and what the allocator adds. Names, with a place in the index, take half of it.
const (
	aclOverhead   = 288
	entryOverhead = 48
)

func (a *acl) memoryBytes() int { return ACLMemory(len(a.entries), len(a.text)) }

// ACLMemory returns the approximate memory, in bytes, of a list with so many entries and an encoding of size
// bytes.
func ACLMemory(entries, size int) int { return aclOverhead + size + entryOverhead*entries }

// entryAt returns the i-th entry. Its strings are parts of the list's text.
func (a *acl) entryAt(i int) (perms jute.Perm, scheme, id string) {
	rest := a.text[a.entries[i].textOffset:]
	perms = jute.Perm(int32At(rest))
	scheme, rest = cutString(rest[4:])
	id, _ = cutString(rest)
	return perms, scheme, id
}

// cutString splits an encoding after its first string. A null string is empty.
func cutString(encoded string) (text, rest string) {
	n := max(int(int32At(encoded)), 0)
	return encoded[4 : 4+n], encoded[4+n:]
}

func int32At(s string) int32 {
	return int32(uint32(s[0])<<24 | uint32(s[1])<<16 | uint32(s[2])<<8 | uint32(s[3]))
}

// visibleEntries returns the entries as a client sees them. Unless the client may administer the node, the
// hashes of digest entries are masked.
func (a *acl) visibleEntries(admin bool) []jute.ACL {
	list := make([]jute.ACL, len(a.entries))
	for i := range list {
		perms, scheme, id := a.entryAt(i)
		if user, _, ok := strings.Cut(id, ":"); ok && scheme == "digest" && !admin {
			id = user + ":x"
		}
		list[i] = jute.ACL{Perms: perms, ID: jute.ID{Scheme: []byte(scheme), ID: []byte(id)}}
	}
	return list
}

// aclTable interns the lists that nodes use. It holds weak references, so a list lives as long as a node, or
// a snapshot's copy of a node, uses it. It is changed under the tree's write lock.
type aclTable struct {
	x509Enabled   bool // requests may name the subjects of certificates
	saslEnabled   bool // requests may name the users of SASL
	byText        map[string]weak.Pointer[acl]
	sweepAtSize   int        // size of byText at which dead entries are removed next
	scratchList   []jute.ACL // for expandEntry and internList
	scratchText   []byte
	client        txnClient  // the client of the running transaction
	principal     principal  // the client, as lists are compared with it
	lastRequested []jute.ACL // by the running transaction
	lastResolved  *acl
}

func (c *aclTable) applyRules(r Rules) { c.x509Enabled, c.saslEnabled = r.X509, r.SASL }

// minSweepSize is the size below which the table is not swept for dead entries.
const minSweepSize = 64

func (c *aclTable) worldList(perms jute.Perm) *acl {
	a, _ := c.internList([]jute.ACL{{Perms: perms, ID: jute.ID{Scheme: []byte("world"), ID: []byte("anyone")}}})
	return a
}

// resolveList turns the list in a request of a client with these identities into the list that the node gets.
func (c *aclTable) resolveList(list []jute.ACL, who []*proto.Identity) (*acl, jute.Code) {
	if len(list) == 0 {
		return nil, jute.InvalidACL
	}
	// Common in a multi, whose operations share their identities.
	if c.lastResolved != nil && jute.EqualACLs(list, c.lastRequested) {
		return c.lastResolved, jute.OK
	}
	entries, code := distinctEntries(list)
	if code != jute.OK {
		return nil, code
	}
	c.forgetScratchList()
	size := 0
	for _, entry := range entries {
		before := len(c.scratchList)
		if code := c.expandEntry(entry, who); code != jute.OK {
			return nil, code
		}
		for i := range c.scratchList[before:] {
			size += entrySize(c.scratchList[before+i])
		}
		if size > maxACLBytes {
			return nil, jute.InvalidACL
		}
	}
	a, ok := c.internList(c.scratchList)
	if !ok {
		return nil, jute.InvalidACL
	}
	c.forgetResolved()
	c.lastRequested, c.lastResolved = append(c.lastRequested, list...), a
	return a, jute.OK
}

// forgetResolved drops the last request, whose lists are parts of a transaction's record, so that they keep no entry alive.
func (c *aclTable) forgetResolved() {
	clear(c.lastRequested)
	c.lastRequested, c.lastResolved = c.lastRequested[:0], nil
	c.forgetScratchList()
}

func (c *aclTable) forgetScratchList() {
	clear(c.scratchList)
	c.scratchList = c.scratchList[:0]
}

// distinctEntries removes duplicates. If comparing two entries meets a null scheme or id (their earlier
// fields being equal), it returns MarshallingError.
func distinctEntries(list []jute.ACL) ([]jute.ACL, jute.Code) {
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
		scheme := key{perms: e.Perms, scheme: borrowString(e.ID.Scheme), parts: 1}
		whole := key{e.Perms, scheme.scheme, borrowString(e.ID.ID), 2}
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

// expandEntry appends to c.scratchList the entries that one entry of a request expands to.
func (c *aclTable) expandEntry(entry jute.ACL, who []*proto.Identity) jute.Code {
	scheme := string(entry.ID.Scheme)
	if scheme == "x509" && !c.x509Enabled || scheme == "sasl" && !c.saslEnabled {
		return jute.InvalidACL
	}
	switch scheme {
	case "world", "digest", "ip", "x509", "sasl":
		if entry.ID.ID == nil {
			return jute.MarshallingError
		}
		if _, ok := parseEntry(entry); !ok {
			return jute.InvalidACL
		}
		c.scratchList = append(c.scratchList, entry)
		return jute.OK
	case "auth":
		before := len(c.scratchList)
		for _, w := range who {
			if isExpandedByAuth(w) {
				c.scratchList = append(c.scratchList, jute.ACL{
					Perms: entry.Perms,
					ID:    jute.ID{Scheme: []byte(w.GetScheme()), ID: []byte(w.GetId())},
				})
			}
		}
		if len(c.scratchList) == before {
			return jute.InvalidACL
		}
		return jute.OK
	default: // super, a scheme without a provider here, or null
		return jute.InvalidACL
	}
}

// ExpandedSize returns the number of entries that a list has after its auth entries are expanded to these
// identities, and the size of its encoding. Duplicates count each time.
func ExpandedSize(list []jute.ACL, who []*proto.Identity) (entries, size int) {
	own, ownSize := 0, 0
	for _, w := range who {
		if isExpandedByAuth(w) {
			own, ownSize = own+1, ownSize+entryBytes+len(w.GetScheme())+len(w.GetId())
		}
	}
	for _, e := range list {
		if borrowString(e.ID.Scheme) == "auth" {
			entries, size = entries+own, size+ownSize
		} else {
			entries, size = entries+1, size+entrySize(e)
		}
	}
	return entries, size
}

// isExpandedByAuth reports whether an auth entry expands to an identity. It does not for addresses and super.
func isExpandedByAuth(w *proto.Identity) bool {
	switch w.GetScheme() {
	case "digest", "sasl", "x509":
		return true
	}
	return false
}

// internList returns the shared copy of the list, or false if an entry is malformed.
func (c *aclTable) internList(list []jute.ACL) (*acl, bool) {
	c.scratchText = jute.AppendCount(c.scratchText[:0], len(list))
	for i := range list {
		c.scratchText = list[i].Append(c.scratchText)
	}
	if a := c.byText[string(c.scratchText)].Value(); a != nil {
		return a, true
	}
	a := &acl{text: string(c.scratchText), hash: xxhash.Sum64(c.scratchText), entries: make([]aclEntry, 0, len(list))}
	at := 4 // after the number of entries
	var grants []addressGrant
	for i := range list {
		from, ok := a.addEntry(at, list[i])
		if !ok {
			return nil, false
		}
		if from.IsValid() {
			grants = append(grants, addressGrant{from.Masked(), uint8(list[i].Perms & jute.PermAll)})
		}
		at += entrySize(list[i])
	}
	a.setRanges(grants)
	if len(a.entries) > indexedACLEntries {
		a.buildHashIndex(len(list) - len(grants))
	}
	a.sharedExtra.acl = a
	c.addKnown(a)
	return a, true
}

// entryBytes is the size of an encoded entry without its scheme and id.
const entryBytes = 12

func entrySize(e jute.ACL) int { return entryBytes + len(e.ID.Scheme) + len(e.ID.ID) }

// addEntry adds the entry at an offset of the text, or returns false if it is malformed. For scheme ip it returns the addresses that the
// entry covers.
func (a *acl) addEntry(at int, e jute.ACL) (from netip.Prefix, ok bool) {
	if from, ok = parseEntry(e); !ok {
		return from, false
	}
	hash := uint32(0)
	switch scheme := borrowString(e.ID.Scheme); scheme {
	case "world":
		a.worldPerms |= e.Perms
	case "ip":
	case "sasl":
		a.saslPerms |= e.Perms
		fallthrough
	default:
		hash = hashName(scheme, borrowString(e.ID.ID))
	}
	a.entries = append(a.entries, aclEntry{uint32(at), hash})
	return from, true
}

// addKnown adds a to the table, and removes dead entries whenever the table has doubled.
func (c *aclTable) addKnown(a *acl) {
	if c.byText == nil {
		c.byText, c.sweepAtSize = map[string]weak.Pointer[acl]{}, minSweepSize
	}
	if len(c.byText) >= c.sweepAtSize {
		for text, p := range c.byText {
			if p.Value() == nil {
				delete(c.byText, text)
			}
		}
		c.sweepAtSize = max(minSweepSize, 2*len(c.byText))
	}
	c.byText[a.text] = weak.Make(a)
}

// parseEntry reports whether an entry is well-formed. For scheme ip it returns the addresses that the entry
// covers.
func parseEntry(e jute.ACL) (from netip.Prefix, ok bool) {
	switch id := borrowString(e.ID.ID); borrowString(e.ID.Scheme) {
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

// parsePrefix reads the id of an ip entry: an address, optionally followed by a slash and a prefix length.
// The address is dotted IPv4, or IPv6 without a zone or a dotted tail.
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

func (c *aclTable) parseACL(text []byte) (*acl, bool) {
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
	a, ok := c.internList(list)
	return a, ok && a.text == string(text)
}

// ValidACLEntry reports whether a node's list may have an entry. Entries of other schemes would let no client
// in, and are rejected wherever they come from.
func ValidACLEntry(entry jute.ACL) bool {
	_, ok := parseEntry(entry)
	return ok
}
