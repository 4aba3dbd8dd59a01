package znode

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// A quota on the subtree at a path has two nodes, which clients create. One holds the limits. The
// other holds the usage, which every change of the subtree updates:
//
//	/zookeeper/quota<path>/zookeeper_limits   count=5,bytes=-1=;countHardLimit=6
//	/zookeeper/quota<path>/zookeeper_stats    count=2,bytes=6
//
// Usage includes the node at the path itself. If quotas are nested, a change counts for the deepest
// one only. The only other thing that is stored is the set of the quotas' paths. Without quotas a
// change costs nothing extra. With a quota it costs as much as the changed path is deep.

const (
	limitsSuffix = "/zookeeper_limits"
	usageSuffix  = "/zookeeper_stats"
)

// ExceededQuota describes a quota that is exceeded.
type ExceededQuota struct {
	Path       string // the root of the subtree
	Count      int64  // nodes in it
	CountLimit int64  // the hard limit, or the soft one if there is no hard one; -1: no limit
	Bytes      int64  // the length of their data
	BytesLimit int64
}

// limitsRoot returns the subtree that has its limits node at path, and false if path is no limits
// node.
func limitsRoot(path string) (root string, ok bool) { return quotaRootOf(path, limitsSuffix) }

// quotaRootOf returns the subtree that has the node called name at path. As in ZooKeeper, there can be
// no quota on the root or on a subtree that contains the quotas' own nodes.
func quotaRootOf(path, name string) (root string, ok bool) {
	root, ok = strings.CutPrefix(path, quotaPath)
	if !ok {
		return "", false
	}
	if root, ok = strings.CutSuffix(root, name); !ok || root == "" || root[0] != '/' {
		return "", false
	}
	return root, root != zkPath && root != quotaPath && !strings.HasPrefix(root, quotaPath+"/")
}

// quotaRoot returns the deepest path at or above path that has a quota, or "" if there is none.
func (t *tree) quotaRoot(path string) string {
	if t.quotaRoots.length == 0 {
		return ""
	}
	for path != "" {
		if _, ok := t.quotaRoots.get(nodeName(path)); ok {
			return path
		}
		path, _ = splitPath(path)
	}
	return ""
}

// quotaValues is the parsed text of a limits or usage node; -1 means not set.
type quotaValues struct{ count, bytes, hardCount, hardBytes int64 }

// maxQuotaText is the length, in bytes, from which a text of limits or usage is not read, because each change of the subtree reads
// both. The longest text that clients of ZooKeeper write has 150.
const maxQuotaText = 256

// parseQuota reads such a text as ZooKeeper does. A value that cannot be read is not set.
func parseQuota(data []byte) quotaValues {
	q := quotaValues{count: -1, bytes: -1, hardCount: -1, hardBytes: -1}
	if len(data) > maxQuotaText {
		return q
	}
	for pair := range bytes.FieldsFuncSeq(data, func(r rune) bool { return r == ',' || r == ';' }) {
		key, rest, _ := strings.Cut(borrowString(pair), "=")
		text, _, _ := strings.Cut(rest, "=") // another equals sign may follow the value
		value, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			continue
		}
		switch key {
		case "count":
			q.count = value
		case "bytes":
			q.bytes = value
		case "countHardLimit":
			q.hardCount = value
		case "byteHardLimit":
			q.hardBytes = value
		}
	}
	return q
}

// limitsAndUsage returns the limits of a subtree and its usage, and false if they cannot be determined.
func (t *tree) limitsAndUsage(root string) (limits, used quotaValues, ok bool) {
	l, u := t.nodeAt(quotaPath+root+limitsSuffix), t.nodeAt(quotaPath+root+usageSuffix)
	if l == nil || u == nil {
		return quotaValues{}, quotaValues{}, false
	}
	return parseQuota(l.data.bytes()), parseQuota(u.data.bytes()), true
}

// quotaTracker keeps the usage of the quotas of a tree up to date while a transaction changes it.
type quotaTracker struct {
	editor      *treeEditor
	beforeMulti *tree           // the tree before the running multi, if quotas are enforced
	exceeded    []ExceededQuota // what the running transaction has exceeded
}

// wouldExceed reports whether a quota's hard limit forbids a change at path that adds so many nodes and
// bytes. Two rules are those of ZooKeeper. A change that shrinks the usage is still forbidden if
// the usage stays above the limit. Within a multi, the usage from before the multi counts.
func (u *quotaTracker) wouldExceed(path string, nodes, bytes int64) bool {
	judged := u.editor.tree
	if u.beforeMulti != nil {
		judged = u.beforeMulti
	}
	root := judged.quotaRoot(path)
	if root == "" {
		return false
	}
	limits, used, ok := judged.limitsAndUsage(root)
	return ok && (nodes != 0 && limits.hardCount >= 0 && used.count+nodes > limits.hardCount ||
		bytes != 0 && limits.hardBytes >= 0 && used.bytes+bytes > limits.hardBytes)
}

// addUsage updates the usage after a change at path.
func (u *quotaTracker) addUsage(path string, nodes, bytes int) {
	root := u.editor.tree.quotaRoot(path)
	if root == "" || nodes == 0 && bytes == 0 {
		return
	}
	limits, used, ok := u.editor.tree.limitsAndUsage(root)
	if !ok {
		return
	}
	used.count += int64(nodes)
	used.bytes += int64(bytes)
	u.setUsage(root, used)
	if nodes < 0 || bytes < 0 {
		return
	}
	q := ExceededQuota{Path: root, Count: used.count, CountLimit: limits.count, Bytes: used.bytes, BytesLimit: limits.bytes}
	if limits.hardCount >= 0 {
		q.CountLimit = limits.hardCount
	}
	if limits.hardBytes >= 0 {
		q.BytesLimit = limits.hardBytes
	}
	if q.CountLimit >= 0 && q.Count > q.CountLimit || q.BytesLimit >= 0 && q.Bytes > q.BytesLimit {
		if n := len(u.exceeded); n > 0 && u.exceeded[n-1].Path == root { // in a multi, the last operation's usage counts
			u.exceeded = u.exceeded[:n-1]
		}
		u.exceeded = append(u.exceeded, q)
	}
}

// recomputeUsage computes a usage if a client has created one of the quota's two nodes, because the subtree may have changed while there
// was no quota. The cost does not depend on the subtree: see totals.
func (u *quotaTracker) recomputeUsage(path string) {
	root, ok := limitsRoot(path)
	if !ok {
		root, ok = quotaRootOf(path, usageSuffix)
	}
	if !ok || u.editor.tree.nodeAt(quotaPath+root+usageSuffix) == nil {
		return
	}
	used := quotaValues{}
	if top := u.editor.tree.nodeAt(root); top != nil {
		used.count, used.bytes = top.subtreeSize()
	}
	u.setUsage(root, used)
}

// restoreUsage puts the usage of a quota back if a client has written it with setData. had is what the node had before.
func (u *quotaTracker) restoreUsage(n *node, had packedData) {
	if root, ok := quotaRootOf(n.path, usageSuffix); ok && u.editor.tree.nodeAt(quotaPath+root+limitsSuffix) != nil {
		u.setUsage(root, parseQuota(had.bytes()))
	}
}

// setUsage writes a usage node. Only its data changes, and watchers are not told.
func (u *quotaTracker) setUsage(root string, used quotaValues) {
	n := u.editor.beginEdit(quotaPath + root + usageSuffix)
	u.editor.tree.setData(n, fmt.Appendf(nil, "count=%d,bytes=%d", used.count, used.bytes))
	u.editor.tree.addHash(n)
}

// reportExceeded passes the quotas that the transaction has left exceeded to hooks.
func (u *quotaTracker) reportExceeded(hooks Hooks) {
	for _, q := range u.exceeded {
		hooks.QuotaExceeded(q)
	}
	u.dropExceeded()
}

// dropExceeded forgets the exceeded quotas.
func (u *quotaTracker) dropExceeded() {
	clear(u.exceeded)
	u.exceeded = u.exceeded[:0]
}
