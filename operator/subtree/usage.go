package subtree

// Usage is the size of a subtree.
type Usage struct {
	Path       string `json:"path"`
	Nodes      int    `json:"nodes"` // the node itself included
	Bytes      int64  `json:"bytes"` // of data
	Ephemerals int    `json:"ephemerals"`
	Unread     int    `json:"unread"` // nodes that the caller may not read; their subtrees are not counted
}

// UsageSum adds up the nodes of a walk, in the walk's order. Its memory grows with the depth of the tree.
type UsageSum struct {
	onUsage   func(u Usage, depth int)
	openNodes []Usage
}

// NewUsageSum returns a UsageSum that calls each with every node and its depth, after its descendants.
func NewUsageSum(each func(u Usage, depth int)) *UsageSum { return &UsageSum{onUsage: each} }

// Add adds the next node of the walk.
func (s *UsageSum) Add(n *Node) {
	s.closeBelow(n.Depth)
	u := Usage{Path: n.Path, Nodes: 1, Bytes: int64(n.Stat.DataLength)}
	if n.Stat.EphemeralOwner != 0 {
		u.Ephemerals = 1
	}
	if n.Err != nil {
		u.Unread = 1
	}
	s.openNodes = append(s.openNodes, u)
}

// Done ends the walk.
func (s *UsageSum) Done() { s.closeBelow(0) }

func (s *UsageSum) closeBelow(depth int) {
	for len(s.openNodes) > depth {
		last := s.openNodes[len(s.openNodes)-1]
		s.openNodes = s.openNodes[:len(s.openNodes)-1]
		if len(s.openNodes) > 0 {
			above := &s.openNodes[len(s.openNodes)-1]
			above.Nodes += last.Nodes
			above.Bytes += last.Bytes
			above.Ephemerals += last.Ephemerals
			above.Unread += last.Unread
		}
		s.onUsage(last, len(s.openNodes))
	}
}
