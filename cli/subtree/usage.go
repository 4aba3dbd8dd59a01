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

// Sum adds up the nodes of a walk, which it takes in the walk's order. It needs memory for the depth of the
// tree. Make one with NewSum.
type Sum struct {
	each func(Usage)
	way  []Usage
}

// NewSum returns a Sum that calls each with every node, after all that are below it.
func NewSum(each func(Usage)) *Sum { return &Sum{each: each} }

// Add takes the next node of the walk.
func (s *Sum) Add(n *Node) {
	s.leave(n.Depth)
	u := Usage{Path: n.Path, Depth: n.Depth, Nodes: 1, Bytes: int64(n.Stat.DataLength)}
	if n.Stat.EphemeralOwner != 0 {
		u.Ephemerals = 1
	}
	if n.Err != nil {
		u.Unread = 1
	}
	s.way = append(s.way, u)
}

// Done ends the walk.
func (s *Sum) Done() { s.leave(0) }

// leave ends the nodes of this depth and below.
func (s *Sum) leave(depth int) {
	for len(s.way) > depth {
		last := s.way[len(s.way)-1]
		s.way = s.way[:len(s.way)-1]
		if len(s.way) > 0 {
			above := &s.way[len(s.way)-1]
			above.Nodes += last.Nodes
			above.Bytes += last.Bytes
			above.Ephemerals += last.Ephemerals
			above.Unread += last.Unread
		}
		s.each(last)
	}
}
