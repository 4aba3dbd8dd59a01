package znode

import (
	"math"
	"strings"

	"rollcall/zk/jute"
)

// tree holds the nodes and the indexes derived from them. Each node is in its parent's children,
// which are copied on write. To copy everything, call tree.copy and count up the generation.
type tree struct {
	root       *node
	nodes      int    // the number of nodes
	paths      *index // the nodes by path; nil in a copy, which finds nodes through their parents
	ephemerals sorted[ephemeral, struct{}]
	candidates sorted[Candidate, struct{}] // nodes that the reaper may remove
	quotas     sorted[name, struct{}]      // the paths that have a quota
	dataSize   int64                       // bytes of all paths and data
	listSize   int64                       // bytes of the access control lists that nodes have, each once
	nodeSum    uint64                      // of the hashes of all nodes; see DigestVersion
	hashed     int                         // bytes of long data that the running entry has read for their hashes
}

// node is one znode. A node of an older generation than the present one is never written. If a node
// is of the present generation, so are all its ancestors.
type node struct {
	gen     uint64
	path    string
	data    packed // and its version
	czxid   int64
	mzxid   int64
	ctime   int64 // ms since 1970
	mtime   int64
	*family // the one of its access control list, or its own; nil while the node is being made
}

// family holds a node's access control list, and the fields that most nodes do not need. A node shares the
// family of its list, acl.plain, if it never had a child, ends only by a delete, and its list was never
// replaced. acl.plain never changes: found makes a new family for a node that needs its own. Without this
// split a node would take 136 bytes and not 80.
type family struct {
	acl      *acl
	below    *totals // nil: nothing was ever below the node
	children sorted[name, *node]
	owner    jute.SessionID // the session of an ephemeral node
	pzxid    int64
	reaping  reaping
	creates  int32 // how many children were ever created: the next sequential number
	aversion int32 // how often acl was replaced
}

// totals are what there is below a node. With them, the usage of a quota costs the same however large the subtree is. They are
// not copied on write, so only the present tree has them, and not a copy.
type totals struct {
	nodes int64
	bytes int64 // of data
}

// reaping says when the reaper removes a node without children: so many ms after its last change, never if it is 0, and after
// its last child if it is ofContainer. A family with a field more would take 80 bytes and not 64.
type reaping int64

const ofContainer reaping = math.MinInt64

// name is the last part of a path.
type name string

func (n name) compare(m name) int { return strings.Compare(string(n), string(m)) }

// key returns n's name, so that its parent's children need not hold it.
func (n *node) key() name {
	_, last := cutPath(n.path)
	return name(last)
}

// ephemeral is one ephemeral node. Those of one session are adjacent, ordered by path.
type ephemeral struct {
	owner jute.SessionID
	path  string
}

func (e ephemeral) compare(f ephemeral) int {
	if c := compareIDs(e.owner, f.owner); c != 0 {
		return c
	}
	return strings.Compare(e.path, f.path)
}

// These nodes always exist. Each follows its parent. Their creation does not count as a child's
// creation.
const (
	rootPath   = "/"
	zkPath     = "/zookeeper"
	quotaPath  = "/zookeeper/quota"
	ConfigPath = "/zookeeper/config" // its data are the text of the list of servers
)

var builtin = [...]string{rootPath, zkPath, quotaPath, ConfigPath}

// isBuiltin reports whether path names a node that always exists.
func isBuiltin(path string) bool {
	for _, b := range builtin {
		if path == b {
			return true
		}
	}
	return false
}

// newTree returns the tree of a new ensemble, made in generation gen.
func newTree(gen uint64, acls *acls) tree {
	t := tree{paths: newIndex()}
	for _, path := range builtin {
		n := &node{gen: gen, path: path, data: pack([]byte{}), family: &acls.world(jute.PermAll).plain}
		if path == ConfigPath {
			n.setACL(acls.world(jute.PermRead), -1)
		}
		t.link(gen, n)
	}
	return t
}

// copy returns a copy of the tree. It does not change if the caller counts up the generation before
// the next change.
func (t *tree) copy() tree {
	c := *t
	c.paths = nil
	return c
}

// get returns the node at path, or nil if there is none. The empty path is the root. It keeps no
// reference to path.
func (t *tree) get(path string) *node {
	if path == "" {
		path = rootPath
	}
	if t.paths == nil {
		return t.descend(path)
	}
	return t.paths.get(path)
}

// descend does what get does, for a copy.
func (t *tree) descend(path string) *node {
	n := t.root
	for part, rest, more := strings.Cut(path[1:], "/"); n != nil && n.path != path; part, rest, more = strings.Cut(rest, "/") {
		if n = n.child(name(part)); !more {
			break
		}
	}
	if n == nil || n.path != path {
		return nil
	}
	return n
}

// edit returns the node at path, which exists, so that the caller can change it and then count it.
func (t *tree) edit(gen uint64, path string) *node {
	n := t.writable(gen, path)
	t.uncount(n)
	return n
}

// writable does the same for a caller that changes nothing that the digest covers.
func (t *tree) writable(gen uint64, path string) *node {
	n := t.get(path)
	if n.gen == gen {
		return n
	}
	n = n.copy(gen)
	t.paths.replace(n)
	if n.path == rootPath {
		t.root = n
		return n
	}
	above, last := cutPath(n.path)
	*t.writable(gen, above).children.slot(gen, name(last)) = n
	return n
}

// link puts n into the tree, below its parent and into the indexes, and returns the parent, where
// the create is not recorded yet. The caller may change the parent if it calls uncount before and
// count after. The parent exists; only the root has none.
func (t *tree) link(gen uint64, n *node) (parent *node) {
	t.paths.put(n)
	t.nodes++
	t.count(n)
	t.dataSize += int64(len(n.path) + n.data.len())
	t.give(n.acl)
	if n.path == rootPath {
		t.root = n
		return nil
	}
	above, last := cutPath(n.path)
	parent = t.writable(gen, above)
	t.recast(gen, parent, func() { parent.found().children.put(gen, name(last), n) })
	t.grow(parent, 1, n.data.len())
	if owner := n.life().owner; owner != 0 {
		t.ephemerals.put(gen, ephemeral{owner, n.path}, struct{}{})
	}
	if c, ok := n.candidacy(); ok {
		t.candidates.put(gen, c, struct{}{})
	}
	if root, ok := limited(n.path); ok {
		t.quotas.put(gen, name(root), struct{}{})
	}
	return parent
}

// unlink removes n, which is not the root, from the tree: the reverse of link.
func (t *tree) unlink(gen uint64, n *node) (parent *node) {
	t.paths.drop(n.path)
	t.nodes--
	t.uncount(n)
	t.dataSize -= int64(len(n.path) + n.data.len())
	t.withdraw(n.acl)
	above, last := cutPath(n.path)
	parent = t.writable(gen, above)
	t.recast(gen, parent, func() { parent.children.drop(gen, name(last)) })
	t.grow(parent, -1, -n.data.len())
	if owner := n.life().owner; owner != 0 {
		t.ephemerals.drop(gen, ephemeral{owner, n.path})
	}
	if c, ok := n.candidacy(); ok {
		t.candidates.drop(gen, c)
	}
	if root, ok := limited(n.path); ok {
		t.quotas.drop(gen, name(root))
	}
	return parent
}

// grow counts so many more nodes and bytes of data below parent and below each node above it. parent has a child and is of the
// present generation, and so are the nodes above it. The root is left out: there can be no quota on it.
func (t *tree) grow(parent *node, nodes, bytes int) {
	for n := parent; n.path != rootPath; n = t.above(n) {
		if n.below == nil {
			n.below = &totals{}
		}
		n.below.nodes += int64(nodes)
		n.below.bytes += int64(bytes)
	}
}

// above returns n's parent. n is not the root.
func (t *tree) above(n *node) *node {
	path, _ := cutPath(n.path)
	return t.get(path)
}

// resize counts that n, which is of the present generation, gets data that are so many bytes longer.
func (t *tree) resize(n *node, bytes int) {
	t.dataSize += int64(bytes)
	if bytes != 0 && n.path != rootPath {
		t.grow(t.above(n), 0, bytes)
	}
}

// setBytes replaces the data of n but not their version. n must be of the present generation.
func (t *tree) setBytes(n *node, data []byte) { t.setPacked(n, pack(data)) }

// setPacked does what setBytes does.
func (t *tree) setPacked(n *node, data packed) {
	t.resize(n, data.len()-n.data.len())
	data.version = n.data.version
	n.data = data
}

// give notes that one more node has a list, and withdraw that one fewer has it.
func (t *tree) give(a *acl) {
	if a.nodes++; a.nodes == 1 {
		t.listSize += int64(a.bytes())
	}
}

func (t *tree) withdraw(a *acl) {
	if a.nodes--; a.nodes == 0 {
		t.listSize -= int64(a.bytes())
	}
}

// descendants returns how many nodes there are below n.
func (t *tree) descendants(n *node) int {
	switch {
	case n.path == rootPath:
		return t.nodes - 1
	case n.below == nil:
		return 0
	}
	return int(n.below.nodes)
}

// subtree returns how many nodes a subtree has, and how many bytes of data. n is its root, and not that of the tree.
func (n *node) subtree() (nodes, bytes int64) {
	nodes, bytes = 1, int64(n.data.len())
	if n.below != nil {
		nodes, bytes = nodes+n.below.nodes, bytes+n.below.bytes
	}
	return nodes, bytes
}

// walk calls visit for n and everything below it, parents first and children in order,
// and reports whether visit never returned false.
func (t *tree) walk(n *node, visit func(*node) bool) bool {
	if !visit(n) {
		return false
	}
	if n.plain() {
		return true
	}
	for child := range n.children.values() {
		if !t.walk(child, visit) {
			return false
		}
	}
	return true
}

// owned returns up to limit paths of a session's ephemeral nodes, in order.
func (t *tree) owned(id jute.SessionID, limit int) []string {
	var paths []string
	for e := range t.ephemerals.from(ephemeral{owner: id}) {
		if e.owner != id || len(paths) >= limit {
			break
		}
		paths = append(paths, e.path)
	}
	return paths
}

// countOwned returns how many ephemeral nodes a session has.
func (t *tree) countOwned(id jute.SessionID) int {
	return t.ephemerals.count(ephemeral{owner: id}, func(e ephemeral) bool { return e.owner == id })
}

// copy returns n as a node of generation gen.
func (n *node) copy(gen uint64) *node {
	c := *n
	c.gen = gen
	if !n.plain() {
		f := *n.family
		c.family = &f
	}
	return &c
}

// plain reports whether n has no family of its own.
func (n *node) plain() bool {
	return n.family == nil || n.acl != nil && n.family == &n.acl.plain
}

// setACL sets n's access control list, and how often it was replaced. n must be of the present generation.
func (n *node) setACL(list *acl, aversion int32) {
	if n.plain() && aversion == 0 {
		n.family = &list.plain
		return
	}
	f := n.found()
	f.acl, f.aversion = list, aversion
}

// setFamily sets the zxid of the last change of n's children, and how many were created. n has no family
// yet.
func (n *node) setFamily(pzxid int64, creates int32) {
	if creates != 0 || pzxid != n.czxid {
		f := n.found()
		f.pzxid, f.creates = pzxid, creates
	}
}

// found returns n's own family. If n has none, found makes one, which keeps n's access control list. n must
// be of the present generation.
func (n *node) found() *family {
	if n.plain() {
		own := family{pzxid: n.czxid}
		if n.family != nil {
			own.acl = n.acl
		}
		n.family = &own
	}
	return n.family
}

// child returns n's child of that name, or nil if there is none.
func (n *node) child(last name) *node {
	if n.plain() {
		return nil
	}
	child, _ := n.children.get(last)
	return child
}

// numChildren returns how many children n has.
func (n *node) numChildren() int32 {
	if n.plain() {
		return 0
	}
	return int32(n.children.n)
}

// numCreates returns how many children n has ever had.
func (n *node) numCreates() int32 {
	if n.plain() {
		return 0
	}
	return n.creates
}

// lastChild returns the zxid of the last change of n's children, or that of n's creation if there
// was none.
func (n *node) lastChild() int64 {
	if n.plain() {
		return n.czxid
	}
	return n.pzxid
}

// countCreate counts a child's creation. The count stops at the largest number, as in ZooKeeper;
// sequential creates after that find their name taken.
func (n *node) countCreate() {
	if n.creates < math.MaxInt32 {
		n.creates++
	}
}

// stat returns n's Stat as clients see it. Its cversion counts creates and deletes.
func (n *node) stat() jute.Stat {
	return jute.Stat{
		Czxid: n.czxid, Mzxid: n.mzxid, Pzxid: n.lastChild(),
		Ctime: n.ctime, Mtime: n.mtime,
		Version: n.data.version, Cversion: 2*n.numCreates() - n.numChildren(), Aversion: n.aversion,
		EphemeralOwner: n.life().owner,
		DataLength:     int32(n.data.len()),
		NumChildren:    n.numChildren(),
	}
}

// placeConfig sets the config node's data to the ensemble's text, unless a client has set that
// data. The text is not in the log but is the same on all members; nil means standalone. It changes
// the node as a write does but leaves the digest alone, which does not cover this data.
func (t *tree) placeConfig(gen uint64, text []byte) {
	n := t.writable(gen, ConfigPath)
	if n.mzxid != 0 {
		return
	}
	t.resize(n, len(text)-n.data.len())
	n.data = pack([]byte{})
	if text != nil {
		n.data = packCopy(text)
		n.data.version = -1
	}
}
