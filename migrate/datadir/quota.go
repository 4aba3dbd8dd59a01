package datadir

import (
	"fmt"
	"strings"
)

const (
	quotaPath  = "/zookeeper/quota"
	limitsName = "/zookeeper_limits"
	usageName  = "/zookeeper_stats"
)

// writeQuotaUsage writes the number of nodes and bytes of each quota's subtree into its usage node. ZooKeeper does
// so when it starts, because it keeps the count only in memory.
func (s *State) writeQuotaUsage() {
	quotas := s.nodes[quotaPath]
	if quotas == nil {
		return
	}
	waiting := []*Node{quotas}
	for len(waiting) > 0 {
		n := waiting[len(waiting)-1]
		waiting = waiting[:len(waiting)-1]
		for c := n.child; c != nil; c = c.next {
			waiting = append(waiting, c)
		}
		root, limits := strings.CutSuffix(strings.TrimPrefix(n.Path, quotaPath), limitsName)
		usage := s.nodes[quotaPath+root+usageName]
		if limits && root != "" && usage != nil {
			count, bytes := s.subtreeUsage(root)
			usage.Data = fmt.Appendf(nil, "count=%d,bytes=%d", count, bytes)
		}
	}
}

// subtreeUsage returns the number of nodes in the subtree at path, and the length of their data.
func (s *State) subtreeUsage(path string) (count, bytes int) {
	var waiting []*Node
	if n := s.nodes[path]; n != nil {
		waiting = append(waiting, n)
	}
	for len(waiting) > 0 {
		n := waiting[len(waiting)-1]
		waiting = waiting[:len(waiting)-1]
		count, bytes = count+1, bytes+len(n.Data)
		for c := n.child; c != nil; c = c.next {
			waiting = append(waiting, c)
		}
	}
	return count, bytes
}
