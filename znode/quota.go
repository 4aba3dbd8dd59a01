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
	limitsName = "/zookeeper_limits"
	usageName  = "/zookeeper_stats"
)

// Quota describes a quota that is exceeded.
type Quota struct {
	Path       string // the root of the subtree
	Count      int64  // nodes in it
	CountLimit int64  // the hard limit, or the soft one if there is no hard one; -1: no limit
	Bytes      int64  // the length of their data
	BytesLimit int64
}

// limited returns the subtree that has its limits node at path, and false if path is no limits
// node.
func limited(path string) (root string, ok bool) { return quotaOf(path, limitsName) }

// quotaOf returns the subtree that has the node called name at path. As in ZooKeeper, there can be
// no quota on the root or on a subtree that contains the quotas' own nodes.
func quotaOf(path, name string) (root string, ok bool) {
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
	if t.quotas.n == 0 {
		return ""
	}
	for path != "" {
		if _, ok := t.quotas.get(name(path)); ok {
			return path
		}
		path, _ = cutPath(path)
	}
	return ""
}

// quota is the parsed text of a limits or usage node; -1 means not set.
type quota struct{ count, bytes, hardCount, hardBytes int64 }

// maxQuotaText is the length, in bytes, from which a text of limits or usage is not read, because each change of the subtree reads
// both. The longest text that clients of ZooKeeper write has 150.
const maxQuotaText = 256

// parseQuota reads such a text as ZooKeeper does. A value that cannot be read is not set.
func parseQuota(data []byte) quota {
	q := quota{count: -1, bytes: -1, hardCount: -1, hardBytes: -1}
	if len(data) > maxQuotaText {
		return q
	}
	for pair := range bytes.FieldsFuncSeq(data, func(r rune) bool { return r == ',' || r == ';' }) {
		key, rest, _ := strings.Cut(borrow(pair), "=")
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

// limits returns the limits of a subtree and its usage, and false if they cannot be determined.
func (t *tree) limits(root string) (limits, used quota, ok bool) {
	l, u := t.get(quotaPath+root+limitsName), t.get(quotaPath+root+usageName)
	if l == nil || u == nil {
		return quota{}, quota{}, false
	}
	return parseQuota(l.data.bytes()), parseQuota(u.data.bytes()), true
}

// quotaUse keeps the usage of the quotas of a tree up to date while a transaction changes it.
type quotaUse struct {
	nodes    *editor
	before   *tree   // the tree before the running multi, if quotas are enforced
	exceeded []Quota // what the running transaction has exceeded
}

// forbids reports whether a quota's hard limit forbids a change at path that adds so many nodes and
// bytes. Two rules are those of ZooKeeper. A change that shrinks the usage is still forbidden if
// the usage stays above the limit. Within a multi, the usage from before the multi counts.
func (u *quotaUse) forbids(path string, nodes, bytes int64) bool {
	judged := u.nodes.tree
	if u.before != nil {
		judged = u.before
	}
	root := judged.quotaRoot(path)
	if root == "" {
		return false
	}
	limits, used, ok := judged.limits(root)
	return ok && (nodes != 0 && limits.hardCount >= 0 && used.count+nodes > limits.hardCount ||
		bytes != 0 && limits.hardBytes >= 0 && used.bytes+bytes > limits.hardBytes)
}

// add updates the usage after a change at path.
func (u *quotaUse) add(path string, nodes, bytes int) {
	root := u.nodes.tree.quotaRoot(path)
	if root == "" || nodes == 0 && bytes == 0 {
		return
	}
	limits, used, ok := u.nodes.tree.limits(root)
	if !ok {
		return
	}
	used.count += int64(nodes)
	used.bytes += int64(bytes)
	u.setUsage(root, used)
	if nodes < 0 || bytes < 0 {
		return
	}
	q := Quota{Path: root, Count: used.count, CountLimit: limits.count, Bytes: used.bytes, BytesLimit: limits.bytes}
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

// measure computes a usage if a client has created one of the quota's two nodes, because the subtree may have changed while there
// was no quota. The cost does not depend on the subtree: see totals.
func (u *quotaUse) measure(path string) {
	root, ok := limited(path)
	if !ok {
		root, ok = quotaOf(path, usageName)
	}
	if !ok || u.nodes.tree.get(quotaPath+root+usageName) == nil {
		return
	}
	used := quota{}
	if top := u.nodes.tree.get(root); top != nil {
		used.count, used.bytes = top.subtree()
	}
	u.setUsage(root, used)
}

// keep puts the usage of a quota back if a client has written it with setData. had is what the node had before.
func (u *quotaUse) keep(n *node, had packed) {
	if root, ok := quotaOf(n.path, usageName); ok && u.nodes.tree.get(quotaPath+root+limitsName) != nil {
		u.setUsage(root, parseQuota(had.bytes()))
	}
}

// setUsage writes a usage node. Only its data changes, and watchers are not told.
func (u *quotaUse) setUsage(root string, used quota) {
	n := u.nodes.edit(quotaPath + root + usageName)
	u.nodes.tree.setBytes(n, fmt.Appendf(nil, "count=%d,bytes=%d", used.count, used.bytes))
	u.nodes.tree.count(n)
}

// report passes the quotas that the transaction has left exceeded to hooks.
func (u *quotaUse) report(hooks Hooks) {
	for _, q := range u.exceeded {
		hooks.Overused(q)
	}
	u.discard()
}

// discard forgets the exceeded quotas.
func (u *quotaUse) discard() {
	clear(u.exceeded)
	u.exceeded = u.exceeded[:0]
}
