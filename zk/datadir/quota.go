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

// countUsage writes into the node beside each quota's limits how many nodes the quota's subtree has,
// and how many bytes of data. ZooKeeper does so when it starts: it keeps the count in memory only.
func (s *State) countUsage() {
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

// subtreeUsage returns how many nodes the subtree at path has, and the length of their data.
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
