package znode

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// A quota on the subtree at a path has two nodes, which clients create. One holds the limits. The other holds
// the usage, which every change of the subtree updates:
//
//	/zookeeper/quota<path>/zookeeper_limits   count=5,bytes=-1=;countHardLimit=6
//	/zookeeper/quota<path>/zookeeper_stats    count=2,bytes=6
//
// Usage includes the node at the path itself. A change counts only for the deepest of nested quotas. The only
// other stored data are the quotas' paths. A change costs nothing extra without quotas, and with a quota as
// much as the changed path is deep.

const (
	// QuotaRoot is the parent of the quotas' nodes.
	QuotaRoot = quotaPath
	// QuotaLimits and QuotaUsage are the names of the two nodes of a quota.
	QuotaLimits = "zookeeper_limits"
	QuotaUsage  = "zookeeper_stats"

	limitsSuffix = "/" + QuotaLimits
	usageSuffix  = "/" + QuotaUsage
)

type ExceededQuota struct {
	Path       string // of the subtree
	Count      int64  // nodes in the subtree
	CountLimit int64  // the hard limit, or the soft one without a hard one; -1 if there is none
	Bytes      int64  // of data
	BytesLimit int64
}

// rootOfLimitsNode returns the subtree with its limits node at path, or false if path is no limits node.
func rootOfLimitsNode(path string) (root string, ok bool) { return rootOfQuotaNode(path, limitsSuffix) }

// rootOfQuotaNode returns the subtree with its node called name at path. As in ZooKeeper, there can be no quota
// on the root or on a subtree that contains the quotas' own nodes.
func rootOfQuotaNode(path, name string) (root string, ok bool) {
	root, ok = strings.CutPrefix(path, quotaPath)
	if !ok {
		return "", false
	}
	if root, ok = strings.CutSuffix(root, name); !ok || root == "" || root[0] != '/' {
		return "", false
	}
	return root, root != zkPath && root != quotaPath && !strings.HasPrefix(root, quotaPath+"/")
}

// deepestQuotaRoot returns the deepest path at or above path with a quota, or "".
func (t *tree) deepestQuotaRoot(path string) string {
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

// QuotaValues is the parsed text of a limits or usage node. A value of -1 is not set.
type QuotaValues struct{ Count, Bytes, HardCount, HardBytes int64 }

// maxQuotaText is the longest text that is parsed, in bytes, because each change of the subtree parses two.
// The longest text of ZooKeeper's clients has 150.
const maxQuotaText = 256

// ParseQuota reads a text as ZooKeeper does. A value that cannot be parsed is not set.
func ParseQuota(data []byte) QuotaValues {
	q := QuotaValues{Count: -1, Bytes: -1, HardCount: -1, HardBytes: -1}
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
			q.Count = value
		case "bytes":
			q.Bytes = value
		case "countHardLimit":
			q.HardCount = value
		case "byteHardLimit":
			q.HardBytes = value
		}
	}
	return q
}

// limitsAndUsage returns false if one of a subtree's two nodes is missing.
func (t *tree) limitsAndUsage(root string) (limits, used QuotaValues, ok bool) {
	l, u := t.nodeAt(quotaPath+root+limitsSuffix), t.nodeAt(quotaPath+root+usageSuffix)
	if l == nil || u == nil {
		return QuotaValues{}, QuotaValues{}, false
	}
	return ParseQuota(l.data.bytes()), ParseQuota(u.data.bytes()), true
}

// quotaTracker updates the usage of the quotas while a transaction changes the tree.
type quotaTracker struct {
	editor      *treeEditor
	beforeMulti *tree           // nil if quotas are not enforced
	exceeded    []ExceededQuota // by the running transaction
}

// wouldExceedHardLimit reports whether a hard limit forbids a change at path that adds so many nodes and bytes. As in
// ZooKeeper, a change that shrinks the usage is still forbidden if the usage stays above the limit, and a
// multi is checked against the usage before it.
func (u *quotaTracker) wouldExceedHardLimit(path string, nodes, bytes int64) bool {
	judged := u.editor.tree
	if u.beforeMulti != nil {
		judged = u.beforeMulti
	}
	root := judged.deepestQuotaRoot(path)
	if root == "" {
		return false
	}
	limits, used, ok := judged.limitsAndUsage(root)
	return ok && (nodes != 0 && limits.HardCount >= 0 && used.Count+nodes > limits.HardCount ||
		bytes != 0 && limits.HardBytes >= 0 && used.Bytes+bytes > limits.HardBytes)
}

// addUsage updates the usage after a change at path.
func (u *quotaTracker) addUsage(path string, nodes, bytes int) {
	root := u.editor.tree.deepestQuotaRoot(path)
	if root == "" || nodes == 0 && bytes == 0 {
		return
	}
	limits, used, ok := u.editor.tree.limitsAndUsage(root)
	if !ok {
		return
	}
	used.Count += int64(nodes)
	used.Bytes += int64(bytes)
	u.writeUsageNode(root, used)
	if nodes < 0 || bytes < 0 {
		return
	}
	q := ExceededQuota{
		Path: root, Count: used.Count, CountLimit: limits.Count, Bytes: used.Bytes, BytesLimit: limits.Bytes,
	}
	if limits.HardCount >= 0 {
		q.CountLimit = limits.HardCount
	}
	if limits.HardBytes >= 0 {
		q.BytesLimit = limits.HardBytes
	}
	if q.CountLimit >= 0 && q.Count > q.CountLimit || q.BytesLimit >= 0 && q.Bytes > q.BytesLimit {
		if n := len(u.exceeded); n > 0 && u.exceeded[n-1].Path == root { // the last operation of a multi counts
			u.exceeded = u.exceeded[:n-1]
		}
		u.exceeded = append(u.exceeded, q)
	}
}

// recomputeForNewQuota sets the usage if a client has created one of the quota's two nodes, because the subtree may
// have changed before. The cost does not depend on the subtree: see descendantTotals.
func (u *quotaTracker) recomputeForNewQuota(path string) {
	root, ok := rootOfLimitsNode(path)
	if !ok {
		root, ok = rootOfQuotaNode(path, usageSuffix)
	}
	if !ok || u.editor.tree.nodeAt(quotaPath+root+usageSuffix) == nil {
		return
	}
	used := QuotaValues{}
	if top := u.editor.tree.nodeAt(root); top != nil {
		used.Count, used.Bytes = top.subtreeSize()
	}
	u.writeUsageNode(root, used)
}

// restoreIfUsageNode writes the usage again after a client has overwritten the node, which had these data before.
func (u *quotaTracker) restoreIfUsageNode(n *node, had packedData) {
	if root, ok := rootOfQuotaNode(n.path, usageSuffix); ok && u.editor.tree.nodeAt(quotaPath+root+limitsSuffix) != nil {
		u.writeUsageNode(root, ParseQuota(had.bytes()))
	}
}

// writeUsageNode changes only the data of a usage node, and notifies no watcher.
func (u *quotaTracker) writeUsageNode(root string, used QuotaValues) {
	n := u.editor.beginEdit(u.editor.tree.nodeAt(quotaPath + root + usageSuffix))
	u.editor.tree.setData(n, fmt.Appendf(nil, "count=%d,bytes=%d", used.Count, used.Bytes))
	u.editor.tree.addHash(n)
}

// reportExceeded passes the quotas that the transaction left exceeded to hooks.
func (u *quotaTracker) reportExceeded(hooks Hooks) {
	for _, q := range u.exceeded {
		hooks.QuotaExceeded(q)
	}
	u.dropExceeded()
}

func (u *quotaTracker) dropExceeded() {
	clear(u.exceeded)
	u.exceeded = u.exceeded[:0]
}
