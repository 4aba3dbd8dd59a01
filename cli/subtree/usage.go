package subtree

// Usage is what a node and all nodes below it take.
type Usage struct {
	Path       string
	Depth      int
	Nodes      int   // the node itself included
	Bytes      int64 // of data
	Ephemerals int
	Unread     int // nodes that the caller may not read; what is below them is not counted
}

// UsageSum adds up the nodes of a walk, which it takes in the walk's order. It needs memory for the depth of the
// tree. Make one with NewSum.
type UsageSum struct {
	onUsage   func(Usage)
	openNodes []Usage
}

// NewUsageSum returns a Sum that calls each with every node, after all that are below it.
func NewUsageSum(each func(Usage)) *UsageSum { return &UsageSum{onUsage: each} }

// Add takes the next node of the walk.
func (s *UsageSum) Add(n *Node) {
	s.closeBelow(n.Depth)
	u := Usage{Path: n.Path, Depth: n.Depth, Nodes: 1, Bytes: int64(n.Stat.DataLength)}
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

// closeBelow ends the nodes of this depth and below.
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
		s.onUsage(last)
	}
}
