package znode

import (
	"strings"

	"rollcall/zk/jute"
)

// tree holds the nodes and the indexes derived from them. A node is in its parent's children, which are
// copied on write. To copy everything, call tree.copy and increment the generation.
type tree struct {
	root           *node
	nodeCount      int
	byPath         *pathIndex // nil in a copy, which finds nodes through their parents
	ephemerals     sortedMap[ephemeralKey, struct{}]
	reapCandidates sortedMap[ReapCandidate, struct{}]
	quotaRoots     sortedMap[nodeName, struct{}]
	dataSize       int64  // of all paths and data
	aclBytes       int64  // of the access control lists that nodes have, each once
	nodeHashSum    uint64 // of the hashes of all nodes; see DigestVersion
	hashedBytes    int    // by the running entry; see maxHashedBytes
	mostCreated    ChildCount
}

// MaxCreated is the number of children of one parent that get a number of their own in a sequential name, unless
// Rules.LongNames is set. See nextNumber.
const MaxCreated = jute.MaxZooKeeperSequence

// ChildCount is a parent with the number of children that were ever created in it.
type ChildCount struct {
	Path    string
	Created int64
}

// MostCreated returns the parent in which the most children were ever created, of those that have not passed MaxCreated.
// After that parent was deleted or has passed, it is the next one in which a child is created, or refused because the name
// is taken.
func (s *State) MostCreated() ChildCount { return s.replicated.tree.mostCreated }

func (t *tree) noteCreated(parent *node) {
	switch n := parent.numCreated(); {
	case n > MaxCreated:
		if parent.path == t.mostCreated.Path {
			t.mostCreated = ChildCount{}
		}
	case n > t.mostCreated.Created:
		t.mostCreated = ChildCount{parent.path, n}
	}
}

// node is one znode. A node of an older generation is never written. The ancestors of a node of the present
// generation are of that generation, too.
type node struct {
	gen        uint64
	path       string
	data       packedData
	czxid      int64
	mzxid      int64
	ctime      int64 // since 1970
	mtime      int64
	*nodeExtra // shared with its access control list, or its own; nil while the node is being made
}

// nodeExtra holds a node's access control list, and the fields that most nodes do not need. A node shares
// acl.sharedExtra, which never changes, if it never had a child, ends only by a delete, and its list was
// never replaced. Otherwise ensureOwnExtra makes one for it. Without this split a node would take 136 bytes and not
// 80.
type nodeExtra struct {
	acl         *acl
	descendants *descendantTotals // nil if nothing was ever below the node
	children    sortedMap[nodeName, *node]
	pzxid       int64
	createCount int64 // children ever created: the next sequential number
	ownerOrTTL  int64 // the session of a kindEphemeral, or the time to live of a kindTTL, in ms; otherwise 0
	aversion    int32 // number of times that acl was replaced
	kind        lifetimeKind
}

// descendantTotals count everything below a node, so that the usage of a quota costs the same for any
// subtree. They are not copied on write, so only the present tree has them.
type descendantTotals struct {
	nodes int64
	bytes int64 // of data
}

type nodeName string

func (n nodeName) compare(m nodeName) int { return strings.Compare(string(n), string(m)) }

// key computes the key, so that the parent's children need not hold it.
func (n *node) key() nodeName {
	_, last := splitPath(n.path)
	return nodeName(last)
}

// ephemeralKey orders ephemeral nodes by session, then by path.
type ephemeralKey struct {
	owner jute.SessionID
	path  string
}

func (e ephemeralKey) compare(f ephemeralKey) int {
	if c := compareIDs(e.owner, f.owner); c != 0 {
		return c
	}
	return strings.Compare(e.path, f.path)
}

// The nodes that always exist, parents first. Their creation does not count as a child's creation.
const (
	rootPath   = "/"
	zkPath     = "/zookeeper"
	quotaPath  = "/zookeeper/quota"
	ConfigPath = "/zookeeper/config" // its data are the text of the list of servers
)

var builtinPaths = [...]string{rootPath, zkPath, quotaPath, ConfigPath}

func isBuiltin(path string) bool {
	for _, b := range builtinPaths {
		if path == b {
			return true
		}
	}
	return false
}

// newTree returns the tree of a new ensemble.
func newTree(gen uint64, acls *aclTable) tree {
	t := tree{byPath: newIndex()}
	for _, path := range builtinPaths {
		n := &node{gen: gen, path: path, data: packData([]byte{}), nodeExtra: &acls.worldList(jute.PermAll).sharedExtra}
		if path == ConfigPath {
			n.setACL(acls.worldList(jute.PermRead), -1)
		}
		t.linkNode(gen, n)
	}
	return t
}

// copy returns a copy that does not change if the caller increments the generation before the next change.
func (t *tree) copy() tree {
	c := *t
	c.byPath = nil
	return c
}

// nodeAt returns the node at path, or nil. The empty path is the root. It keeps no reference to path.
func (t *tree) nodeAt(path string) *node {
	if path == "" {
		path = rootPath
	}
	if t.byPath == nil {
		return t.findFromRoot(path)
	}
	return t.byPath.get(path)
}

// findFromRoot is nodeAt for a copy.
func (t *tree) findFromRoot(path string) *node {
	n := t.root
	for part := range strings.SplitSeq(path[1:], "/") {
		if n == nil || n.path == path {
			break
		}
		n = n.childNamed(nodeName(part))
	}
	if n == nil || n.path != path {
		return nil
	}
	return n
}

// beginEdit returns n, which is in the tree, or its copy of the present generation, and subtracts its hash. The caller changes
// the node and then calls addHash.
func (t *tree) beginEdit(gen uint64, n *node) *node {
	n = t.writable(gen, n)
	t.subtractHash(n)
	return n
}

func (t *tree) writableNode(gen uint64, path string) *node { return t.writable(gen, t.nodeAt(path)) }

// writable is beginEdit for changes that the digest does not cover.
func (t *tree) writable(gen uint64, n *node) *node {
	if n.gen == gen {
		return n
	}
	n = n.copy(gen)
	t.byPath.replace(n)
	if n.path == rootPath {
		t.root = n
		return n
	}
	above, last := splitPath(n.path)
	*t.writableNode(gen, above).children.writableValue(gen, nodeName(last)) = n
	return n
}

// linkNode adds n to the tree and the indexes, and returns its existing parent, where the create is not
// recorded yet. The caller may change the parent between subtractHash and addHash. Only the root has no
// parent.
func (t *tree) linkNode(gen uint64, n *node) (parent *node) {
	t.byPath.put(n)
	t.nodeCount++
	t.addHash(n)
	t.dataSize += int64(len(n.path) + n.data.len())
	t.noteCreated(n)
	t.retainACL(n.acl)
	if n.path == rootPath {
		t.root = n
		return nil
	}
	above, last := splitPath(n.path)
	parent = t.writableNode(gen, above)
	t.changeAndReindex(gen, parent, func() { parent.ensureOwnExtra().children.put(gen, nodeName(last), n) })
	t.addTotals(parent, 1, n.data.len())
	if owner := n.lifetime().owner; owner != 0 {
		t.ephemerals.put(gen, ephemeralKey{owner, n.path}, struct{}{})
	}
	if c, ok := n.reapCandidate(); ok {
		t.reapCandidates.put(gen, c, struct{}{})
	}
	if root, ok := rootOfLimitsNode(n.path); ok {
		t.quotaRoots.put(gen, nodeName(root), struct{}{})
	}
	return parent
}

// unlinkNode is the reverse of linkNode. n must not be the root.
func (t *tree) unlinkNode(gen uint64, n *node) (parent *node) {
	t.byPath.remove(n.path)
	t.nodeCount--
	t.subtractHash(n)
	t.dataSize -= int64(len(n.path) + n.data.len())
	if t.mostCreated.Path == n.path {
		t.mostCreated = ChildCount{}
	}
	t.releaseACL(n.acl)
	above, last := splitPath(n.path)
	parent = t.writableNode(gen, above)
	t.changeAndReindex(gen, parent, func() { parent.children.delete(gen, nodeName(last)) })
	t.addTotals(parent, -1, -n.data.len())
	if owner := n.lifetime().owner; owner != 0 {
		t.ephemerals.delete(gen, ephemeralKey{owner, n.path})
	}
	if c, ok := n.reapCandidate(); ok {
		t.reapCandidates.delete(gen, c)
	}
	if root, ok := rootOfLimitsNode(n.path); ok {
		t.quotaRoots.delete(gen, nodeName(root))
	}
	return parent
}

// addTotals adds to the totals of parent and of each node above it. These nodes are of the present
// generation. The root is left out, because it can have no quota.
func (t *tree) addTotals(parent *node, nodes, bytes int) {
	for n := parent; n.path != rootPath; n = t.parentOf(n) {
		if n.descendants == nil {
			n.descendants = &descendantTotals{}
		}
		n.descendants.nodes += int64(nodes)
		n.descendants.bytes += int64(bytes)
	}
}

func (t *tree) parentOf(n *node) *node {
	path, _ := splitPath(n.path)
	return t.nodeAt(path)
}

// addToDataSize updates the totals for n, whose data get so many bytes longer. n is of the present generation.
func (t *tree) addToDataSize(n *node, bytes int) {
	t.dataSize += int64(bytes)
	if bytes != 0 && n.path != rootPath {
		t.addTotals(t.parentOf(n), 0, bytes)
	}
}

// setData replaces the data of n but not their version. n must be of the present generation.
func (t *tree) setData(n *node, data []byte) { t.setPackedData(n, packData(data)) }

func (t *tree) setPackedData(n *node, data packedData) {
	t.addToDataSize(n, data.len()-n.data.len())
	data.version = n.data.version
	n.data = data
}

// retainACL and releaseACL count the nodes with a list.
func (t *tree) retainACL(a *acl) {
	if a.nodeCount++; a.nodeCount == 1 {
		t.aclBytes += int64(a.memoryBytes())
	}
}

func (t *tree) releaseACL(a *acl) {
	if a.nodeCount--; a.nodeCount == 0 {
		t.aclBytes -= int64(a.memoryBytes())
	}
}

func (t *tree) countDescendants(n *node) int {
	switch {
	case n.path == rootPath:
		return t.nodeCount - 1
	case n.descendants == nil:
		return 0
	}
	return int(n.descendants.nodes)
}

// subtreeSize returns the number of nodes in the subtree at n and their bytes of data. n must not be the
// root.
func (n *node) subtreeSize() (nodes, bytes int64) {
	nodes, bytes = 1, int64(n.data.len())
	if n.descendants != nil {
		nodes, bytes = nodes+n.descendants.nodes, bytes+n.descendants.bytes
	}
	return nodes, bytes
}

// walk is walkFrom for the root.
func (t *tree) walk(visit func(*node) bool) bool { return t.walkFrom(t.root, visit) }

// walkFrom calls visit for n and everything below it, parents first and children in order, until visit
// returns false. It reports whether visit never did.
func (t *tree) walkFrom(n *node, visit func(*node) bool) bool {
	if !visit(n) {
		return false
	}
	if n.sharesExtra() {
		return true
	}
	for child := range n.children.values() {
		if !t.walkFrom(child, visit) {
			return false
		}
	}
	return true
}

// ephemeralPaths returns up to limit sorted paths of a session's ephemeral nodes.
func (t *tree) ephemeralPaths(id jute.SessionID, limit int) []string {
	var paths []string
	for e := range t.ephemerals.from(ephemeralKey{owner: id}) {
		if e.owner != id || len(paths) >= limit {
			break
		}
		paths = append(paths, e.path)
	}
	return paths
}

func (t *tree) countEphemerals(id jute.SessionID) int {
	return t.ephemerals.countWhile(ephemeralKey{owner: id}, func(e ephemeralKey) bool { return e.owner == id })
}

// copy returns n as a node of generation gen.
func (n *node) copy(gen uint64) *node {
	c := *n
	c.gen = gen
	if !n.sharesExtra() {
		f := *n.nodeExtra
		c.nodeExtra = &f
	}
	return &c
}

// sharesExtra reports whether n has no nodeExtra of its own.
func (n *node) sharesExtra() bool {
	return n.nodeExtra == nil || n.acl != nil && n.nodeExtra == &n.acl.sharedExtra
}

// setACL requires n to be of the present generation.
func (n *node) setACL(list *acl, aversion int32) {
	if n.sharesExtra() && aversion == 0 {
		n.nodeExtra = &list.sharedExtra
		return
	}
	f := n.ensureOwnExtra()
	f.acl, f.aversion = list, aversion
}

// setChildHistory requires that n has no nodeExtra yet.
func (n *node) setChildHistory(pzxid, creates int64) {
	if creates != 0 || pzxid != n.czxid {
		f := n.ensureOwnExtra()
		f.pzxid, f.createCount = pzxid, creates
	}
}

// ensureOwnExtra returns n's own nodeExtra, and makes one if n has none. n must be of the present generation.
func (n *node) ensureOwnExtra() *nodeExtra {
	if n.sharesExtra() {
		own := nodeExtra{pzxid: n.czxid}
		if n.nodeExtra != nil {
			own.acl = n.acl
		}
		n.nodeExtra = &own
	}
	return n.nodeExtra
}

func (n *node) childNamed(last nodeName) *node {
	if n.sharesExtra() {
		return nil
	}
	child, _ := n.children.get(last)
	return child
}

func (n *node) numChildren() int32 {
	if n.sharesExtra() {
		return 0
	}
	return int32(n.children.length)
}

func (n *node) numCreated() int64 {
	if n.sharesExtra() {
		return 0
	}
	return n.createCount
}

// lastChildZxid returns the zxid of the last change of n's children, or of n's creation.
func (n *node) lastChildZxid() int64 {
	if n.sharesExtra() {
		return n.czxid
	}
	return n.pzxid
}

// nextNumber returns the number of n's next child: the count of those before it. Only with longNames does the count pass
// MaxCreated. Without, it stays there, and that number may be given more than once, so it is skipped as soon as longNames
// is set. A count that has passed MaxCreated rises in any case, up to jute.MaxSequence, where it stays too.
func (n *node) nextNumber(longNames bool) int64 {
	if number := n.numCreated(); number != MaxCreated || !longNames {
		return number
	}
	return MaxCreated + 1
}

// countCreate counts the create of a child with a number from nextNumber.
func (n *node) countCreate(number int64) {
	if number != MaxCreated && number != jute.MaxSequence {
		n.createCount = number + 1
	}
}

// stat returns n's Stat. Its cversion counts creates and deletes, in 32 bits.
func (n *node) stat() jute.Stat {
	return jute.Stat{
		Czxid: n.czxid, Mzxid: n.mzxid, Pzxid: n.lastChildZxid(),
		Ctime: n.ctime, Mtime: n.mtime,
		Version: n.data.version, Cversion: int32(2*n.numCreated() - int64(n.numChildren())), Aversion: n.aversion,
		EphemeralOwner: n.lifetime().owner,
		DataLength:     int32(n.data.len()),
		NumChildren:    n.numChildren(),
	}
}

// setConfigTextIfUnset sets the config node's data to the ensemble's text, unless the log has set them. The text is
// the same on all members; nil means standalone. The digest does not cover these data.
func (t *tree) setConfigTextIfUnset(gen uint64, text []byte) {
	n := t.writableNode(gen, ConfigPath)
	if n.mzxid != 0 {
		return
	}
	t.addToDataSize(n, len(text)-n.data.len())
	n.data = packData([]byte{})
	if text != nil {
		n.data = packCopy(text)
		n.data.version = -1
	}
}
